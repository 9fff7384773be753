"""Rows that many users share: those of users without a history, most often all zeros.

Nothing in such a row tells one of its users from another. Moved with their groups they would part, every group to a
place of its own, and each place would spell out a label. So they stay together, where they are, and take no part.
"""

from __future__ import annotations

import torch
from torch import Tensor

from oblivec.information.target import Target

MANY = 20
"""Users with the same row from which on it is shared. A few may be equal by accident, and are protected like others."""
FEW = 8
"""Different rows of many users up to which they are shared. More make a matrix of few values, as short codes: there
users move, and `ties` keep places from spelling out anything."""


def shared_rows(U: Tensor) -> Tensor:
    """Which users have the row of at least `MANY`, themselves included."""
    _, which, sizes = torch.unique(U, dim=0, return_inverse=True, return_counts=True)
    of_many = sizes >= MANY
    return (of_many & (of_many.sum() <= FEW))[which]


def same_rows(U: Tensor, others: Tensor) -> Tensor:
    """For each of the others the number of a row of U that it equals, or -1."""
    which = torch.unique(torch.cat([U, others]), dim=0, return_inverse=True)[1]
    number = torch.full((len(U) + len(others),), -1, device=U.device)
    number[which[: len(U)]] = torch.arange(len(U), device=U.device)
    return number[which[len(U) :]]


def without(target: Target, users: Tensor) -> Target:
    """The target as if these users had no label."""
    kept = ~users[target.rows]
    return Target(target.rows[kept], target.labels[kept], target.n_classes)
