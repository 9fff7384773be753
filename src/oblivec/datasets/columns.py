"""Columns of text to numbers and labels, with the file, column and row number of the first cell that will not do."""

from __future__ import annotations

from typing import Any

import numpy as np

from oblivec.errors import BadInput

_LARGEST_EXACT = 2.0**53


def whole_numbers(cells: Any, where: object, column: str, first_row: int = 1) -> np.ndarray:
    """An Arrow array of text as int64. `7.0` and `1.68e+12` are whole too: some tools write every number so."""
    import pyarrow as pa

    if cells.null_count:
        row = first_row + int(np.argmax(np.asarray(cells.is_null())))
        raise BadInput(f"{where}: column '{column}', row {row} is empty; fill it in or drop the row")
    try:
        return cells.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        pass
    try:
        numbers = cells.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        raise _not_whole(where, column, first_row + first_refused(cells, pa.float64())) from None
    whole = np.isfinite(numbers) & (numbers == np.floor(numbers)) & (np.abs(numbers) < _LARGEST_EXACT)
    if not whole.all():
        raise _not_whole(where, column, first_row + int(np.argmin(whole)))
    return numbers.astype(np.int64)


def first_refused(cells: Any, kind: Any) -> int:
    """Position of the first cell that cannot be cast to an Arrow type, found by halving; there must be one."""
    import pyarrow as pa

    start = 0
    while len(cells) > 1:
        half = len(cells) // 2
        try:
            cells[:half].cast(kind)
        except pa.ArrowInvalid:
            cells = cells[:half]
        else:
            cells, start = cells[half:], start + half
    return start


def labels(cells: Any) -> list[str | None]:
    """Labels as text; an empty cell is a missing label."""
    return [cell or None for cell in cells.to_pylist()]


def refuse_repeats(keys: np.ndarray, where: object, column: str) -> None:
    """Every key once."""
    order = np.argsort(keys, kind="stable")
    repeated = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if len(repeated):
        first = int(np.argmin(order[repeated + 1]))
        row, earlier = order[repeated[first] + 1] + 1, order[repeated[first]] + 1
        raise BadInput(f"{where}: column '{column}', row {row} repeats the id of row {earlier}; keep one row per user")


def rows_of(wanted: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Where each wanted key stands among `keys`, each of which is there once; -1 where it does not."""
    if not len(keys):
        return np.full(len(wanted), -1)
    order = np.argsort(keys)
    place = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    return np.where(keys[place] == wanted, place, -1)


def _not_whole(where: object, column: str, row: int) -> BadInput:
    return BadInput(f"{where}: column '{column}', row {row} is not a whole number; mend it or drop the row")
