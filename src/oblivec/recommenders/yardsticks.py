"""What a recommender is measured against: EASE (Steck, 2019) and most-popular. Neither has a user matrix."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from oblivec.datasets.interactions import LeaveOneOut
from oblivec.errors import BadInput

_MOST_ITEMS = 30_000
"""EASE inverts an M x M matrix in double precision: 7 GB here, and growing with the square."""


class Ease:
    """Closed-form linear item-item model: ridge regression of every item on all others."""

    name = "ease"

    def __init__(self, l2: float = 500.0):
        self.l2 = l2

    def fit(self, split: LeaveOneOut) -> Ease:
        n_items = split.n_items
        if n_items > _MOST_ITEMS:
            raise BadInput(f"EASE needs a dense {n_items} x {n_items} matrix; it serves up to {_MOST_ITEMS} items")
        self._train = csr_matrix(split.train, dtype=np.float32)
        gram = np.asarray((self._train.T @ self._train).todense(), dtype=np.float64)
        gram[np.diag_indices(n_items)] += self.l2
        inverse = np.linalg.inv(gram)
        weights = inverse / -np.diag(inverse)
        weights[np.diag_indices(n_items)] = 0.0
        self._weights = weights.astype(np.float32)
        return self

    def scores(self, users: Tensor) -> Tensor:
        return torch.as_tensor(self._train[users.cpu().numpy()] @ self._weights)


class MostPopular:
    """The same list for everyone, by number of training interactions."""

    name = "popular"

    def fit(self, split: LeaveOneOut) -> MostPopular:
        self._counts = torch.as_tensor(np.asarray(split.train.sum(axis=0)).ravel(), dtype=torch.float32)
        return self

    def scores(self, users: Tensor) -> Tensor:
        return self._counts.expand(len(users), -1)
