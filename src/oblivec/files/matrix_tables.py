"""An embedding matrix kept as a table: an id column and either d number columns or one list column.

In a `.csv` file a list is written `[0.1, 0.2]`. Rows are read in batches, without a loop over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from oblivec.errors import BadInput
from oblivec.files.arrow import compute
from oblivec.files.ids import NAMELESS, find_id_column, first_row, id_texts
from oblivec.files.numbers import first_not_number, parse_numbers
from oblivec.files.opening import refuse_bomb
from oblivec.files.table_sources import TableSource, parquet_codec

if TYPE_CHECKING:
    import pyarrow as pa

ID_COLUMNS = ("user_id", "item_id", "id")


@dataclass(frozen=True)
class TableLayout:
    """What a table needs to be written back as it came."""

    schema: pa.Schema
    id_position: int
    id_cells: pa.ChunkedArray
    is_list: bool
    compression: str


def read_matrix_table(source: TableSource, id_column: str | None) -> tuple[np.ndarray, np.ndarray, str, TableLayout]:
    """The matrix, its ids as text, the id column's name and the layout."""
    import pyarrow as pa

    path = source.path
    id_column = find_id_column(source.names, id_column, ID_COLUMNS, path)
    if id_column is None:
        raise BadInput(f"{path}: has no id column ({', '.join(ID_COLUMNS)}); name it with --id-column")
    columns = [name for name in source.names if name != id_column]
    for name in columns:
        if name in (*ID_COLUMNS, *NAMELESS):
            raise BadInput(f"{path}: column '{name}' is an index, not a dimension; drop it or name it with --id-column")
    if not columns:
        raise BadInput(f"{path}: has no column besides '{id_column}'; at least one dimension is needed")
    collector = _Collector(source, columns)
    id_chunks = []
    for id_cells, *cells in source.batches([id_column, *columns]):
        if len(id_cells):
            collector.add(cells)
            id_chunks.append(id_cells)
    values = collector.matrix()
    ids = id_texts(id_chunks, path, id_column, source.is_csv)
    layout = TableLayout(
        source.schema, source.names.index(id_column), pa.chunked_array(id_chunks), collector.is_list,
        "none" if source.is_csv else parquet_codec(path),
    )
    return values, ids, id_column, layout


class _Collector:
    """Gathers batches of cells into one matrix and stops at the first cell that is not a finite number.

    Parquet says beforehand how many rows will come, so its matrix is filled in place; that of CSV is put together at
    the end.
    """

    def __init__(self, source: TableSource, columns: Sequence[str]):
        self.source, self.columns = source, columns
        self.is_list = False
        self._rows = 0
        self._parts: list[np.ndarray] = []

    def add(self, cells: list[Any]) -> None:
        """One batch: an array of cells for each column."""
        if self._rows == 0:
            self.is_list = len(cells) == 1 and self._looks_like_list(cells[0])
        block = self._list_block(cells[0]) if self.is_list else np.stack(
            [self._numbers(position, column) for position, column in enumerate(cells)], axis=1
        )
        finite = np.isfinite(block)
        if not finite.all():
            row, column = (int(place) for place in np.argwhere(~finite)[0])
            self._refuse(0 if self.is_list else column, row, "is not a finite number")
        self._store(block)

    def matrix(self) -> np.ndarray:
        if self._rows == 0:
            raise BadInput(f"{self.source.path}: has no rows; at least one is needed")
        if len(self._parts) == 1:
            return self._parts[0]
        whole = np.empty((self._rows, self._parts[0].shape[1]))
        while self._parts:  # each part is let go as soon as it is copied
            block = self._parts.pop()
            self._rows -= len(block)
            whole[self._rows:self._rows + len(block)] = block
        return whole

    def _store(self, block: np.ndarray) -> None:
        if self.source.rows is None:
            self._parts.append(block)
        else:
            if not self._parts:
                refuse_bomb(self.source.path, self.source.rows * block.shape[1] * block.itemsize)
                self._parts.append(np.empty((self.source.rows, block.shape[1]), block.dtype))
            self._parts[0][self._rows:self._rows + len(block)] = block
        self._rows += len(block)

    def _looks_like_list(self, cells: Any) -> bool:
        import pyarrow as pa

        kind = cells.type
        if self.source.is_csv:
            return (cells[0].as_py() or "").lstrip().startswith("[")
        return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)

    def _numbers(self, position: int, cells: Any, per_row: int = 1) -> np.ndarray:
        """Cells as floats; `per_row` cells in sequence belong to one row."""
        import pyarrow as pa

        if cells.null_count:
            fault = "is empty" if per_row == 1 else "has an empty value"
            self._refuse(position, (first_row(np.asarray(cells.is_null())) - 1) // per_row, fault)
        if self.source.is_csv:
            numbers = parse_numbers(cells)
            if numbers is None:
                self._refuse(position, first_not_number(cells) // per_row, "is not a number")
            return numbers.to_numpy(zero_copy_only=False)
        if pa.types.is_floating(cells.type):
            return cells.to_numpy(zero_copy_only=False)
        if pa.types.is_integer(cells.type):
            return cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        raise BadInput(
            f"{self.source.path}: column '{self.columns[position]}' holds {cells.type}, not numbers; "
            "an embedding table has one id column and either number columns or one list column"
        )

    def _list_block(self, cells: Any) -> np.ndarray:
        pc = compute()
        if cells.null_count:
            self._refuse(0, first_row(np.asarray(cells.is_null())) - 1, "is empty")
        if self.source.is_csv:
            cells = self._split(cells)
        widths = np.asarray(pc.list_value_length(cells))
        width = self._parts[0].shape[1] if self._parts else int(widths[0])
        if width == 0:
            self._refuse(0, 0, "is an empty list")
        if (widths != width).any():
            self._refuse(0, first_row(widths != width) - 1, f"has another number of values than row 1 ({width})")
        return self._numbers(0, pc.list_flatten(cells), per_row=width).reshape(-1, width)

    def _split(self, cells: Any) -> Any:
        """`[0.1, 0.2]` to a list of texts."""
        pc = compute()
        cells = pc.utf8_trim_whitespace(cells)
        is_list = np.asarray(pc.match_substring_regex(cells, r"^\[[^\[\]]*\S[^\[\]]*\]$"))
        if not is_list.all():
            self._refuse(0, first_row(~is_list) - 1, "is not a list like [0.1, 0.2]")
        return pc.split_pattern(pc.utf8_trim(cells, "[]"), ",")

    def _refuse(self, position: int, row_in_batch: int, fault: str) -> NoReturn:
        row = self._rows + row_in_batch + 1
        raise BadInput(
            f"{self.source.path}: column '{self.columns[position]}', row {row} {fault}; mend it or drop the row"
        )
