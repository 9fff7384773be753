"""The two-dimensional view: how the classes of an attribute lie in the plane that separates them best.

The plane is learned on one half of the users and drawn with the other half. Drawn with the users it was learned on, a
plane chosen among d directions separates pure noise, and the picture would show a leak that is not there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import linalg, sparse

from oblivec.audit.result import SMALLEST_CELL, DensityView
from oblivec.datasets.attributes import MISSING, Attribute
from oblivec.randomness import numpy_rng

MOST_USERS = 1_000_000
CHUNK = 65_536
FEWEST_COLUMNS, MOST_COLUMNS = 4, 24
ROWS_PER_COLUMN = 2 / 3
USERS_PER_CELL_AND_CLASS = 15
"""What the grid aims at, so that most cells of the picture can be shown at all."""
CLASSES_COMPARED = 6
"""More maps than this cannot be compared by eye; the grid does not get coarser for more classes."""
NARROWEST = 1e-12
"""Variance, relative to the widest direction's, under which a direction is rounding error."""
USERS_PER_DIRECTION = 5
"""With fewer users than this per direction, only the widest directions are searched: the rest would be noise."""
OUTSIDE = 0.01
"""Share of users left out at each end of each axis, so that a few extreme ones do not shrink the rest."""


def density_view(U: np.ndarray, attribute: Attribute, seed: int) -> DensityView:
    """Users per cell and class; cells of fewer than `SMALLEST_CELL` users are zero.

    Classes go from largest to smallest; a continuous attribute is cut in thirds: low, middle, high. O(N d^2), in
    chunks, on at most `MOST_USERS` users.
    """
    codes, n_classes = _ranked(attribute)
    users = numpy_rng(seed, "density", attribute.name).permutation(np.flatnonzero(codes != MISSING))[:MOST_USERS]
    half = len(users) // 2
    learned, drawn = np.sort(users[:half]), np.sort(users[half:])
    columns, rows = _grid(len(drawn), n_classes)
    if half < 2:
        return DensityView(attribute.name, np.zeros((n_classes, rows, columns), dtype=np.int64))
    plane = separating_plane(U, learned, codes[learned], n_classes)
    rows = rows if plane.shape[1] == 2 else 1
    points = np.concatenate([x @ plane for x, _ in _chunks(U, drawn)])
    across, inside = _bins(points[:, 0], columns)
    up = np.zeros(len(points), dtype=np.int64)
    if plane.shape[1] == 2:
        up, also_inside = _bins(points[:, 1], rows)
        inside &= also_inside
    flat = ((codes[drawn] * rows + up) * columns + across)[inside]
    cells = np.bincount(flat, minlength=n_classes * rows * columns).reshape(n_classes, rows, columns)
    return DensityView(attribute.name, np.where(cells.sum(axis=0) < SMALLEST_CELL, 0, cells))


def separating_plane(U: np.ndarray, users: np.ndarray, codes: np.ndarray, n_classes: int) -> np.ndarray:
    """d x 2: the two best directions of a discriminant analysis (d x 1 when the users lie on a line).

    Found in the whitened space, so that a leak in a narrow direction is seen like one in a wide direction. Two classes
    have only one such direction; the second axis is then the widest one uncorrelated with it.
    """
    d = U.shape[1]
    counts = np.bincount(codes, minlength=n_classes).astype(np.float64)
    sums = np.zeros((n_classes, d))
    for x, at in _chunks(U, users):
        sums += sparse.csr_array((np.ones(len(x)), (codes[at], np.arange(len(x)))), shape=(n_classes, len(x))) @ x
    means = sums / np.maximum(counts, 1)[:, None]
    within = np.zeros((d, d))
    for x, at in _chunks(U, users):
        x -= means[codes[at]]
        within += x.T @ x
    centred = means - sums.sum(axis=0) / len(users)
    between = (centred * (counts / len(users))[:, None]).T @ centred
    total = within / len(users) + between
    variances, directions = linalg.eigh(total)
    kept = variances > NARROWEST * variances[-1]
    kept[: -max(2, len(users) // USERS_PER_DIRECTION)] = False
    if variances[-1] <= 0 or not kept.any():
        return np.eye(d)[:, :2]
    white = directions[:, kept] / np.sqrt(variances[kept])
    best = white @ linalg.eigh(white.T @ between @ white)[1][:, ::-1]
    if best.shape[1] == 1 or (counts > 0).sum() > 2:
        return _signed(best[:, :2])
    taken = total @ best[:, :1]
    rest = np.eye(d) - taken @ taken.T / (taken**2).sum()
    widest = linalg.eigh(rest @ total @ rest)[1][:, -1:]
    return _signed(np.hstack([best[:, :1], widest]))


def _ranked(attribute: Attribute) -> tuple[np.ndarray, int]:
    """Class codes renumbered from largest to smallest, empty classes left out; thirds of a continuous attribute."""
    labelled = attribute.labelled
    codes = np.full(len(labelled), MISSING, dtype=np.int64)
    if attribute.is_continuous:
        values = attribute.values[labelled]
        edges = np.quantile(values, [1 / 3, 2 / 3]) if len(values) else np.zeros(2)
        codes[labelled] = np.searchsorted(edges, values, side="left")
        return codes, 3
    counts = attribute.counts
    order = np.argsort(-counts, kind="stable")
    rank = np.empty(len(counts), dtype=np.int64)
    rank[order] = np.arange(len(counts))
    codes[labelled] = rank[attribute.values[labelled]]
    return codes, int((counts > 0).sum())


def _grid(users: int, n_classes: int) -> tuple[int, int]:
    """Columns and rows: as fine as keeps most cells above the smallest that may be shown."""
    cells = users / (USERS_PER_CELL_AND_CLASS * min(max(n_classes, 1), CLASSES_COMPARED))
    columns = int(np.clip(round((cells / ROWS_PER_COLUMN) ** 0.5), FEWEST_COLUMNS, MOST_COLUMNS))
    return columns, round(columns * ROWS_PER_COLUMN)


def _bins(values: np.ndarray, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """The bin of each value between the outer quantiles, and which values lie between them."""
    low, high = np.quantile(values, [OUTSIDE, 1 - OUTSIDE])
    inside = (values >= low) & (values <= high)
    width = (high - low) / bins or 1.0
    return np.clip((values - low) / width, 0, bins - 1).astype(np.int64), inside


def _chunks(U: np.ndarray, users: np.ndarray) -> Iterator[tuple[np.ndarray, slice]]:
    """Rows of U as float64, a chunk at a time, with their place among `users`."""
    for start in range(0, len(users), CHUNK):
        at = slice(start, start + CHUNK)
        yield np.asarray(U[users[at]], dtype=np.float64), at


def _signed(directions: np.ndarray) -> np.ndarray:
    """Fix the arbitrary sign, so that the same seed draws the same picture everywhere."""
    largest = np.abs(directions).argmax(axis=0)
    return directions * np.where(directions[largest, np.arange(directions.shape[1])] < 0, -1.0, 1.0)
