"""Bring pairs of directions to chance: where two of them together tell a group that neither tells alone.

Means, spreads and every single direction can be at chance while the groups lie in different quadrants of one plane, as
in an exclusive-or: among thousands of planes its part of any whole is too small to be seen. Here every plane is looked
at on its own, by polynomials of the users' ranks along both directions. Where a group's products stand out from chance
by far, the places in that plane are dealt out anew: every group gets those that a random group of its size has, in the
order its users had along the one direction and, among users near each other there, along the other. The plane as a
whole keeps exactly its places.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from oblivec.calibration.dense import sort_columns
from oblivec.calibration.groups import Groups, group_means

BINS = 6
"""Ranks along a direction count as so many: what is finer in a plane has too few users to be seen."""
FEWEST, FEWEST_IN_GROUP = 20, 120
"""Users for each cell of a plane, and users of a group: with fewer, nothing is looked for."""
STRIPS_PER_ROOT = 0.5
"""Strips in which a group's places are dealt out, as a share of the root of its size."""
SIGNIFICANT = 10.0
"""Standard deviations by which a group must stand out in a plane before anybody moves. Among thousands of planes and
twenty groups chance reaches 7."""
PLANES = 8
"""At most, the most telling first."""
AMONG = 128
"""Leading directions, or columns, whose planes are looked at."""
SEEN = 20_000
"""Users who are looked at, at most: enough for what attackers could learn."""


def deal_planes(Z: Tensor, groups: Groups, rng: torch.Generator) -> Tensor:
    """Z with the planes that tell dealt out anew; Z itself where none does."""
    standing = plane_standing(Z[:, :AMONG], groups)
    d = len(standing)
    for place in standing.flatten().argsort(descending=True)[:PLANES].tolist():
        if standing[place // d, place % d] <= SIGNIFICANT:
            break
        Z = _dealt(Z, [place // d, place % d], groups, rng)
    return Z


def plane_standing(Z: Tensor, groups: Groups) -> Tensor:
    """d x d, above the diagonal: how far any group's products of two directions differ from the others', in standard
    deviations of chance. The product of the ranks themselves does not count: that is a covariance, and `clipping`'s
    business."""
    every = -(-len(groups.rows) // SEEN)
    rows, order = groups.rows[::every].sort()  # not group after group: equal values are ranked as they come
    number = groups.number[::every][order]
    n, d, orders = len(rows), Z.shape[1], BINS - 1
    if n < FEWEST * BINS**2 or len(groups.members) < 2:
        return Z.new_zeros(d, d)
    seen = _polynomials(Z[rows])
    means = group_means(seen, number, len(groups.members))
    seen = seen - means[number]
    pooled = seen.T @ seen / n
    squares = seen.square()
    variance = (squares.T @ squares / n - pooled.square()).clamp_min(1e-6)
    farthest, freedom = pooled.new_zeros(d, d), orders**2 - 1
    for group in range(len(groups.members)):
        own = seen[number == group]
        if len(own) < FEWEST_IN_GROUP:
            continue
        by_chance = variance * len(own) * (1 - len(own) / n)  # groups are drawn without replacement
        squared = (own.T @ own - len(own) * pooled).square() / by_chance.clamp_min(1e-12)
        squared = squared.reshape(d, orders, d, orders).transpose(1, 2).flatten(2)[..., 1:].sum(2)
        farthest = torch.maximum(farthest, (squared - freedom) / math.sqrt(2 * freedom))
    return farthest.triu(1)


def _polynomials(seen: Tensor) -> Tensor:
    """Users x (directions x orders): of each direction's ranks, in a few bins; of unit variance, uncorrelated."""
    n, d = seen.shape
    order = sort_columns(seen)[1]
    ranked = torch.arange(n, device=seen.device) * BINS // n
    bins = torch.empty_like(order).scatter_(0, order, ranked[:, None].expand(n, d))
    normal = torch.special.ndtri((torch.arange(BINS, device=seen.device) + 0.5) / BINS)
    basis = torch.linalg.qr(normal[:, None] ** torch.arange(BINS, device=seen.device))[0][:, 1:] * math.sqrt(BINS)
    return basis[bins].flatten(1)


def _dealt(Z: Tensor, plane: list[int], groups: Groups, rng: torch.Generator) -> Tensor:
    """Z with the places in one plane dealt out."""
    places, dealt = Z[:, plane], Z.clone()
    for members, drawn in zip(groups.members, groups.permuted(rng), strict=True):
        strips = max(1, round(STRIPS_PER_ROOT * math.sqrt(len(members))))
        own, theirs = (one[_in_strips(places[one], strips)] for one in (members, drawn))
        dealt[own[:, None], torch.tensor(plane, device=Z.device)] = places[theirs]
    return dealt


def _in_strips(places: Tensor, strips: int) -> Tensor:
    """The order of users along the first direction, and within each of so many strips along the second."""
    order = places[:, 0].argsort(stable=True)
    strip = torch.arange(len(order), device=places.device) * strips // len(order)
    second = places[order, 1].argsort(stable=True)
    return order[second[strip[second].argsort(stable=True)]]
