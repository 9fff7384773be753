"""Writing an embedding matrix back into the table it came from: same columns, same order, same ids as they stood."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from oblivec.files.arrow import compute
from oblivec.files.matrix_tables import TableLayout

_CSV_VALUES = 1 << 20
_PARQUET_VALUES = 1 << 24


def write_matrix_csv(target: Path, values: np.ndarray, layout: TableLayout) -> None:
    """Numbers with as many digits as it takes to read the same number back."""
    import pyarrow as pa

    pc = compute()
    header = io.StringIO()
    csv.writer(header, lineterminator="\n").writerow(layout.schema.names)
    with target.open("w", encoding="utf-8", newline="") as file:
        file.write(header.getvalue())
        for ids, block in _blocks(values, layout, _CSV_VALUES):
            texts = pa.array(block.ravel()).cast(pa.string())
            if layout.is_list:
                lists = pa.FixedSizeListArray.from_arrays(texts, block.shape[1]).cast(pa.list_(pa.string()))
                cells = [pc.binary_join_element_wise('"[', pc.binary_join(lists, ", "), ']"', "")]
            else:
                cells = [texts[column::block.shape[1]] for column in range(block.shape[1])]
            cells.insert(layout.id_position, _quoted(ids))
            lines = pc.binary_join_element_wise(*cells, ",")
            file.write("\n".join(lines.to_pylist()) + "\n")


def write_matrix_parquet(target: Path, values: np.ndarray, layout: TableLayout) -> None:
    """Same schema (whole-number columns become float64), same metadata, same compression."""
    import pyarrow as pa
    from pyarrow import parquet

    schema = layout.schema
    positions = [position for position in range(len(schema)) if position != layout.id_position]
    for position in positions:
        schema = schema.set(position, schema.field(position).with_type(_float_type(schema.field(position).type)))
    with parquet.ParquetWriter(target, schema, compression=layout.compression) as writer:
        for ids, block in _blocks(values, layout, _PARQUET_VALUES):
            if layout.is_list:
                kind = schema.field(positions[0]).type
                flat = pa.array(block.ravel()).cast(kind.value_type)
                cells = [pa.FixedSizeListArray.from_arrays(flat, block.shape[1]).cast(kind)]
            else:
                cells = [
                    pa.array(np.ascontiguousarray(column)).cast(schema.field(position).type)
                    for position, column in zip(positions, block.T, strict=True)
                ]
            cells.insert(layout.id_position, ids)
            writer.write_batch(pa.RecordBatch.from_arrays(cells, schema=schema))


def _blocks(values: np.ndarray, layout: TableLayout, most_values: int) -> Iterator[tuple[Any, np.ndarray]]:
    """Id cells and values, so many at a time that a block stays small."""
    import pyarrow as pa

    rows = max(1, most_values // values.shape[1])
    kind = layout.schema.field(layout.id_position).type
    for start in range(0, len(values), rows):
        chunks = [chunk.cast(kind) for chunk in layout.id_cells.slice(start, rows).chunks]
        yield pa.concat_arrays(chunks), values[start:start + rows]


def _float_type(kind: Any) -> Any:
    """`kind` with whole numbers replaced by float64, inside a list too."""
    import pyarrow as pa

    if pa.types.is_integer(kind):
        return pa.float64()
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_float_type(kind.value_type)), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_float_type(kind.value_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_float_type(kind.value_type)))
    return kind


def _quoted(cells: Any) -> Any:
    """Quotes around the cells that need them."""
    pc = compute()
    quoted = pc.binary_join_element_wise('"', pc.replace_substring(cells, '"', '""'), '"', "")
    return pc.if_else(pc.match_substring_regex(cells, '[",\r\n]'), quoted, cells)
