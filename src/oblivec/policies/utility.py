"""What a release costs: ranking quality before and after; with the item side refitted, always beside the control."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from oblivec.datasets.interactions import LeaveOneOut
from oblivec.metrics import rank_test_items
from oblivec.recommenders.base import Recommender

REFIT_EPOCHS = 3


@dataclass(frozen=True)
class Utility:
    """HR@10 and NDCG@10 in percent. With a refit, `after` is the release refitted, `control` the original refitted."""

    before: dict[str, float]
    after: dict[str, float]
    control: dict[str, float] | None = None

    def loss_percent(self, metric: str = "ndcg@10") -> float:
        """How much of a metric was lost, relative to the control where there is one, else to the original."""
        reference = (self.control or self.before)[metric]
        return 100 * (reference - self.after[metric]) / reference if reference else 0.0

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"before": self.before, "after": self.after}
        return found if self.control is None else found | {"control": self.control}


def measure(
    model: Recommender, release: np.ndarray, split: LeaveOneOut, *, device: torch.device, refit_epochs: int = 0,
    seed: int = 0,
) -> tuple[Utility, Recommender]:
    """The utility of `release` in `model`, whose own user matrix is the original; and the model that serves it."""
    original = model.to(device)
    released = original.with_user_matrix(np.array(release, dtype=np.float32))
    before = _quality(original, split, device)
    if not refit_epochs:
        return Utility(before, _quality(released, split, device)), released
    refitted, control = (
        one.refit_items(split, epochs=refit_epochs, seed=seed, device=device) for one in (released, original)
    )
    return Utility(before, _quality(refitted, split, device), _quality(control, split, device)), refitted


def _quality(model: Recommender, split: LeaveOneOut, device: torch.device) -> dict[str, float]:
    return rank_test_items(model.scores, split, device=device).summary()
