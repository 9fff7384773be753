"""What an attribute says about the next item: how much more often users of a class take each item than all users do.

Counted on training interactions of *other* users (ten folds), so that a gain in likelihood is one that somebody who
knows the attribute, and nothing else about the user, really has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from oblivec.datasets.attributes import Attribute
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.randomness import numpy_rng

FOLDS = 10
SHRUNK_BY = (10.0, 300.0)
"""Interactions of an average user that are added to every item, few and many: common and rare items, large and small
classes need one or the other, and how much of each is for whoever weighs them."""


@dataclass(frozen=True)
class GroupPopularity:
    table: Tensor
    """Folds x (classes + 1) x items x shrinkages: logarithms of a class's odds of an item relative to everybody's. The
    last class is that of users without a label, of whom nothing is known."""
    fold: Tensor
    code: Tensor

    @classmethod
    def of(cls, attribute: Attribute, split: LeaveOneOut, seed: int = 0) -> GroupPopularity:
        classes = len(attribute.classes)
        fold = numpy_rng(seed, "group popularity").integers(FOLDS, size=split.n_users)
        code = np.where(attribute.labelled, attribute.values, classes)
        table = np.zeros((FOLDS, classes + 1, split.n_items, len(SHRUNK_BY)), dtype=np.float32)
        counts = np.stack([_counts(split.train, code, classes, fold == number) for number in range(FOLDS)])
        for number in range(FOLDS):
            by_class = counts.sum(0) - counts[number]
            everybody = by_class.sum(0)
            share = by_class.sum(1, keepdims=True) / max(everybody.sum(), 1)
            for column, more in enumerate(SHRUNK_BY):
                odds = (by_class + more * share) / np.maximum((everybody + more) * share, 1e-30)
                table[number, :-1, :, column] = np.where(share > 0, np.log(np.maximum(odds, 1e-30)), 0.0)
        return cls(torch.from_numpy(table), torch.from_numpy(fold), torch.from_numpy(code.astype(np.int64)))

    def __call__(self, users: Tensor) -> Tensor:
        """Users x items x shrinkages."""
        rows = users.cpu()
        return self.table[self.fold[rows], self.code[rows]].to(users.device)


def _counts(train: csr_matrix, code: np.ndarray, classes: int, users: np.ndarray) -> np.ndarray:
    """Classes x items: interactions of these users."""
    rows = np.flatnonzero(users & (code < classes))
    members = csr_matrix((np.ones(len(rows)), (code[rows], rows)), shape=(classes, len(code)))
    return np.asarray(csr_matrix(members @ train).toarray(), dtype=np.float64)
