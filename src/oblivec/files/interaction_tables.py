"""Tables of interactions: `user_id`, `item_id`, optional `timestamp`, optional `split`, one row per interaction.

Ids are kept as numbers into a list of distinct ids, so that tens of millions of rows stay small.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oblivec.errors import BadInput
from oblivec.files.arrow import compute, distinct, is_single, is_text
from oblivec.files.ids import first_row, text_form
from oblivec.files.table_sources import TableSource, open_table

USER_ID, ITEM_ID, TIMESTAMP, SPLIT = "user_id", "item_id", "timestamp", "split"
TRAIN, TEST = "train", "test"


@dataclass(frozen=True)
class InteractionTable:
    """Interactions in file order; row i says that `user_keys[users[i]]` met `item_keys[items[i]]`."""

    users: np.ndarray
    items: np.ndarray
    user_keys: np.ndarray
    """Distinct user ids as text, in order of first appearance."""
    item_keys: np.ndarray
    timestamps: np.ndarray | None = None
    """int64 or float64; only their order matters."""
    is_test: np.ndarray | None = None
    """Which rows the file's own split holds out; None when it has no `split` column."""
    source: str = "interactions"

    def __len__(self) -> int:
        return len(self.users)


def read_interactions(path: Path | str, *, id_column: str | None = None) -> InteractionTable:
    """Read interactions. `id_column` names the user column when it is not `user_id`.

    Timestamps are numbers or ISO 8601 dates and times (UTC unless they say otherwise), all of one kind.
    """
    table = open_table(path)
    user_column = id_column or USER_ID
    for name in (user_column, ITEM_ID):
        if name not in table.names:
            hint = ", or name it with --id-column" if name == USER_ID else ""
            raise BadInput(f"{table.path}: has no column '{name}'; add it to the header line{hint}")
    optional = [name for name in (TIMESTAMP, SPLIT) if name in table.names]
    wanted = [user_column, ITEM_ID, *optional]
    columns = dict(zip(wanted, table.columns(wanted, encode=(user_column, ITEM_ID, SPLIT)), strict=True))
    if len(columns[ITEM_ID]) == 0:
        raise BadInput(f"{table.path}: has no rows; at least one interaction is needed")
    users, user_keys = _keys(table, user_column, columns[user_column])
    items, item_keys = _keys(table, ITEM_ID, columns[ITEM_ID])
    return InteractionTable(
        users, items, user_keys, item_keys,
        timestamps=_timestamps(table, columns[TIMESTAMP]) if TIMESTAMP in optional else None,
        is_test=_is_test(table, columns[SPLIT]) if SPLIT in optional else None,
        source=str(table.path),
    )


def _keys(table: TableSource, name: str, cells: Any) -> tuple[np.ndarray, np.ndarray]:
    """Row to distinct id. Two spellings of one id (7 and 7.0) become one."""
    codes, labels = _distinct(table, name, cells)
    spelled, texts = distinct([text_form(labels, table.path, name, table.is_csv)], labels.type)
    codes = np.append(spelled, -1)[codes]
    _refuse_where(codes < 0, table, name, "has no id; fill it in or drop the row")
    return codes, texts.to_numpy(zero_copy_only=False)


def _is_test(table: TableSource, cells: Any) -> np.ndarray:
    import pyarrow as pa

    fault = f"is neither '{TRAIN}' nor '{TEST}'; write one of them, or leave the column out"
    codes, labels = _distinct(table, SPLIT, cells)
    if not is_text(labels.type):
        raise BadInput(f"{table.path}: column '{SPLIT}', row 1 {fault}")
    # Position in the list of the two; -1 for any other text and, as the last entry, for an empty cell.
    which = compute().index_in(labels, value_set=pa.array([TRAIN, TEST], pa.large_string())).fill_null(-1)
    split = np.append(which.to_numpy(zero_copy_only=False), -1)[codes]
    _refuse_where(split < 0, table, SPLIT, fault)
    return split == 1


def _timestamps(table: TableSource, cells: Any) -> np.ndarray:
    """All whole numbers, or all numbers, or all moments; the first row with a time that does not fit is named."""
    import pyarrow as pa

    fault = "has no readable time; use a number (seconds) or a date and time like 2024-05-31T12:00:00"
    if cells.null_count:
        _refuse_where(np.asarray(cells.is_null()), table, TIMESTAMP, fault)
    stored = cells.type.value_type if pa.types.is_dictionary(cells.type) else cells.type
    times = _parse_times(cells) if is_text(stored) else cells
    if times is None:
        raise BadInput(f"{table.path}: column '{TIMESTAMP}', row {_first_unparsable(cells)} {fault}")
    if pa.types.is_timestamp(times.type) or pa.types.is_date(times.type):
        times = times.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    elif not (pa.types.is_integer(times.type) or pa.types.is_floating(times.type)):
        raise BadInput(f"{table.path}: column '{TIMESTAMP}', row 1 {fault}")
    numbers = times.to_numpy()
    if numbers.dtype.kind == "f":
        _refuse_where(~np.isfinite(numbers), table, TIMESTAMP, fault)
        return numbers.astype(np.float64, copy=False)
    return numbers.astype(np.int64, copy=False)


def _distinct(table: TableSource, name: str, cells: Any) -> tuple[np.ndarray, Any]:
    if not is_single(cells.type):
        raise BadInput(f"{table.path}: column '{name}' holds {cells.type}; use numbers or text")
    return distinct(cells.chunks, cells.type)


def _parse_times(cells: Any) -> Any | None:
    """Texts as whole numbers, else as numbers, else as moments; None when none of these fits all."""
    import pyarrow as pa

    trim = compute().utf8_trim_whitespace

    def parse(chunk: Any) -> Any:
        if pa.types.is_dictionary(chunk.type):
            return parse(chunk.dictionary).take(chunk.indices)
        return trim(chunk.cast(pa.large_string())).cast(kind)

    for kind in (pa.int64(), pa.float64(), pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            return pa.chunked_array([parse(chunk) for chunk in cells.chunks], kind)
        except pa.ArrowInvalid:
            continue
    return None


def _first_unparsable(cells: Any) -> int:
    """The first row whose time does not fit with those before it, found by halving."""
    import pyarrow as pa

    codes, labels = distinct(cells.chunks, cells.type)
    good, bad = 0, len(codes)
    while bad - good > 1:
        half = (good + bad) // 2
        if _parse_times(pa.chunked_array([labels.take(np.unique(codes[:half]))])) is None:
            bad = half
        else:
            good = half
    return bad


def _refuse_where(faulty: np.ndarray, table: TableSource, name: str, fault: str) -> None:
    if faulty.any():
        raise BadInput(f"{table.path}: column '{name}', row {first_row(faulty)} {fault}")
