"""Which row of a table belongs to which row of a matrix.

When both sides carry ids, rows are matched by id, compared as text; otherwise row i belongs to row i and the lengths
must agree. Ids on one side only are counted and said, and are not an error; no id in common is.
"""

from __future__ import annotations

import numpy as np

from oblivec.datasets.attributes import Attribute
from oblivec.datasets.interactions import Interactions
from oblivec.errors import BadInput
from oblivec.files.arrow import compute
from oblivec.files.embeddings import EmbeddingFile
from oblivec.files.tables import AttributeTable, InteractionTable

ABSENT = -1


def match_attributes(embeddings: EmbeddingFile, table: AttributeTable) -> tuple[dict[str, Attribute], list[str]]:
    """The table's attributes in the row order of the matrix, and what a user should be told (the table's notes first).

    A user of the matrix whom the table does not have gets missing labels.
    """
    notes = list(table.notes)
    if embeddings.ids is None or table.ids is None:
        _refuse_lengths(len(embeddings), embeddings.source, len(table), table.source)
        if embeddings.ids is not None or table.ids is not None:
            bare = embeddings.source if embeddings.ids is None else table.source
            notes.append(f"{bare} carries no ids: row i of one file is taken for row i of the other")
        return dict(table.attributes), notes
    rows = locate(embeddings.ids, table.ids)
    found = int((rows != ABSENT).sum())
    if found == 0:
        raise BadInput(
            f"{table.source}: no user is in {embeddings.source} too; check that both use the same ids (--id-column)"
        )
    if found < len(rows):
        notes.append(f"{len(rows) - found} of {len(rows)} users of {embeddings.source} are not in {table.source}")
    if found < len(table):
        notes.append(f"{len(table) - found} of {len(table)} users of {table.source} are not in {embeddings.source}")
    return {name: attribute.take(rows) for name, attribute in table.attributes.items()}, notes


def match_embeddings(embeddings: EmbeddingFile, other: EmbeddingFile) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Row numbers in either matrix of the users both have, in the order of the first, and what should be told."""
    if embeddings.ids is None or other.ids is None:
        _refuse_lengths(len(embeddings), embeddings.source, len(other), other.source)
        every = np.arange(len(embeddings))
        return every, every, []
    rows = locate(embeddings.ids, other.ids)
    shared = np.flatnonzero(rows != ABSENT)
    if len(shared) == 0:
        raise BadInput(f"{other.source}: shares no id with {embeddings.source}; check that both use the same ids")
    notes = [
        f"{len(one) - len(shared)} of {len(one)} users of {one.source} are not in {another.source}"
        for one, another in ((embeddings, other), (other, embeddings)) if len(one) > len(shared)
    ]
    return shared, rows[shared], notes


def match_interactions(
    table: InteractionTable, users: EmbeddingFile, items: EmbeddingFile | None = None
) -> tuple[Interactions, list[str]]:
    """Interactions in row numbers of the user matrix and of the item matrix, and what a user should be told.

    Those of users or items the matrices do not have are left out. A matrix that carries no ids is addressed by row
    number, counted from 0. Without an item matrix, items are numbered in order of first appearance.
    """
    user_rows, user_keys, notes = _rows_of(table.user_keys, users, table.source, "user_id")
    if items is None:
        item_rows, item_keys = np.arange(len(table.item_keys)), table.item_keys
    else:
        item_rows, item_keys, more = _rows_of(table.item_keys, items, table.source, "item_id")
        notes += more
    row_users, row_items = user_rows[table.users], item_rows[table.items]
    kept = (row_users != ABSENT) & (row_items != ABSENT)
    if not kept.any():
        raise BadInput(f"{table.source}: no row has both a known user and a known item; check the ids")
    if not kept.all():
        notes.append(f"{table.source}: {int((~kept).sum())} of {len(table)} interactions were left out for that")
    return Interactions(
        row_users[kept], row_items[kept], None if table.timestamps is None else table.timestamps[kept],
        user_keys, item_keys, None if table.is_test is None else table.is_test[kept],
    ), notes


def locate(wanted: np.ndarray, among: np.ndarray) -> np.ndarray:
    """For each id of `wanted`, its row in `among`, or -1."""
    import pyarrow as pa

    rows = compute().index_in(pa.array(wanted, pa.large_string()), value_set=pa.array(among, pa.large_string()))
    return rows.cast(pa.int64()).fill_null(ABSENT).to_numpy(zero_copy_only=False)


def _rows_of(
    keys: np.ndarray, matrix: EmbeddingFile, source: str, column: str
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Rows of `matrix` for distinct `keys`, the keys of all its rows, and a note on the keys it does not have."""
    own = matrix.ids if matrix.ids is not None else np.arange(len(matrix)).astype(str).astype(object)
    rows = locate(keys, own)
    absent = int((rows == ABSENT).sum())
    if absent == len(keys):
        meaning = "its ids" if matrix.ids is not None else f"row numbers from 0 to {len(matrix) - 1}"
        raise BadInput(f"{source}: column '{column}' has nothing that {matrix.source} has ({meaning}); check the ids")
    notes = [f"{absent} of {len(keys)} values of '{column}' in {source} are not in {matrix.source}"] if absent else []
    return rows, own, notes


def _refuse_lengths(rows: int, source: str, other_rows: int, other_source: str) -> None:
    if rows != other_rows:
        raise BadInput(
            f"{other_source}: has {other_rows} rows and {source} has {rows}; without ids on both sides "
            "the lengths must agree"
        )
