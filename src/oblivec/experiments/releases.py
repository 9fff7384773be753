"""Make a release as a user would, and measure it: what attackers read, what the ranking lost, whose it still is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np

from oblivec.attacks.base import REGISTRY
from oblivec.attacks.panel import PANEL
from oblivec.attacks.threats import Evidence
from oblivec.audit.result import ThreatResult
from oblivec.audit.run import run_audit
from oblivec.datasets.attributes import Attribute
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.devices import resolve_device
from oblivec.lego import Lego
from oblivec.metrics import Ranking, rank_test_items
from oblivec.metrics.neighbours import neighbour_overlap
from oblivec.recommenders import Recommender

UNTOUCHED = ("paper", "boosting", "lightgbm")
"""Kinds that no method was tuned against, in any form; but `paper`, by which the last step of `lego` (its axes that
tell) was chosen on MultVAE. The others, and `gaussian`, stayed out."""
OUTSIDE = tuple(
    name for name in ("svm", "gaussian", "xgboost", "lightgbm")
    if REGISTRY[name].needs is None or find_spec(str(REGISTRY[name].needs)) is not None
)
"""Kinds beside the panel, as far as their libraries are installed. `gaussian` was added after all tuning was over."""
LIST_LENGTH = 10
_RANKS = "0123456789a"


@dataclass(frozen=True)
class Means:
    """How releases are made and attacked; where the work is done does not change what comes out."""

    method: str = "lego"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of the method."""
    attackers: Sequence[str] = (*PANEL, *OUTSIDE)
    device: str = field(default="auto", repr=False)
    jobs: int | None = field(default=None, repr=False)

    def lego(self, seed: int, *, items: np.ndarray | None = None, **more: Any) -> Lego:
        """The front door with these means; `more` overrules."""
        given: dict[str, Any] = {"device": self.device, "jobs": self.jobs} | dict(self.settings) | more
        return Lego(self.method, seed=seed, items=items, **given)

    def attack(
        self, release: np.ndarray, attributes: Mapping[str, Attribute], seed: int,
        threats: Sequence[str] = ("embeddings",), **evidence: Any,
    ) -> dict[str, Any]:
        """What the attackers read under every threat, and (`before`) from the baseline where one is given."""
        found = run_audit(
            Evidence(release, attributes, seed=seed, **evidence), threats=threats, named=True, seed=seed,
            jobs=self.jobs, device=self.device, attackers=self.attackers,
        )
        parts = dict(found.threats) | ({"before": found.before} if found.before is not None else {})
        return {name: readings(part) for name, part in parts.items()}


def readings(part: ThreatResult) -> dict[str, dict[str, Any]]:
    """An audit cut down to what is compared: score per attacker (0..1, or R2), chance and verdict."""
    return {
        name: {
            "chance": found.chance, "n": found.n, "verdict": found.verdict, "p_value": found.p_value,
            "attackers": {attacker: result.score for attacker, result in found.attackers.items()},
        }
        for name, found in part.attributes.items()
    }


def resemblance(U: np.ndarray, release: np.ndarray, seed: int, device: str) -> dict[str, float]:
    """How far the users moved, and how many of their nearest users are still nearest."""
    size, moved = (float(np.linalg.norm(part.astype(np.float64))) for part in (U, release - U))
    overlap = neighbour_overlap(U, release, seed=seed, device=resolve_device(device))
    return {"moved": moved / max(size, 1e-30), "neighbours": overlap}


def utility(
    original: Recommender, edited: Recommender, split: LeaveOneOut, *, refit_epochs: int, seed: int
) -> dict[str, Any]:
    """Ranks of the test items for the original and the edited one, and for both with the item side refitted to them.

    `control` is the original refitted the same way: what a refit gives without any unlearning.
    """
    kinds = {"before": original, "after": edited}
    if refit_epochs:
        place = original.users.device
        kinds["control"] = original.refit_items(split, epochs=refit_epochs, seed=seed, device=place)
        kinds["refit"] = edited.refit_items(split, epochs=refit_epochs, seed=seed, device=place)
    return ranked({
        name: rank_test_items(kind.scores, split, device=kind.users.device) for name, kind in kinds.items()
    })


def ranked(rankings: Mapping[str, Ranking]) -> dict[str, Any]:
    """HR@10 and NDCG@10 of each, and in `ranks` where every tested user's item stood: a digit, 0 beyond the tenth."""
    return {
        name: ranking.summary(LIST_LENGTH) | {"ranks": "".join(
            _RANKS[rank] for rank in np.where(ranking.ranks <= LIST_LENGTH, ranking.ranks, 0).tolist()
        )}
        for name, ranking in rankings.items()
    }


def unpack(ranks: str) -> Ranking:
    """The ranking behind `ranks`, exact up to the tenth place."""
    places = np.array([_RANKS.index(rank) for rank in ranks], dtype=np.int64)
    return Ranking(np.arange(len(places)), np.where(places > 0, places, LIST_LENGTH + 1))
