"""Counts a reader may see: nothing under `SMALLEST_CELL` users, directly or by subtraction."""

from __future__ import annotations

import numpy as np

from oblivec.audit.result import SMALLEST_CELL


def shown_count(users: int) -> str:
    """A number of users, or that it is too small to print."""
    return f"fewer than {SMALLEST_CELL}" if 0 < users < SMALLEST_CELL else f"{users:,}"


def row_shares(confusion: np.ndarray) -> np.ndarray:
    """Each row of a confusion matrix as shares of its sum, NaN where the share must not be shown.

    Cells under `SMALLEST_CELL` are hidden. A cell hidden alone in its row could be found by subtraction, so the next
    smallest of that row is hidden with it.
    """
    counts = np.asarray(confusion, dtype=np.float64)
    hidden = counts < SMALLEST_CELL
    alone = np.flatnonzero(hidden.sum(axis=1) == 1)
    if counts.shape[1] > 1:
        hidden[alone, np.where(hidden, np.inf, counts)[alone].argmin(axis=1)] = True
    totals = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return np.where(hidden, np.nan, counts / totals)
