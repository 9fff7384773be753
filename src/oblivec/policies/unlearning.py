"""The whole of it for one requirement: calibrate, combine, audit before and after, measure what it cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oblivec.audit.result import AuditResult
from oblivec.datasets.attributes import Attribute
from oblivec.errors import BadInput
from oblivec.files.matrices import as_given
from oblivec.lego import Lego
from oblivec.metrics.neighbours import MOST_USERS, NEAREST, neighbour_overlap
from oblivec.policies.auditing import Auditor, audit_json
from oblivec.policies.source import Given
from oblivec.policies.utility import Utility, measure
from oblivec.recommenders.base import Recommender


@dataclass(frozen=True)
class Outcome:
    """A release and everything there is to say about it."""

    release: np.ndarray
    """In the type of the input."""
    served_by: Recommender | None
    """The model with the release in it, its item side refitted when that was asked for."""
    method: str
    requirement: list[str]
    seed: int
    config_hash: str
    seconds: dict[str, float]
    moved: float
    """Relative Frobenius change."""
    neighbours: float | None
    """Mean share of each user's 50 nearest that are still nearest; None for a single user."""
    before: AuditResult | None
    after: AuditResult | None
    utility: Utility | None
    notes: list[str]

    @property
    def leaking(self) -> list[str]:
        """Attributes that attackers still read, in either direction."""
        found = {} if self.after is None else self.after.main.attributes
        return [name for name, one in found.items() if one.verdict in ("leaks", "below_chance")]

    def to_json(self) -> dict[str, Any]:
        """The contract of `oblivec unlearn --json`."""
        found: dict[str, Any] = {
            "method": self.method, "requirement": self.requirement, "seed": self.seed, "config_hash": self.config_hash,
            "seconds": {step: round(seconds, 3) for step, seconds in self.seconds.items()},
            "moved": self.moved, "neighbours": self.neighbours, "audit": audit_json(self.before, self.after),
            "utility": None if self.utility is None else self.utility.to_json(),
        }
        return found | ({"notes": self.notes} if self.notes else {})


def unlearn(
    given: Given, requirement: Sequence[str], lego: Lego, auditor: Auditor | None, *, refit_epochs: int = 0
) -> Outcome:
    """Remove the attributes of `requirement` from the matrix. `lego` says how, `auditor` who attacks (None: nobody)."""
    lego.take(given.matrix.values, given.attributes).calibrate(requirement)
    return conclude(given, requirement, lego, auditor, refit_epochs=refit_epochs)


def conclude(
    given: Given, requirement: Sequence[str], lego: Lego, auditor: Auditor | None, *, refit_epochs: int = 0
) -> Outcome:
    """From calibrations to the release for one requirement, with its evidence."""
    names, U = lego.requirement(requirement), given.matrix.values
    combined, audited = lego.seconds["combine"], 0.0 if auditor is None else auditor.seconds  # by others, so far
    edited = lego.release(names)
    release = as_given(edited, U, lego.values)
    if not np.isfinite(release).all():
        raise BadInput(f"{given.matrix.source}: its type ({U.dtype}) is too narrow for the release; save it as float32")
    labels = labels_of(given, names)
    before = None if auditor is None else auditor.audit_each(U, labels)
    after = None if auditor is None else auditor.audit(release, labels)
    utility, served_by = None, None
    if given.model is not None and given.split is not None:
        utility, served_by = measure(
            given.model, release, given.split, device=lego.device, refit_epochs=refit_epochs, seed=lego.seed
        )
    overlap = neighbour_overlap(lego.values, edited, seed=lego.seed, device=lego.device)
    return Outcome(
        release, served_by, lego.method, names, lego.seed, lego.config_hash,
        {
            "calibrate": lego.seconds["calibrate"], "combine": lego.seconds["combine"] - combined,
            "audit": 0.0 if auditor is None else auditor.seconds - audited,
        },
        _moved(lego.values, edited.numpy()), None if math.isnan(overlap) else overlap, before, after,
        utility, _notes(given, lego, names, after, auditor is not None and after is None),
    )


def labels_of(given: Given, names: Sequence[str]) -> dict[str, Attribute]:
    """The labels of these attributes, in the order of their names: audits are kept by it."""
    return {name: given.attributes[name] for name in sorted(names)}


def _moved(before: np.ndarray, after: np.ndarray) -> float:
    scale = float(np.linalg.norm(before.astype(np.float64)))
    return float(np.linalg.norm(after.astype(np.float64) - before)) / scale if scale else 0.0


def _notes(
    given: Given, lego: Lego, names: Sequence[str], after: AuditResult | None, unattackable: bool
) -> list[str]:
    said = (f"attribute '{name}': {note}" for name in names for note in lego.facts_of(name).get("notes", []))
    notes = [*given.notes, *said, *(() if after is None else after.notes)]
    if unattackable:
        notes.append("no attribute has labels enough to be attacked, so nothing is known about what is left")
    if len(given.matrix) > MOST_USERS:
        notes.append(f"neighbours: the {NEAREST} nearest of {MOST_USERS:,} users drawn at random, among all users")
    return notes
