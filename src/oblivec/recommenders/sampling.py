"""Training pairs and uniform negatives, with no work per sample in Python."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from oblivec.datasets.interactions import LeaveOneOut


class Pairs:
    """The positive (user, item) pairs of the training matrix, and draws from everything else.

    A user who has seen the whole catalogue has no negatives and is left out.
    """

    def __init__(self, split: LeaveOneOut, device: torch.device | str):
        train = csr_matrix(split.train, copy=True)
        train.sum_duplicates()
        seen = np.diff(train.indptr)
        self.n_items = split.n_items
        users = np.repeat(np.arange(split.n_users), seen)
        kept = seen[users] < self.n_items
        self.users = torch.as_tensor(users[kept], device=device)
        self.items = torch.as_tensor(train.indices[kept].astype(np.int64), device=device)
        # Ascending, because the rows of a CSR matrix are and sum_duplicates() sorts within them.
        self._keys = self.users * self.n_items + self.items

    def __len__(self) -> int:
        return len(self.users)

    def contains(self, users: Tensor, items: Tensor) -> Tensor:
        keys = users * self.n_items + items
        return self._keys[torch.searchsorted(self._keys, keys).clamp_(max=len(self._keys) - 1)] == keys

    def negatives(self, users: Tensor, generator: torch.Generator) -> Tensor:
        """One unseen item for each of `users`, uniform over that user's unseen items (by rejection)."""
        items = torch.randint(self.n_items, users.shape, generator=generator, device=users.device)
        wrong = self.contains(users, items).nonzero().squeeze(1)
        while len(wrong):
            items[wrong] = torch.randint(self.n_items, wrong.shape, generator=generator, device=users.device)
            wrong = wrong[self.contains(users[wrong], items[wrong])]
        return items


def batches(count: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """A fresh random order of `count` examples in pieces of `size`; the last piece may be smaller."""
    yield from torch.randperm(count, generator=generator, device=generator.device).split(size)


def adam(parameters: list[Tensor], learning_rate: float, weight_decay: float = 0.0) -> torch.optim.Adam:
    """Adam as one kernel over all tables: no temporary copies of them, on the CPU as on a GPU."""
    return torch.optim.Adam(parameters, lr=learning_rate, weight_decay=weight_decay, fused=True)
