"""Is a release still the users'? How many of each user's nearest users are still nearest after the edit."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from oblivec.errors import BadInput
from oblivec.randomness import torch_rng

NEAREST = 50
MOST_USERS = 5000
"""Users whose neighbours are looked up (among all users); of more, so many are drawn. The mean's standard error is then
under a third of a percentage point."""
_CHUNK_DISTANCES = 1 << 24


def neighbour_overlap(
    before: np.ndarray | Tensor,
    after: np.ndarray | Tensor,
    *,
    nearest: int = NEAREST,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> float:
    """Mean share of each user's `nearest` other users, by Euclidean distance, that are the same before and after.

    1 for an unchanged matrix; about `nearest` / N for one with no relation to the other. NaN for a single user.
    """
    old, new = (torch.as_tensor(matrix).to(device).float() for matrix in (before, after))
    if len(old) != len(new):
        raise BadInput(f"neighbours: {len(old)} users before and {len(new)} after; give the same users in one order")
    nearest = min(nearest, len(old) - 1)
    if nearest < 1:
        return float("nan")
    users = torch.arange(len(old))
    if len(users) > MOST_USERS:
        users = torch.randperm(len(users), generator=torch_rng(seed, "neighbours"))[:MOST_USERS].sort().values
    # Centred: far from the origin, distances would be all rounding.
    old, new = (matrix - matrix.mean(0) for matrix in (old, new))
    lengths = [matrix.square().sum(1) for matrix in (old, new)]
    shared = 0
    for rows in users.to(old.device).split(max(1, _CHUNK_DISTANCES // len(old))):
        was, now = (_nearest(*one, rows, nearest) for one in zip((old, new), lengths, strict=True))
        member = torch.zeros(len(rows), len(old), dtype=torch.bool, device=old.device)
        shared += int(member.scatter_(1, was, True).gather(1, now).sum())
    return shared / (len(users) * nearest)


def _nearest(matrix: Tensor, squared_lengths: Tensor, rows: Tensor, count: int) -> Tensor:
    """Numbers of the `count` users nearest to each of `rows`, the user themself left out."""
    # |x - y|^2 less |x|^2, which is the same for all y.
    distance = squared_lengths - 2 * (matrix[rows] @ matrix.T)
    distance[torch.arange(len(rows), device=rows.device), rows] = torch.inf
    return distance.topk(count, dim=1, largest=False).indices
