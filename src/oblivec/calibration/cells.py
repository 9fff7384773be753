"""Bring the groups' shares in every region of the matrix to chance, by moving some users to another region.

Where users form clusters that lean to a group strongly, with gaps between them, no small movement helps: what `regions`
sees gets nobody across. Here regions are cells of a k-means. Where the table of cells by groups differs from
independence by more than chance, users drawn at random among those too many, rather near the border than far from it,
are mirrored into the nearest cell that lacks their group.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from oblivec.calibration.groups import Groups
from oblivec.calibration.regions import k_means

CELLS = 32
FEWEST_PER_CELL = 20
"""Users for each cell: fewer users, fewer cells."""
SIGNIFICANT = 4.0
"""Standard deviations by which the table must differ from independence before anybody moves."""
PLANES = 8
"""Pairs of columns at most, the most telling first."""
AT_THE_BORDER = 0.02
"""How near the border between two cells, as a share of their distance, users are all as likely to be moved."""


def even_cells(X: Tensor, groups: Groups, rng: torch.Generator, least: float = 0.0) -> Tensor:
    """X with users moved between cells until the groups are spread over them as random groups would be.

    Only where cells explain more than the share `least` of who is in which group.
    """
    rows = groups.rows
    count = min(CELLS, len(rows) // FEWEST_PER_CELL)
    if count < 2 or len(groups.members) < 2:
        return X
    centres, cell = _cells(X[rows], count, rng)
    table = np.zeros((count, len(groups.members)))
    np.add.at(table, (cell.cpu().numpy(), groups.number.cpu().numpy()), 1)
    wanted = _by_chance(table, least)
    if wanted is None:
        return X
    distances = torch.cdist(centres, centres).cpu().numpy()
    X = X.clone()
    for group in range(table.shape[1]):
        surplus = np.rint(table[:, group] - wanted[:, group]).astype(int)
        for source, target, users in _shortest_moves(surplus, distances):
            inside = torch.nonzero((groups.number == group) & (cell == source))[:, 0]
            way = centres[target] - centres[source]
            middle = (centres[target] + centres[source]) / 2
            beyond = (X[rows[inside]] - middle) @ way / way.square().sum()  # -1/2 at the source, 0 half-way
            likely = 1 / (beyond.abs() + AT_THE_BORDER)
            chosen = torch.multinomial(likely.to(rng.device), users, generator=rng).to(inside.device)
            X[rows[inside[chosen]]] -= 2 * beyond[chosen, None] * way
            cell[inside[chosen]] = target
    return X


def even_planes(Z: Tensor, groups: Groups, rng: torch.Generator, least: float = 0.0) -> Tensor:
    """Z with `even_cells` done in the plane of any two columns whose signs go together in a group but not in others.

    A leak in one pair of columns (the groups' quadrants differ, their covariances no longer) is lost in cells made from
    all of them.
    """
    signs = (Z[groups.rows] - Z[groups.rows].mean(0)).sign()
    together = signs.T @ signs / len(signs)
    d, start = Z.shape[1], 0
    edge = math.sqrt(2 * math.log(d * d / 2 + 1))  # the largest of so many standard normals, about
    telling = torch.zeros_like(together)
    for members in groups.members:
        n, own = len(members), signs[start : start + len(members)]
        start += n
        if n >= FEWEST_PER_CELL and n < len(signs):
            noise = ((1 - together.square()).clamp_min(1e-6) * (1 - n / len(signs)) / n).sqrt()
            telling = torch.maximum(telling, ((own.T @ own / n - together) / noise).abs())
    strength = telling.triu(1).flatten()
    for pair in strength.argsort(descending=True)[:PLANES].tolist():
        if strength[pair] > edge:
            plane = [pair // d, pair % d]
            Z = Z.clone()
            Z[:, plane] = even_cells(Z[:, plane], groups, rng, least)
    return Z


def _cells(rows: Tensor, count: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Centres, and everybody's nearest."""
    centres = k_means(rows, count, rng)
    return centres, torch.cat([torch.cdist(part, centres).argmin(1) for part in rows.split(65_536)])


def _by_chance(table: np.ndarray, least: float) -> np.ndarray | None:
    """The table with its difference from independence shortened to what chance gives; None when it is no longer, or
    explains no more than the share `least`."""
    expected = table.sum(1, keepdims=True) * table.sum(0) / table.sum()
    difference = table - expected
    squared = float((difference**2 / np.maximum(expected, 1e-12)).sum())
    freedom = (table.shape[0] - 1) * (table.shape[1] - 1)
    if squared < freedom + max(SIGNIFICANT * math.sqrt(2 * freedom), least * table.sum()):
        return None
    return expected + difference * math.sqrt(freedom / squared)


def _shortest_moves(surplus: np.ndarray, distances: np.ndarray) -> list[tuple[int, int, int]]:
    """(from, to, users), the nearest pairs of cells first, until nothing is left over or nothing is lacking."""
    left = surplus.copy()
    sources, targets = np.flatnonzero(left > 0), np.flatnonzero(left < 0)
    pairs = sorted((distances[a, b], a, b) for a in sources for b in targets)
    moves = []
    for _, a, b in pairs:
        users = min(left[a], -left[b])
        if users > 0:
            left[a] -= users
            left[b] += users
            moves.append((int(a), int(b), int(users)))
    return moves
