"""Embedding matrices in and out: `.npy`, `.safetensors`, `.parquet`, `.csv`.

What is read is written back with the same suffix, rows, order, type, ids, column names and metadata; only the values
differ. Whole numbers are accepted and read as float64; since a release cannot be rounded to whole numbers, it is then
written as float64. Constant columns, duplicate rows, a single user and a single dimension are accepted here; what
can be said about them is for the audit. Rows are counted from 1 in messages, the header not included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from oblivec.errors import BadInput
from oblivec.files.atomic import atomic_path
from oblivec.files.ids import id_texts, refuse_duplicates
from oblivec.files.matrix_tables import TableLayout, read_matrix_table
from oblivec.files.matrix_writers import write_matrix_csv, write_matrix_parquet
from oblivec.files.npy import NpyLayout, read_npy, write_npy
from oblivec.files.objects import column_of
from oblivec.files.opening import check_readable, suffix_of
from oblivec.files.table_sources import open_table
from oblivec.files.tensors import TensorsLayout, read_tensors, write_tensors

EMBEDDING_SUFFIXES = (".npy", ".safetensors", ".parquet", ".csv")
_BLOCK_VALUES = 1 << 22


@dataclass(frozen=True)
class EmbeddingFile:
    """A matrix of embeddings, one row per user (or item), and how the file it came from was laid out."""

    values: np.ndarray
    """N x d, finite; float16, float32 or float64 as stored (bfloat16 as float32, whole numbers as float64)."""
    ids: np.ndarray | None
    """Ids as text in row order (object array of `str`, no duplicates), or None when the file carries none."""
    path: Path | None = None
    """None for a matrix that was never in a file."""
    suffix: str = ".npy"
    id_column: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    """The metadata of a `.safetensors` file."""
    layout: NpyLayout | TensorsLayout | TableLayout | None = None

    def __post_init__(self) -> None:
        if self.ids is not None:
            refuse_duplicates(self.ids, self.source, self.id_column or "ids")

    @property
    def source(self) -> str:
        """How messages call it."""
        return str(self.path) if self.path is not None else "embeddings"

    def __len__(self) -> int:
        return len(self.values)


def read_embeddings(path: Path | str, id_column: str | None = None) -> EmbeddingFile:
    """Read a matrix; anything wrong with the file is `BadInput` with one line that says where and what to do.

    `id_column` names the id column of a table when it is not `user_id`, `item_id` or `id`; the other formats ignore it.
    """
    path, suffix = check_readable(path, EMBEDDING_SUFFIXES)
    if suffix in (".csv", ".parquet"):
        values, ids, id_column, layout = read_matrix_table(open_table(path), id_column)
        return EmbeddingFile(values, ids, path, suffix, id_column, layout=layout)
    if suffix == ".safetensors":
        stored, ids, layout = read_tensors(path)
        values = _checked(stored, str(path))
        return EmbeddingFile(values, ids, path, suffix, None if ids is None else "ids", layout.metadata, layout)
    stored, layout = read_npy(path)
    return EmbeddingFile(_checked(stored, str(path)), None, path, suffix, layout=layout)


def embeddings_from(values: np.ndarray | torch.Tensor, ids: Any = None) -> EmbeddingFile:
    """A matrix in memory, held to the same rules as one in a file."""
    array = values.detach().cpu() if isinstance(values, torch.Tensor) else np.asarray(values)
    if isinstance(array, torch.Tensor):
        array = (array.float() if array.dtype == torch.bfloat16 else array).numpy()
    if array.ndim != 2 or array.size == 0:
        raise BadInput(f"embeddings: their shape is {array.shape}; give a matrix of users x dimensions")
    if ids is not None:
        ids = id_texts(column_of("ids", ids, "embeddings").chunks, "embeddings", "ids")
        if len(ids) != len(array):
            raise BadInput(f"embeddings: {len(ids)} ids for {len(array)} rows; give one id per row")
    return EmbeddingFile(_checked(array, "embeddings"), ids)


def check_target(target: Path | str, like: EmbeddingFile) -> None:
    """Refuse a target of another format; call it before long work rather than after."""
    if suffix_of(target) != like.suffix:
        raise BadInput(f"{target}: must end in {like.suffix}, as {like.source} does; a release keeps its format")


def write_embeddings(target: Path | str, like: EmbeddingFile, values: np.ndarray) -> None:
    """Write `values` as `like` was laid out; an existing file is replaced in one step or not at all."""
    check_target(target, like)
    values = np.asarray(values)
    if values.shape != like.values.shape:
        raise BadInput(f"{target}: the release is {values.shape}, {like.source} is {like.values.shape}; keep the shape")
    layout = like.layout if like.layout is not None else NpyLayout(like.values.dtype, False)
    with atomic_path(target) as temporary:
        if isinstance(layout, NpyLayout):
            write_npy(temporary, _cast(values, like.values.dtype, target), layout)
        elif isinstance(layout, TensorsLayout):
            matrix = torch.from_numpy(np.array(_cast(values, like.values.dtype, target)))
            if layout.dtype == torch.bfloat16:
                matrix = matrix.bfloat16()
                _refuse_infinite(matrix.float().numpy(), str(target))
            write_tensors(temporary, matrix, layout)
        elif like.suffix == ".csv":
            write_matrix_csv(temporary, _cast(values, like.values.dtype, target), layout)
        else:
            write_matrix_parquet(temporary, _cast(values, like.values.dtype, target), layout)


def _checked(stored: np.ndarray, source: str) -> np.ndarray:
    """Finite floats in the machine's byte order, or bad input."""
    kind = stored.dtype.kind
    if kind not in "fiu" or (kind == "f" and stored.dtype.itemsize > 8):
        raise BadInput(f"{source}: holds {stored.dtype.name} values; save it as float32, or float64")
    values = stored.astype(np.float64) if kind != "f" else stored
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    _refuse_infinite(values, source)
    return values


def _refuse_infinite(values: np.ndarray, source: str) -> None:
    """Block by block, so that a mapped file is never copied."""
    rows = max(1, _BLOCK_VALUES // values.shape[1])
    for start in range(0, len(values), rows):
        finite = np.isfinite(values[start:start + rows])
        if not finite.all():
            row, column = (int(place) for place in np.argwhere(~finite)[0])
            raise BadInput(
                f"{source}: row {start + row + 1}, column {column + 1} is not a finite number; mend it or drop the row"
            )


def _cast(values: np.ndarray, dtype: np.dtype, target: Path | str) -> np.ndarray:
    """`values` in the type of the input; a value too large for it is refused rather than written as infinity."""
    with np.errstate(over="ignore"):
        values = values.astype(dtype, copy=False)
    _refuse_infinite(values, str(target))
    return values
