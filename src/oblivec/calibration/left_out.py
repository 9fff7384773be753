"""Kernel machines that look at every user as if they had never seen that one.

A machine with a kernel on every user tells its own users apart by heart. What it would say of a user without that user
takes no second fit: with A = (kernels + ridge)^-1 and weights A y, leaving user i out changes the weights by
-A_i (A y)_i / A_ii, and its value at i is y_i - (A y)_i / A_ii.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch
import torch.nn.functional as F
from torch import Tensor

from oblivec.calibration.groups import Groups
from oblivec.calibration.telling import Sight
from oblivec.engines.local import in_threads

TOGETHER = 1536
"""Users a machine learns from at most; more users are dealt into several, so that work is linear in N. Machines of
twice the size cost four times as much and leave no less to be read (docs/LABLOG.md)."""
KEPT = 64
"""Machines of a look that are kept until gradients are asked for, at most (19 MB each); others are made once more."""
DOUBT = 2.0
"""Variance of a group's mean value, as a multiple of that of independent values: every two users look at each other."""
SHARPNESS = 0.7
"""Of the Gaussian kernel, at the median squared distance between users who differ."""
SHARP = 2.0
"""The same where all directions are taken alike: about what support vectors have by default."""
RIDGE = 0.03
"""Little: what is left to find is weak along all that is smooth."""
TYPICAL = 512
"""Users between whom the typical distance is taken at most."""
SAME = 1e-6
"""Squared distance, as a share of the rows' squared length, up to which two rows are the same but for rounding."""


def by_machines(
    X: Tensor,
    attributes: Sequence[Groups],
    rng: torch.Generator,
    sharpness: float = SHARPNESS,
    together: int = TOGETHER,
) -> Sight:
    """What machines say of users they have not seen. Zero for users of no attribute."""
    values = [X.new_zeros(len(X), len(groups.members)) for groups in attributes]
    numbers = [groups.of_all(len(X)) for groups in attributes]
    users = torch.cat([groups.rows for groups in attributes]).unique()
    users = users[torch.randperm(len(users), generator=rng, device=rng.device).to(users.device)]
    parts = users.tensor_split(math.ceil(len(users) / together))
    machines: dict[int, Machine] = {}

    def look(part: int) -> None:
        users, machine = parts[part], Machine.of(X[parts[part]], sharpness)
        for value, number, groups in zip(values, numbers, attributes, strict=True):
            value[users] = machine.without_each(number[users], groups.shares)
        if part < KEPT:
            machines[part] = machine

    def gradient(attribute: int) -> Tensor:
        found = torch.zeros_like(X)
        in_threads(partial(slope, attribute, found), range(len(parts)))
        return found

    def slope(attribute: int, found: Tensor, part: int) -> None:
        users, machine = parts[part], machines.get(part) or Machine.of(X[parts[part]], sharpness)
        found[users] = machine.slopes(numbers[attribute][users], attributes[attribute].shares)

    in_threads(look, range(len(parts)))
    return Sight(values, gradient)


@dataclass(frozen=True)
class Machine:
    rows: Tensor
    """Users x d."""
    sharpness: Tensor
    kernels: Tensor
    """Users x users."""
    inverse: Tensor
    """(kernels + ridge)^-1."""

    @classmethod
    def of(cls, rows: Tensor, sharpness: float = SHARPNESS, ridge: float = RIDGE) -> Machine:
        per_square = sharpness / typical_square(rows[:TYPICAL])
        kernels = torch.cdist(rows, rows).square_().mul_(-per_square).exp_()
        kernels.diagonal().fill_(1 + ridge)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(kernels))
        kernels.diagonal().fill_(1)
        return cls(rows, per_square, kernels, inverse)

    def without_each(self, number: Tensor, shares: Tensor) -> Tensor:
        """Users x groups: everybody's value of every group's function, fitted without that user.

        One function for every group, large on its users and small on the others; `number` -1 is in no group.
        """
        wanted = wanted_of(number, shares)
        return wanted - self._change(self.inverse @ wanted)

    def slopes(self, number: Tensor, shares: Tensor) -> Tensor:
        """Users x d: the gradient of the function of everybody's own group, fitted without that user."""
        weights = self.inverse @ wanted_of(number, shares)
        towards = torch.zeros_like(self.rows)
        for group in range(len(shares)):
            users = torch.nonzero(number == group)[:, 0]
            towards[users] = self._pull(self.kernels[users], weights[:, group], users)
        towards -= self._change(weights).gather(1, number.clamp_min(0)[:, None]) * self._pull_of_change
        return 2 * self.sharpness * towards * (number >= 0)[:, None]

    def left_out(self, wanted: Tensor) -> tuple[Tensor, Iterator[Tensor]]:
        """One function for every column of `wanted`: everybody's values, users x columns, and per column everybody's
        gradient, users x d, each of the function fitted without that user."""
        weights = self.inverse @ wanted
        change = self._change(weights)
        gradients = (
            2 * self.sharpness * (self._pull(self.kernels, weight, slice(None)) - own[:, None] * self._pull_of_change)
            for weight, own in zip(weights.T, change.T, strict=True)
        )
        return wanted - change, gradients

    def _change(self, weights: Tensor) -> Tensor:
        """By how much everybody's own value falls when that user is left out."""
        return weights / self.inverse.diagonal()[:, None]

    @cached_property
    def _pull_of_change(self) -> Tensor:
        return self._pull(self.inverse * self.kernels, self.rows.new_ones(len(self.rows)), slice(None))

    def _pull(self, kernels: Tensor, weights: Tensor, users: Tensor | slice) -> Tensor:
        """Sum over j of kernels_ij weights_j (row_j - row_i)."""
        return kernels @ (weights[:, None] * self.rows) - (kernels @ weights)[:, None] * self.rows[users]


def wanted_of(number: Tensor, shares: Tensor) -> Tensor:
    """Users x groups: what a function should say, large on the users of its group; zero for those of none."""
    return (F.one_hot(number.clamp_min(0), len(shares)) - shares) * (number >= 0)[:, None]


def typical_square(rows: Tensor) -> Tensor:
    """Median squared distance between rows. Equal rows do not count: of users with no history there may be many."""
    squares = torch.cdist(rows, rows).square()
    floor = SAME * rows.square().sum(1).mean() + 1e-30
    apart = squares[squares > floor]
    return apart.median() if len(apart) else floor
