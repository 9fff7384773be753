"""CSV and Parquet as a stream of Arrow batches, in bounded memory.

CSV: UTF-8 with or without byte-order mark, commas, a header line, either line ending, quoted cells (which may hold line
breaks), optionally gzipped. Every cell is read as text and typed by whoever asked, from all rows: a type guessed from
the first block would make the result depend on where a block ends. An empty cell, quoted or not, is null; nothing else
is. Spaces around column names are dropped. Blank lines are skipped, except in a file of one column, where one is an
empty cell.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oblivec.errors import BadInput
from oblivec.files.opening import check_readable, decoding, refuse_bomb
from oblivec.files.parquet_footer import unpacked_bytes

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_SUFFIXES = (".csv", ".csv.gz", ".parquet")
_CSV_BLOCK_BYTES = 8 << 20
_PARQUET_BATCH_ROWS = 1 << 16
_PARQUET_BUFFER_BYTES = 1 << 18
"""Of each column; without it, the whole file is held beside the result."""
_BYTES_PER_VALUE = 8


@dataclass(frozen=True)
class TableSource:
    """A table on disk: its columns are known, its rows not yet read."""

    path: Path
    suffix: str
    schema: pa.Schema
    """As stored; every field of a CSV file is text."""
    names: tuple[str, ...]
    """Column names without the spaces around them."""
    rows: int | None
    """None for CSV: not known before it is read."""

    @property
    def is_csv(self) -> bool:
        return self.suffix != ".parquet"

    def batches(self, columns: Sequence[str], encode: Collection[str] = ()) -> Iterator[list[Any]]:
        """The arrays of `columns`, batch by batch. Those to `encode` come from CSV as dictionaries: each text once."""
        positions = [self.names.index(name) for name in columns]
        stored = [self.schema.names[position] for position in positions]
        reader = _csv_batches(self, stored, encode) if self.is_csv else _parquet_batches(self, stored)
        rows = 0
        for batch in reader:
            rows += batch.num_rows
            yield [batch.column(name) for name in stored]
        if self.rows is not None and rows != self.rows:
            raise BadInput(f"{self.path}: is not a readable Parquet file (damaged or cut short); write it again")

    def columns(self, names: Sequence[str], encode: Collection[str] = ()) -> list[pa.ChunkedArray]:
        """The whole of `names`."""
        import pyarrow as pa

        parts = list(self.batches(names, encode))
        if not parts:
            return [pa.chunked_array([], self.schema.field(self.names.index(name)).type) for name in names]
        return [pa.chunked_array([part[i] for part in parts]) for i in range(len(names))]


def open_table(path: Path | str, suffixes: Sequence[str] = TABLE_SUFFIXES) -> TableSource:
    path, suffix = check_readable(path, suffixes)
    schema, rows = _parquet_schema(path) if suffix == ".parquet" else (_csv_schema(path, suffix), None)
    names = tuple(name.strip() for name in schema.names)
    if len(set(names)) < len(names):
        second = next(i for i, name in enumerate(names) if name in names[:i])
        raise BadInput(
            f"{path}: columns {names.index(names[second]) + 1} and {second + 1} have one name; check the header line"
        )
    return TableSource(path, suffix, schema, names, rows)


def _csv_schema(path: Path, suffix: str) -> pa.Schema:
    import pyarrow as pa

    with _decoding_csv(path), _open_csv(path, suffix) as reader:
        names = reader.schema.names
        for name in names:
            name.encode()
        schema = pa.schema([pa.field(name, pa.string()) for name in names])
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise BadInput(f"{path}: its columns are not separated by commas; write it with commas")
    return schema


def _open_csv(
    path: Path, suffix: str, schema: pa.Schema | None = None, columns: Sequence[str] | None = None,
    encode: Collection[str] = (),
) -> Any:
    """Without a schema, to find out about the columns. On one thread, so that Arrow knows which row is broken."""
    import pyarrow as pa
    from pyarrow import csv

    once = pa.dictionary(pa.int32(), pa.string())
    types = {name: once if name.strip() in encode else pa.string() for name in (schema.names if schema else ())}
    stream = pa.OSFile(str(path))
    return csv.open_csv(
        pa.CompressedInputStream(stream, "gzip") if suffix == ".csv.gz" else stream,
        read_options=csv.ReadOptions(use_threads=False, block_size=_CSV_BLOCK_BYTES),
        parse_options=csv.ParseOptions(
            newlines_in_values=True, ignore_empty_lines=schema is None or len(schema) > 1
        ),
        convert_options=csv.ConvertOptions(
            column_types=types, include_columns=columns, null_values=[""], strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        ),
    )


@contextmanager
def _decoding_csv(path: Path) -> Iterator[None]:
    """As `decoding`, and a row with too few or too many cells is named. Of Arrow's words only the numbers are used."""
    import pyarrow as pa

    with decoding(path, "CSV"):
        try:
            yield
        except pa.ArrowInvalid as problem:
            broken = re.match(r"CSV parse error: Row #(\d+): Expected (\d+) columns, got (\d+)", str(problem))
            if broken is None:
                raise
            line, expected, got = map(int, broken.groups())
            raise BadInput(
                f"{path}: row {line - 1} has {got} cells where the header has {expected}; mend the row"
            ) from None


def _csv_batches(source: TableSource, columns: Sequence[str], encode: Collection[str]) -> Iterator[pa.RecordBatch]:
    wanted = list(dict.fromkeys([*columns, source.schema.names[-1]]))
    last: str | None = None
    unpacked = 0
    with _decoding_csv(source.path):
        for batch in _open_csv(source.path, source.suffix, source.schema, wanted, encode):
            if batch.num_rows:
                last = batch.column(batch.num_columns - 1)[-1].as_py()
            unpacked += batch.nbytes
            if source.suffix == ".csv.gz":
                refuse_bomb(source.path, unpacked)
            yield batch.select(list(columns))
    if last is not None and last.endswith("\n"):
        raise BadInput(f"{source.path}: a quote is opened and never closed; the file is cut short or needs quoting")


def _parquet_schema(path: Path) -> tuple[pa.Schema, int]:
    """The schema and the number of rows, once the file's own account of its size is believable."""
    from pyarrow import parquet

    with decoding(path, "Parquet"), parquet.ParquetFile(path) as file:
        about = file.metadata
        groups = [about.row_group(i) for i in range(about.num_row_groups)]
        if any(group.num_rows < 0 for group in groups) or sum(group.num_rows for group in groups) != about.num_rows:
            raise ValueError("row counts disagree")
        refuse_bomb(path, _BYTES_PER_VALUE * about.num_rows * (1 + about.num_columns))
        refuse_bomb(path, unpacked_bytes(path))
        for name in file.schema_arrow.names:
            name.encode()
        return file.schema_arrow, about.num_rows


def parquet_codec(path: Path) -> str:
    """The codec of the first column. Only for a file whose columns have been read: pyarrow's view of a column's
    metadata ends the process where the metadata is damaged, while reading the column reports it."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        codec = file.metadata.row_group(0).column(0).compression.lower()
        return "none" if codec == "uncompressed" else codec


def _parquet_batches(source: TableSource, stored: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Text comes as dictionaries, so that a long text repeated over all rows is held once."""
    import pyarrow as pa
    from pyarrow import parquet

    texts = [name for name in stored if source.schema.field(name).type in (pa.string(), pa.large_string())]
    options: Any = {"read_dictionary": texts, "pre_buffer": False, "buffer_size": _PARQUET_BUFFER_BYTES}
    with decoding(source.path, "Parquet"), parquet.ParquetFile(source.path, **options) as file:
        for batch in file.iter_batches(_PARQUET_BATCH_ROWS, columns=list(stored), use_threads=False):
            batch.validate(full=True)
            yield batch
