"""Kernel machines that look at every user as if they had never seen that one.

A machine with a kernel on every user tells its own users apart by heart. What it would say of a user without that user
takes no second fit: with A = (kernels + ridge)^-1 and weights A y, leaving user i out changes the weights by
-A_i (A y)_i / A_ii, and its value at i is y_i - (A y)_i / A_ii.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from oblivec.calibration.groups import Groups
from oblivec.engines.local import in_threads

TOGETHER = 1536
"""Users a machine learns from at most; more users are dealt into several, so that work is linear in N. Machines of
twice the size cost four times as much and leave no less to be read (docs/LABLOG.md)."""
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
) -> tuple[list[Tensor], list[Tensor]]:
    """For every attribute: users x groups, how far each is taken for a member of each group; and users x d, the
    gradient of that of the user's own group. Zero for users of no attribute."""
    values = [X.new_zeros(len(X), len(groups.members)) for groups in attributes]
    gradients = [torch.zeros_like(X) for _ in attributes]
    numbers = [groups.of_all(len(X)) for groups in attributes]

    def look(users: Tensor) -> None:
        machine = Machine.of(X[users], sharpness)
        for value, gradient, number, groups in zip(values, gradients, numbers, attributes, strict=True):
            value[users], gradient[users] = machine.without_each(number[users], groups.shares)

    users = torch.cat([groups.rows for groups in attributes]).unique()
    users = users[torch.randperm(len(users), generator=rng, device=rng.device).to(users.device)]
    in_threads(look, users.tensor_split(math.ceil(len(users) / together)))
    return values, gradients


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

    def without_each(self, number: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
        """One function for every group, large on its users and small on the others; `number` -1 is in no group.

        Everybody's value of every group's function, and the gradient of the one of its own group, each of the function
        fitted without that user.
        """
        inside, own = (number >= 0)[:, None], number.clamp_min(0)
        wanted = (F.one_hot(own, len(shares)) - shares) * inside
        weights = self.inverse @ wanted
        change = weights / self.inverse.diagonal()[:, None]
        towards = torch.zeros_like(self.rows)
        for group in range(len(shares)):
            users = torch.nonzero(number == group)[:, 0]
            towards[users] = self._pull(self.kernels[users], weights[:, group], users)
        towards -= change.gather(1, own[:, None]) * self._pull_of_change
        return wanted - change, 2 * self.sharpness * towards * inside

    def left_out(self, wanted: Tensor) -> tuple[Tensor, Iterator[Tensor]]:
        """One function for every column of `wanted`: everybody's values, users x columns, and per column everybody's
        gradient, users x d, each of the function fitted without that user."""
        weights = self.inverse @ wanted
        change = weights / self.inverse.diagonal()[:, None]
        gradients = (
            2 * self.sharpness * (self._pull(self.kernels, weight, slice(None)) - own[:, None] * self._pull_of_change)
            for weight, own in zip(weights.T, change.T, strict=True)
        )
        return wanted - change, gradients

    @cached_property
    def _pull_of_change(self) -> Tensor:
        return self._pull(self.inverse * self.kernels, self.rows.new_ones(len(self.rows)), slice(None))

    def _pull(self, kernels: Tensor, weights: Tensor, users: Tensor | slice) -> Tensor:
        """Sum over j of kernels_ij weights_j (row_j - row_i)."""
        return kernels @ (weights[:, None] * self.rows) - (kernels @ weights)[:, None] * self.rows[users]


def typical_square(rows: Tensor) -> Tensor:
    """Median squared distance between rows. Equal rows do not count: of users with no history there may be many."""
    squares = torch.cdist(rows, rows).square()
    floor = SAME * rows.square().sum(1).mean() + 1e-30
    apart = squares[squares > floor]
    return apart.median() if len(apart) else floor
