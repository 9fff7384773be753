"""A user matrix and an item matrix from anywhere, scored by their dot product.

Not a recommender to train: it is what `--items` gives. Its item side can be refitted like any other, by BPR. Scores of
another library live on a scale of their own, so the refit works on rescaled tables: multiplying all users by one number
and all items by another changes no ranking, and makes one step size fit all.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from oblivec.datasets.interactions import LeaveOneOut
from oblivec.randomness import torch_rng
from oblivec.recommenders.base import Tensors, Trainer
from oblivec.recommenders.lightgcn import LightGCN, LightGCNConfig, RefitItems

ITEM_RMS = 0.3
"""Typical size of an entry of LightGCN's item matrix, which its learning rate was chosen for."""
MARGIN_STD = 1.5
"""Typical difference of two scores: where the logistic function of BPR is neither flat nor a line."""
_SAMPLE = 20_000


class DotProduct(LightGCN):
    """Scores are dot products of a user's row and an item's row."""

    name = "dot product"
    paper_settings: ClassVar[dict[str, Any]] = {}

    def _trainer(self, split: LeaveOneOut, seed: int, device: torch.device) -> Trainer:
        raise NotImplementedError("a pair of matrices from elsewhere is not trained, only refitted")

    def _refit_trainer(self, split: LeaveOneOut, seed: int, device: torch.device) -> Trainer:
        return _ScaledRefit(self.config, self.tensors, split, seed, device)


def dot_product(users: np.ndarray | Tensor, items: np.ndarray | Tensor) -> DotProduct:
    """A recommender from two matrices of the same width."""
    tables = {name: torch.as_tensor(np.array(table, dtype=np.float32)) for name, table in
              (("users", users), ("items", items))}
    return DotProduct(LightGCNConfig(dimensions=tables["users"].shape[1]), tables)  # type: ignore[call-arg]


class _ScaledRefit(RefitItems):
    """The refit in units of its own; its result is in the units of the items it was given."""

    def __init__(self, config: LightGCNConfig, tensors: Tensors, split: LeaveOneOut, seed: int, device: torch.device):
        users, items = tensors["users"], tensors["items"]
        self._unit = items.square().mean().sqrt().clamp_min(1e-30) / ITEM_RMS
        rng = torch_rng(seed, "dot product", "scale")
        rows = torch.randint(len(users), (_SAMPLE,), generator=rng).to(users.device)
        pairs = torch.randint(len(items), (2, _SAMPLE), generator=rng).to(users.device)
        margins = (users[rows] * (items[pairs[0]] - items[pairs[1]])).sum(1) / self._unit
        scale = MARGIN_STD / margins.std().clamp_min(1e-30)
        super().__init__(config, {"users": users * scale, "items": items / self._unit}, split, seed, device)

    def tensors(self) -> Tensors:
        return {"items": super().tensors()["items"] * self._unit}
