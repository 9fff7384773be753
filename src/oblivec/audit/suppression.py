"""Counts a reader may see: nothing under `SMALLEST_CELL` users, directly or by subtraction."""

from __future__ import annotations

import numpy as np

from oblivec.audit.result import SMALLEST_CELL


def shown_count(users: int) -> str:
    """A number of users, or that it is too small to print."""
    return f"fewer than {SMALLEST_CELL}" if 0 < users < SMALLEST_CELL else f"{users:,}"


def row_shares(confusion: np.ndarray) -> np.ndarray:
    """Each row of a confusion matrix as shares of its sum, NaN where the share must not be shown.

    Cells under `SMALLEST_CELL` are hidden. What a row hides can be had by subtraction, as a sum: more cells are hidden,
    smallest first, until there are two of them and they hold at least `SMALLEST_CELL` users together.
    """
    counts = np.asarray(confusion, dtype=np.float64)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    for row, share in zip(counts, shares, strict=True):
        order = np.argsort(row, kind="stable")
        hidden = int((row < SMALLEST_CELL).sum())
        while 0 < hidden < len(row) and (hidden < 2 or row[order[:hidden]].sum() < SMALLEST_CELL):
            hidden += 1
        share[order[:hidden]] = np.nan
    return shares
