"""Votes of the nearest training users at several scales at once: exact, and never sorting what is far away.

All that is needed of a neighbourhood of k users is its radius, the distance of the k-th nearest; whoever lies within it
votes. Users equally far, down to the last bit, are within together, so that the result does not depend on their order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy.sparse import csr_matrix

BLOCK_BYTES = {"cpu": 4 << 20, "cuda": 1 << 30}
"""Of closeness held at once. A processor's cache holds a small block; an accelerator wants large ones."""
GROUPS_PER_NEIGHBOUR = 2
"""Groups a row is cut into to bound its radius, per neighbour sought: more bound it better, and cost more."""


def nearest_votes(
    query: torch.Tensor, train: torch.Tensor, ballots: torch.Tensor, scales: Sequence[int], weights: Sequence[float]
) -> torch.Tensor:
    """For every query the mean ballot within each radius, added with `weights`. `scales` ascend, up to `len(train)`.

    O(queries x train x d) for the distances, which is most of it: what follows is a few passes over them.
    """
    # Closeness 2qx - |x|^2 orders the training users as distance does; the second term rides along in the product.
    right = torch.cat([2 * train, -train.square().sum(1, keepdim=True)], dim=1).T.contiguous()
    left = torch.cat([query, torch.ones(len(query), 1, device=query.device)], dim=1)
    rows = max(BLOCK_BYTES.get(query.device.type, 1 << 30) // (4 * len(train)), 1)
    count = _count_sparse if query.device.type == "cpu" else _count_dense
    return torch.cat([count(block @ right, ballots, scales, weights) for block in left.split(rows)])


def _count_dense(
    closeness: torch.Tensor, ballots: torch.Tensor, scales: Sequence[int], weights: Sequence[float]
) -> torch.Tensor:
    """For accelerators: a vote of every training user for every query, most of them 0."""
    radii = closeness.topk(scales[-1], dim=1).values[:, [k - 1 for k in scales]]
    votes = torch.zeros_like(closeness)
    for number, weight in enumerate(weights):
        within = closeness >= radii[:, number, None]
        votes += within * (weight / within.sum(1, keepdim=True))
    return votes @ ballots


def _count_sparse(
    closeness: torch.Tensor, ballots: torch.Tensor, scales: Sequence[int], weights: Sequence[float]
) -> torch.Tensor:
    """For processors: only those who may be near are looked at again."""
    near = closeness.numpy()
    flat = np.flatnonzero(near >= _bound(near, scales[-1])[:, None])
    closest, (row, column) = near.ravel()[flat], np.divmod(flat, near.shape[1])
    length = np.bincount(row, minlength=len(near))
    ends = np.r_[0, np.cumsum(length)]
    table = np.full((len(near), length.max()), -np.inf, dtype=near.dtype)
    table[np.arange(table.shape[1]) < length[:, None]] = closest  # both in order of rows
    table.sort(axis=1)
    vote = np.zeros(len(row), dtype=near.dtype)
    for k, weight in zip(scales, weights, strict=True):
        within = closest >= np.repeat(table[:, -k], length)
        share = weight / np.add.reduceat(within, ends[:-1], dtype=near.dtype)
        vote += within * np.repeat(share, length)
    return torch.from_numpy(csr_matrix((vote, column, ends), shape=near.shape) @ ballots.numpy())


def _bound(near: np.ndarray, k: int) -> np.ndarray:
    """For every row a value that its k-th largest does not fall below, and few others reach.

    A row is cut into groups. If k groups have a maximum of at least t, k values are at least t.
    """
    groups = GROUPS_PER_NEIGHBOUR * k
    size = near.shape[1] // groups
    if size < 2:
        return np.full(len(near), -np.inf, dtype=near.dtype)
    largest = near[:, : size * groups].reshape(len(near), size, groups).max(1)
    largest.sort(axis=1)  # vectorised in numpy, and so faster than a partition
    return largest[:, -k]
