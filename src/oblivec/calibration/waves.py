"""Bring single directions to chance in every detail: where a group is dense in places and thin between them.

Slices compare the low orders of the groups' shapes and nothing finer, or noise would move everybody; but trees read a
fine wave along one direction all the same. Here users are dealt into narrow bins along each direction. Where the table
of bins by groups differs from independence by far more than chance, the direction's values are dealt out anew: every
group gets those that a random group of its size has, in the order its users had. The direction as a whole keeps exactly
its values, and users go no farther than their groups' ranks differ.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from oblivec.calibration.dense import sort_columns, sorted_columns
from oblivec.calibration.groups import ORDERS, Groups

BINS = 32
FEWEST_PER_BIN = 20
"""Users for each bin: fewer users, fewer bins."""
SIGNIFICANT = 4.0
"""Standard deviations by which a direction's table must differ from independence before anybody moves."""


def deal_out(Z: Tensor, groups: Groups, rng: torch.Generator, *, fine_only: bool = False) -> Tensor:
    """Z with the columns in which a group's density stands out dealt out anew; Z itself where none does.

    `fine_only` looks at what polynomials do not explain: what slices and clipping do with less movement.
    """
    columns = torch.nonzero(_standing(Z[groups.rows], groups, ORDERS if fine_only else 0) > SIGNIFICANT)[:, 0]
    if not len(columns):
        return Z
    seen, dealt = Z[:, columns], Z.clone()
    for members, drawn in zip(groups.members, groups.permuted(rng), strict=True):
        order = sort_columns(seen[members])[1]
        values = torch.empty_like(seen[members]).scatter_(0, order, sorted_columns(seen[drawn]))
        dealt[members[:, None], columns] = values
    return dealt


def _standing(seen: Tensor, groups: Groups, smooth: int) -> Tensor:
    """Per column, how far groups differ over its bins beyond polynomials of that degree, in standard deviations of
    chance. Rows group after group."""
    count = min(BINS, len(seen) // FEWEST_PER_BIN)
    if count <= smooth + 1 or len(groups.members) < 2:
        return seen.new_zeros(seen.shape[1])
    order = sort_columns(seen)[1]
    bins = torch.arange(len(seen), device=seen.device) * count // len(seen)
    place = groups.number[order] * count + bins[:, None]  # of whoever is at each rank: group and bin
    shape = len(groups.members), count, seen.shape[1]
    flat = place * shape[2] + torch.arange(shape[2], device=seen.device)
    table = torch.bincount(flat.flatten(), minlength=math.prod(shape)).reshape(shape).to(seen.dtype)
    expected = groups.shares[:, None, None] * table.sum(0)
    difference = (table - expected) / expected.sqrt()
    place = torch.linspace(-1, 1, count, device=seen.device)
    explained = torch.linalg.qr(place[:, None] ** torch.arange(smooth + 1, device=seen.device))[0]
    difference = difference - explained @ (explained.T @ difference)
    freedom = (count - 1 - smooth) * (len(groups.members) - 1)
    return (difference.square().sum((0, 1)) - freedom) / math.sqrt(2 * freedom)
