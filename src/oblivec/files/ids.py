"""Ids of users and items: one text form, whatever type a file stores them in, and never the same id twice.

The text form: whole numbers in decimal; a float that is whole (a number column with gaps becomes float in many tools)
without its fraction, so 7, 7.0 and "7" are one id; text without the spaces around it. A `.csv` cell `7.0` is 7 too,
since such a file cannot tell a number from text. Ids are never quoted in a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oblivec.errors import BadInput
from oblivec.files.arrow import compute
from oblivec.files.opening import one_of, refuse_bomb

if TYPE_CHECKING:
    import pyarrow as pa

_WHOLE_WITH_FRACTION = r"^([+-]?[0-9]+)\.0+$"
_MOST_EXACT = 2.0**53
NAMELESS = ("", "__index_level_0__", "Unnamed: 0")
"""Columns that dataframe libraries add for an index without a name."""


def find_id_column(names: Sequence[str], wanted: str | None, usual: Sequence[str], source: object) -> str | None:
    """Which column holds the ids: the one asked for, else the one with a usual name, else none.

    While no column has been recognised, column names are not quoted: a file without its header line has a user there.
    """
    if wanted is not None:
        if wanted not in names:
            raise BadInput(f"{source}: has no column '{wanted}' (--id-column); check its header line")
        return wanted
    found = [name for name in usual if name in names]
    if len(found) > 1:
        raise BadInput(f"{source}: both '{found[0]}' and '{found[1]}' could be the id column; say which: --id-column")
    return found[0] if found else None


def listing(names: Iterable[str], most: int = 8) -> str:
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def id_texts(chunks: Sequence[pa.Array], source: object, column: str, from_csv: bool = False) -> np.ndarray:
    """The ids of a column as an object array of `str`; a missing one is bad input with its row number."""
    import pyarrow as pa

    texts = pa.chunked_array([text_form(chunk, source, column, from_csv) for chunk in chunks], pa.large_string())
    if texts.null_count:
        row = first_row(np.asarray(texts.is_null()))
        raise BadInput(f"{source}: column '{column}', row {row} has no id; fill it in or drop the row")
    return texts.to_numpy()


def text_form(cells: Any, source: object, column: str, from_csv: bool = False) -> pa.Array:
    """The text form of every id; null where there is none."""
    import pyarrow as pa

    pc = compute()
    kind = cells.type
    if pa.types.is_dictionary(kind):
        values = text_form(cells.dictionary, source, column, from_csv)
        if isinstance(source, Path) and len(cells) > cells.null_count:
            longest_total = pc.sum(pc.take(pc.binary_length(values), cells.indices)).as_py()
            refuse_bomb(source, longest_total or 0)
        return pc.take(values, cells.indices)
    if pa.types.is_integer(kind):
        return cells.cast(pa.large_string())
    if pa.types.is_floating(kind):
        cells = cells.cast(pa.float64())
        cells = pc.if_else(pc.is_nan(cells), pa.scalar(None, pa.float64()), cells)
        numbers = cells.to_numpy(zero_copy_only=False)
        present = numbers[~np.isnan(numbers)]
        if np.all(np.abs(present) < _MOST_EXACT) and np.all(present == np.floor(present)):
            cells = cells.cast(pa.int64())
        return cells.cast(pa.large_string())
    if pa.types.is_decimal(kind):
        return pc.replace_substring_regex(cells.cast(pa.large_string()), _WHOLE_WITH_FRACTION, r"\1")
    if pa.types.is_null(kind):
        return cells.cast(pa.large_string())
    if kind in (pa.string(), pa.large_string(), pa.string_view()):
        texts = pc.utf8_trim_whitespace(cells.cast(pa.large_string()))
        if from_csv:
            texts = pc.replace_substring_regex(texts, _WHOLE_WITH_FRACTION, r"\1")
        return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.large_string()), texts)
    raise BadInput(f"{source}: column '{column}' holds {kind}, not ids; ids are {one_of(('whole numbers', 'text'))}")


def refuse_duplicates(ids: np.ndarray, source: object, column: str) -> None:
    """Every id once.

    Texts that are different numbers are different texts, and numbers are quickly sorted; only where that does not
    settle it are the texts compared. A dictionary numbers them as they appear: row i has number i until one repeats.
    """
    import pyarrow as pa

    texts = pa.array(ids, pa.large_string())
    with suppress(pa.ArrowInvalid):
        numbers = np.sort(texts.cast(pa.int64()).to_numpy())
        if (numbers[1:] != numbers[:-1]).all():
            return
    codes = texts.dictionary_encode().indices.to_numpy()
    repeats = codes != np.arange(len(codes))
    if repeats.any():
        row = first_row(repeats)
        raise BadInput(
            f"{source}: column '{column}', row {row} repeats the id of row {codes[row - 1] + 1}; keep one row per id"
        )


def first_row(mask: np.ndarray) -> int:
    """Number of the first row where `mask` holds. Rows are counted from 1, the header not included."""
    return int(np.argmax(mask)) + 1
