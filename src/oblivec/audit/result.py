"""What an audit found: plain data, and the JSON contract it is written in.

Nothing here identifies a user. Classes appear by rank of size ("class 1" is the largest), never by name; counts under
`SMALLEST_CELL` are suppressed by whoever prints them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

SMALLEST_CELL = 10
"""Fewer users than this are never shown as a number or a picture."""

Verdict = Literal["leaks", "below_chance", "at_chance", "undecided"]


@dataclass(frozen=True)
class AttackerResult:
    """One attacker on one attribute. `score` is balanced accuracy, or R2 for a continuous attribute."""

    score: float
    ci: tuple[float, float]
    p_value: float
    micro_f1: float | None = None
    auc: float | None = None
    confusion: np.ndarray | None = None
    """Users by true class (rows) and predicted class (columns), classes from largest to smallest."""


@dataclass(frozen=True)
class AttributeResult:
    name: str
    continuous: bool
    chance: float
    n: int
    missing: int
    class_sizes: tuple[int, ...]
    """Labelled users per class, largest first; empty for a continuous attribute."""
    p_value: float
    worst: str
    verdict: Verdict
    attackers: dict[str, AttackerResult]
    smallest_leak: float
    """The smallest distance from chance this audit would have found four times out of five."""
    users_to_decide: int | None = None
    """Labelled users that would settle an `undecided` verdict."""
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        metric = "r2" if self.continuous else "bacc"
        attackers = {}
        for name, attacker in self.attackers.items():
            row: dict[str, Any] = {metric: attacker.score, "ci": list(attacker.ci)}
            if not self.continuous:
                row |= {"micro_f1": attacker.micro_f1, "auc": attacker.auc}
            attackers[name] = row | {"p_value": attacker.p_value}
        value: dict[str, Any] = {
            "chance": self.chance, "n": self.n, "missing": self.missing, "p_value": self.p_value,
            "worst": self.worst, "verdict": self.verdict, "smallest_leak": self.smallest_leak, "attackers": attackers,
        }
        if self.users_to_decide is not None:
            value["users_to_decide"] = self.users_to_decide
        if self.notes:
            value["notes"] = list(self.notes)
        return value


@dataclass(frozen=True)
class ThreatResult:
    """The panel under one threat. `who` says in plain words who this attacker is."""

    name: str
    who: str
    attributes: dict[str, AttributeResult]

    def to_json(self) -> dict[str, Any]:
        return {"who": self.who, "attributes": {name: found.to_json() for name, found in self.attributes.items()}}


@dataclass(frozen=True)
class DensityView:
    """How the classes of one attribute lie in the plane that separates them best: users per cell and class.

    `cells[c, i, j]` counts class c (largest first) in cell i (vertical), j (horizontal); cells whose total is under
    `SMALLEST_CELL` are zero for every class.
    """

    attribute: str
    cells: np.ndarray


@dataclass(frozen=True)
class AuditResult:
    protocol: str
    margin: float
    seed: int
    p_value: float
    users: int
    dimensions: int
    threats: dict[str, ThreatResult]
    """In the order they were asked for; the first is the one `attributes` of the JSON repeats."""
    before: ThreatResult | None = None
    """The same attack on the `--baseline` matrix, when one was given."""
    views: tuple[DensityView, ...] = ()
    untested: dict[str, str] = field(default_factory=dict)
    """Threats that were not tested, each with who that attacker is."""
    notes: tuple[str, ...] = ()

    @property
    def main(self) -> ThreatResult:
        return next(iter(self.threats.values()))

    @property
    def leaks(self) -> bool:
        """Whether any verdict, under any threat, is a leak in either direction."""
        return any(
            found.verdict in ("leaks", "below_chance")
            for threat in self.threats.values()
            for found in threat.attributes.values()
        )

    def to_json(self) -> dict[str, Any]:
        """The audit JSON contract."""
        value: dict[str, Any] = {
            "protocol": self.protocol, "threat": self.main.name, "margin": self.margin, "seed": self.seed,
            "p_value": self.p_value, "users": self.users, "dimensions": self.dimensions,
            "attributes": self.main.to_json()["attributes"],
            "threats": {name: threat.to_json() for name, threat in self.threats.items()},
        }
        if self.before is not None:
            value["before"] = self.before.to_json()
        if self.notes:
            value["notes"] = list(self.notes)
        return value
