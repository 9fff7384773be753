"""What several readers need from Arrow: its compute functions, kinds of cells, the distinct values of a column."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


def compute() -> Any:
    """`pyarrow.compute`, imported when first used. Its functions are made at run time, unseen by type checkers."""
    import pyarrow.compute

    return pyarrow.compute


def is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return kind in (pa.string(), pa.large_string(), pa.string_view())


def is_single(kind: pa.DataType) -> bool:
    """A cell holds one number, text, boolean or moment, or nothing: no list, no record, no bytes."""
    import pyarrow as pa

    checks = pa.types
    if checks.is_dictionary(kind):
        return is_single(kind.value_type)
    return is_text(kind) or any(
        check(kind)
        for check in (checks.is_integer, checks.is_floating, checks.is_decimal128, checks.is_boolean, checks.is_null,
                      checks.is_timestamp, checks.is_date)
    )


def distinct(chunks: Iterable[Any], kind: pa.DataType) -> tuple[np.ndarray, Any]:
    """Every distinct value of a column once, and for every row which one it has (-1: null).

    For columns that are `is_single`. Chunks may be dictionaries or not, each with a dictionary of its own, with values
    that are null or unused. All text comes out as `large_string`.
    """
    import pyarrow as pa

    encoded = [chunk if pa.types.is_dictionary(chunk.type) else _plain(chunk).dictionary_encode() for chunk in chunks]
    if not encoded:
        return np.empty(0, np.int64), pa.array([], kind)
    merged = pa.concat_arrays([_plain(chunk.dictionary) for chunk in encoded]).dictionary_encode()
    renumber = merged.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    codes = np.empty(sum(map(len, encoded)), np.int64)
    row = offset = 0
    for chunk in encoded:
        size = len(chunk.dictionary)
        # One entry more than the dictionary has, for null: index -1 reads it.
        own = np.append(renumber[offset:offset + size], -1)
        codes[row:row + len(chunk)] = own[chunk.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)]
        row, offset = row + len(chunk), offset + size
    return codes, merged.dictionary


def _plain(values: Any) -> Any:
    import pyarrow as pa

    if is_text(values.type):
        return values.cast(pa.large_string())
    return values.cast(pa.float32()) if pa.types.is_float16(values.type) else values
