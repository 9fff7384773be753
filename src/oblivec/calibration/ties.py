"""Values that many users share in a column: the zeros of non-negative factors, the steps of a quantised matrix.

Moved with their groups, users who were tied would part, every group to a spot of its own along the column, and trees
read spots. So ties are first taken apart, at random: a value becomes an interval, as wide as its share of the users,
and what lies above moves up. There the groups are brought to chance, and then every interval becomes its value again:
a function of what is at chance. Zeros stay zeros, codes stay codes, and nothing is negative that was not.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from oblivec.calibration.shared import MANY

UNIFORM = 4.0
"""A uniform density is so many times as wide as its mean distance from the mean: all users together would be as wide,
were all tied."""


@dataclass(frozen=True)
class Ties:
    columns: dict[int, _Intervals]
    """Those with a value that `MANY` users share: a few may be equal by accident."""

    @classmethod
    def of(cls, U: Tensor) -> Ties:
        found = {}
        for number, column in enumerate(U.T):
            values, counts = torch.unique(column, return_counts=True)
            if len(values) > 1 and counts.max() >= MANY:
                found[number] = _Intervals.of(column, values.double(), counts)
        return cls(found)

    def apart(self, U: Tensor, rng: torch.Generator) -> Tensor:
        """U with every value at a random place in its interval."""
        if not self.columns:
            return U
        parted = U.clone()
        columns, which = torch.unique(U, dim=1, return_inverse=True)  # columns that repeat each other go on doing so
        places = torch.rand(columns.shape, generator=rng, device=rng.device).to(U.device)
        for number, intervals in self.columns.items():
            parted[:, number] = intervals.apart(U[:, number], places[:, which[number]])
        return parted

    def centred(self, parted: Tensor) -> Tensor:
        """Every place in an interval as the interval's middle: nothing that will not be released is seen any more."""
        U = parted.clone()
        for number, intervals in self.columns.items():
            U[:, number] = intervals.centred(parted[:, number])
        return U

    def together(self, parted: Tensor) -> Tensor:
        """Every place as the value it stands for."""
        U = parted.clone()
        for number, intervals in self.columns.items():
            U[:, number] = intervals.together(parted[:, number])
        return U


@dataclass(frozen=True)
class _Intervals:
    """A column's values, each with an interval; that of a value which one user has is a point. Between two that are
    shared there is nothing: each has half of what lies between."""

    values: Tensor
    left: Tensor
    right: Tensor

    @classmethod
    def of(cls, column: Tensor, values: Tensor, counts: Tensor) -> _Intervals:
        spread = UNIFORM * (column.double() - column.double().mean()).abs().mean()
        shared = counts > 1
        width = torch.where(shared, counts / len(column), 0) * spread
        right = values + width.cumsum(0)
        left = right - width
        halves = torch.where(shared[1:] & shared[:-1], left[1:] - right[:-1], 0) / 2
        right[:-1] += halves
        left[1:] -= halves
        return cls(values, left, right)

    def apart(self, column: Tensor, place: Tensor) -> Tensor:
        which = torch.searchsorted(self.values, column.double()).clamp_max(len(self.values) - 1)
        return torch.lerp(self.left[which], self.right[which], place.double()).to(column.dtype)

    def centred(self, parted: Tensor) -> Tensor:
        place = parted.double()
        which = torch.searchsorted(self.right, place).clamp_max(len(self.right) - 1)
        inside = (place >= self.left[which]) & (place <= self.right[which])
        return torch.where(inside, (self.left[which] + self.right[which]) / 2, place).to(parted.dtype)

    def together(self, parted: Tensor) -> Tensor:
        """Between intervals the values between; beyond a shared value at an end that value."""
        place, last, shared = parted.double(), len(self.values) - 1, self.right > self.left
        which = torch.searchsorted(self.right, place).clamp_max(last)
        below = (place - self.left[which]).clamp_max(0)
        above = (place - self.right[which]).clamp_min(0)  # of the last
        ends = shared[which] & ((which == 0) | (above > 0))
        return (self.values[which] + torch.where(ends, 0, below + above)).to(parted.dtype)
