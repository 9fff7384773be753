"""What the two short-video data sets have in common: long logs, anonymised user features, a 5-core.

Logs run to tens of millions of rows. They are read batch by batch, only the needed columns, and only the positive
rows are kept, so that memory grows with what is kept: about 100 bytes per positive row at the peak (20 million rows,
half of them positive: 1.3 GB).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oblivec.datasets.attributes import Attribute, categorical
from oblivec.datasets.columns import first_refused, labels, refuse_repeats, rows_of, whole_numbers
from oblivec.datasets.interactions import Interactions
from oblivec.datasets.splits import latest_of_each_pair
from oblivec.errors import BadInput
from oblivec.files.table_sources import TableSource, open_table

CORE = 5
"""Users with fewer items, and items with fewer users, are dropped until none is left."""


@dataclass(frozen=True)
class Columns:
    """Names of a log's columns."""

    user: str
    item: str
    time: str | None
    """None when the row order is the time order."""
    positive: str | None
    """Rows with 1 here are interactions, the others are not; None when all are."""


def read_log(paths: Sequence[Path], columns: Columns) -> Interactions:
    """The positive rows of one or more logs, in file order."""
    parts = [part for path in paths for part in _positive_rows(path, columns)]
    if not sum(len(part[0]) for part in parts):
        raise BadInput(f"{paths[0]}: has no interaction; check that the file is complete")
    user_keys, users = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
    item_keys, items = np.unique(np.concatenate([part[1] for part in parts]), return_inverse=True)
    times = np.concatenate([part[2] for part in parts]) if columns.time else None
    return Interactions(users.astype(np.int32), items.astype(np.int32), times, user_keys, item_keys)


def core(interactions: Interactions, least: int = CORE) -> Interactions:
    """Distinct pairs (each at its latest occurrence) among users and items that have at least `least` of each other."""
    rows = np.sort(latest_of_each_pair(interactions))
    while True:
        per_user = np.bincount(interactions.users[rows], minlength=interactions.n_users)
        per_item = np.bincount(interactions.items[rows], minlength=interactions.n_items)
        enough = (per_user[interactions.users[rows]] >= least) & (per_item[interactions.items[rows]] >= least)
        if enough.all():
            break
        rows = rows[enough]
    kept_users, users = np.unique(interactions.users[rows], return_inverse=True)
    kept_items, items = np.unique(interactions.items[rows], return_inverse=True)
    times = None if interactions.timestamps is None else interactions.timestamps[rows]
    return Interactions(
        users, items, times, interactions.user_keys[kept_users], interactions.item_keys[kept_items]
    )


def read_features(path: Path, names: Sequence[str], user_keys: np.ndarray) -> tuple[dict[str, Attribute], int, int]:
    """Categorical features of the given users; how many of these have none, and how many others the table has."""
    table = open_table(path)
    user_cells, *feature_cells = (column.combine_chunks() for column in _columns(table, ("user_id", *names)))
    keys = whole_numbers(user_cells, path, "user_id")
    refuse_repeats(keys, path, "user_id")
    rows = rows_of(user_keys, keys)
    attributes = {
        name: categorical(name, labels(cells)).take(rows)
        for name, cells in zip(names, feature_cells, strict=True)
    }
    without = int((rows < 0).sum())
    return attributes, without, len(keys) - (len(user_keys) - without)


def find_file(folder: Path, pattern: str) -> list[Path]:
    """Files of this name in the folder or in the `data` folder that the published archives have inside."""
    return sorted(folder.glob(pattern)) or sorted(folder.glob(f"data/{pattern}")) or sorted(folder.glob(f"*/{pattern}"))


def _columns(table: TableSource, names: Sequence[str]) -> list[Any]:
    _require(table, names)
    return table.columns(names)


def _positive_rows(path: Path, columns: Columns) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    table = open_table(path)
    names = [name for name in (columns.user, columns.item, columns.time, columns.positive) if name is not None]
    _require(table, names)
    first_row = 1
    for cells in table.batches(names):
        batch = dict(zip(names, cells, strict=True))
        users = whole_numbers(batch[columns.user], path, columns.user, first_row)
        items = whole_numbers(batch[columns.item], path, columns.item, first_row)
        times = _times(batch[columns.time], path, columns.time, first_row) if columns.time else np.empty(0)
        if columns.positive:
            kept = whole_numbers(batch[columns.positive], path, columns.positive, first_row) == 1
            users, items, times = users[kept], items[kept], times[kept] if columns.time else times
        first_row += len(cells[0])
        yield _narrow(users), _narrow(items), times


def _times(cells: Any, path: Path, column: str, first_row: int) -> np.ndarray:
    """A Unix time, or a date and time of day as in `2023-05-22 15:53:20`."""
    import pyarrow as pa

    if cells.null_count or not len(cells) or ":" not in cells[0].as_py():
        return whole_numbers(cells, path, column, first_row)
    try:
        return cells.cast(pa.timestamp("ms")).cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        row = first_row + first_refused(cells, pa.timestamp("ms"))
        raise BadInput(f"{path}: column '{column}', row {row} is not a time; mend it or drop the row") from None


def _require(table: TableSource, names: Sequence[str]) -> None:
    for name in names:
        if name not in table.names:
            raise BadInput(f"{table.path}: has no column '{name}'; give the file as it was published")


def _narrow(keys: np.ndarray) -> np.ndarray:
    """Half the memory where the keys allow it."""
    small = np.iinfo(np.int32)
    fits = not len(keys) or (keys.min() >= small.min and keys.max() <= small.max)
    return keys.astype(np.int32) if fits else keys
