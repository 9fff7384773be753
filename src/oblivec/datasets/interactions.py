"""Who interacted with what, and the leave-one-out split of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix


@dataclass(frozen=True)
class Interactions:
    """Rows in file order. `users` and `items` are row numbers of the user and item matrices."""

    users: np.ndarray
    items: np.ndarray
    timestamps: np.ndarray | None
    user_keys: np.ndarray
    """Key of each user as the data set gives it, in row order of the user matrix."""
    item_keys: np.ndarray
    held_out: np.ndarray | None = None
    """Which rows the data set itself says are for testing; None when leave-one-out is left to us."""

    @property
    def n_users(self) -> int:
        return len(self.user_keys)

    @property
    def n_items(self) -> int:
        return len(self.item_keys)

    def __len__(self) -> int:
        return len(self.users)


@dataclass(frozen=True)
class LeaveOneOut:
    """Each user's last interaction held out; everything else trains.

    `train` is a binary N x M matrix. `test_items[u]` is -1 for a user with nothing to test (a single interaction).
    """

    train: csr_matrix
    test_items: np.ndarray
    tie_rule: str

    @property
    def n_users(self) -> int:
        return len(self.test_items)

    @property
    def n_items(self) -> int:
        return self.train.shape[1]  # type: ignore[index]

    @property
    def tested_users(self) -> np.ndarray:
        return np.flatnonzero(self.test_items >= 0)
