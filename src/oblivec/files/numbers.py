"""Text cells as numbers: all of them, or the first that is none."""

from __future__ import annotations

from typing import Any

from oblivec.files.arrow import compute


def parse_numbers(cells: Any) -> Any | None:
    """Text as float64, or None when a cell is not a number. `nan` and `inf`, in any case, are numbers here."""
    import pyarrow as pa

    pc = compute()
    try:
        return pc.utf8_trim_whitespace(cells).cast(pa.float64())
    except pa.ArrowInvalid:
        return None


def first_not_number(cells: Any) -> int:
    """Position of the first cell that `parse_numbers` stumbles over, found by halving."""
    start = 0
    while len(cells) > 1:
        half = len(cells) // 2
        if parse_numbers(cells[:half]) is None:
            cells = cells[:half]
        else:
            cells, start = cells[half:], start + half
    return start
