"""Tables in memory (a mapping, pandas, polars, Arrow) as Arrow columns, without needing any of those libraries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from oblivec.datasets.attributes import Attribute
from oblivec.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa


def columns_of(table: Any) -> dict[str, Any]:
    """Name to chunked array, or to the `Attribute` the mapping already held; all of one length."""
    import pyarrow as pa

    if isinstance(table, Mapping):
        columns = {str(name): _taken(str(name), cells) for name, cells in table.items()}
    elif _is_pandas(table):
        # An index with a name (`set_index("user_id")`) is a column; one without is only a row number.
        named = [name for name in table.index.names if name is not None]
        frame = table.reset_index(level=named) if named else table
        columns = {str(name): _taken(str(name), frame[name]) for name in frame.columns}
        if len(columns) < len(frame.columns):
            raise BadInput("attributes: two columns have the same name; give each a name of its own")
    elif hasattr(table, "__arrow_c_stream__"):
        arrow = pa.table(table)
        columns = dict(zip(arrow.column_names, arrow.columns, strict=True))
        if len(columns) < arrow.num_columns:
            raise BadInput("attributes: two columns have the same name; give each a name of its own")
    else:
        raise BadInput(f"attributes: a {type(table).__name__} is not a table; give a mapping, pandas, polars or Arrow")
    if len({len(column.values if isinstance(column, Attribute) else column) for column in columns.values()}) > 1:
        raise BadInput("attributes: the columns differ in length; give one label, or None, per user")
    return columns


def _is_pandas(table: Any) -> bool:
    return type(table).__module__.partition(".")[0] == "pandas" and hasattr(table, "columns")


def _taken(name: str, cells: Any) -> Any:
    if isinstance(cells, Attribute):
        return cells if cells.name == name else replace(cells, name=name)
    return column_of(name, cells, "attributes")


def column_of(name: str, cells: Any, source: str) -> pa.ChunkedArray:
    """One sequence as a column. Whatever Arrow says about a value it cannot take is dropped: it quotes the value."""
    import pyarrow as pa

    if isinstance(cells, torch.Tensor):
        cells = cells.detach().cpu().numpy()
    try:
        if isinstance(cells, np.ndarray) and cells.ndim != 1:
            raise ValueError("not one label per user")
        column = cells if isinstance(cells, pa.Array | pa.ChunkedArray) else pa.array(cells, from_pandas=True)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        raise BadInput(f"{source}: '{name}' is not one sequence of text, or of numbers, or of booleans") from None
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
