"""Small files of every format the readers take, valid or with a few cells that should not be there.

Ids and labels carry a `CANARY`, so that a message that quotes one can be told.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

CANARY = "canary"
N_ROWS, N_DIMENSIONS = 40, 3


def _cells(rng: np.random.Generator, column: list[Any], faulty: bool) -> list[Any]:
    """With `faulty`, a few cells become what should not be there."""
    strange = ["", " ", "nan", "inf", "-Infinity", "1e999", "0x1F", "[", "[]", "[1, 2", "'", "\x00", "é", "9" * 400]
    for place in rng.integers(len(column), size=int(rng.integers(1, 4)) if faulty else 0):
        column[place] = strange[int(rng.integers(len(strange)))]
    return column


def _csv(rng: np.random.Generator, columns: dict[str, list[Any]], faulty: bool) -> bytes:
    columns = {name: _cells(rng, column, faulty and rng.random() < 0.5) for name, column in columns.items()}
    table = zip(*columns.values(), strict=True)
    rows = [",".join(f'"{cell}"' if "," in str(cell) else str(cell) for cell in row) for row in table]
    return ("\n".join([",".join(columns), *rows]) + "\n").encode()


def _parquet(rng: np.random.Generator, columns: dict[str, list[Any]], faulty: bool) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    strange: list[Callable[[list[Any]], Any]] = [
        lambda cells: pa.nulls(len(cells)),
        lambda cells: pa.array([b"\xff"] * len(cells)),
        lambda cells: pa.array([True] * len(cells)),
        lambda cells: pa.array([[1.0]] * (len(cells) - 1) + [[1.0, 2.0]]),
        lambda cells: pa.array([[1.0, None]] * len(cells)),
        lambda cells: pa.array([{"a": 1}] * len(cells)),
        lambda cells: pa.array([float("nan"), *[1.0] * (len(cells) - 1)]),
        lambda cells: pa.array([float("inf"), *[1.0] * (len(cells) - 1)]),
        lambda cells: pa.array([1.5] * len(cells), pa.float32()),
        lambda cells: pa.array([1] * len(cells), pa.timestamp("ns")),
        lambda cells: pa.array([1] * len(cells), pa.decimal128(9)),
        lambda cells: pa.array([None, *cells[1:]]),
        lambda cells: pa.array([str(cell) for cell in cells], pa.string_view()),
        lambda cells: pa.array([1] * len(cells), pa.duration("s")),
        lambda cells: pa.array([[]] * len(cells), pa.list_(pa.float32())),
    ]
    arrays = {}
    for name, cells in columns.items():
        swap = faulty and rng.random() < 0.5
        arrays[name] = strange[int(rng.integers(len(strange)))](cells) if swap else pa.array(cells)
    target = io.BytesIO()
    parquet.write_table(pa.table(arrays), target, compression=str(rng.choice(["snappy", "zstd", "none", "gzip"])))
    return target.getvalue()


def _ids() -> list[str]:
    return [f"{CANARY}{row}" for row in range(N_ROWS)]


def _matrix(rng: np.random.Generator, faulty: bool) -> np.ndarray:
    matrix = rng.normal(size=(N_ROWS, N_DIMENSIONS)).astype(np.float32)
    if faulty:
        matrix[int(rng.integers(N_ROWS)), 0] = rng.choice([np.nan, np.inf, -np.inf])
    return matrix


def _npy(rng: np.random.Generator, faulty: bool = False) -> bytes:
    target = io.BytesIO()
    np.save(target, np.asarray(_matrix(rng, faulty), order="F" if rng.random() < 0.3 else "C"))
    return target.getvalue()


def _safetensors(rng: np.random.Generator, faulty: bool = False) -> bytes:
    from safetensors.torch import save

    tensors = {"embeddings": torch.from_numpy(_matrix(rng, faulty))}
    if rng.random() < 0.5:
        tensors["embeddings"] = tensors["embeddings"].bfloat16()
    metadata = None
    if rng.random() < 0.5:
        tensors["ids"] = torch.arange(N_ROWS)
    else:
        texts = _cells(rng, _ids(), faulty)
        metadata = {"ids": json.dumps(texts if rng.random() < 0.8 else {"a": texts})}
    return save(tensors, metadata)


def _embedding_columns(rng: np.random.Generator, as_list: bool, text: bool) -> dict[str, list[Any]]:
    matrix = _matrix(rng, False)
    if as_list:
        rows = matrix.tolist()
        return {"user_id": _ids(), "embedding": [str(row) for row in rows] if text else rows}
    return {"user_id": _ids(), **{f"d{i}": matrix[:, i].tolist() for i in range(N_DIMENSIONS)}}


def _attribute_columns(rng: np.random.Generator) -> dict[str, list[Any]]:
    groups = [f"{CANARY}-{group}" for group in rng.integers(3, size=N_ROWS)]
    ages = rng.normal(40, 9, N_ROWS).tolist()
    return {"user_id": _ids(), "group": groups, "age": ages, "bracket": rng.integers(4, size=N_ROWS).tolist()}


def _interaction_columns(rng: np.random.Generator) -> dict[str, list[Any]]:
    users = [f"{CANARY}{user}" for user in rng.integers(9, size=N_ROWS)]
    times = rng.integers(10**9, size=N_ROWS).tolist()
    splits = [str(split) for split in rng.choice(["train", "test"], N_ROWS)]
    return {"user_id": users, "item_id": rng.integers(9, size=N_ROWS).tolist(), "timestamp": times, "split": splits}


def _maker(columns: Callable[..., dict[str, list[Any]]], write: Callable[..., bytes], *settings: bool) -> Any:
    return lambda rng, faulty=False: write(rng, columns(rng, *settings), faulty)


def _gzipped(make: Callable[..., bytes]) -> Any:
    return lambda rng, faulty=False: gzip.compress(make(rng, faulty), 1)


FORMS: list[tuple[str, str, str, Callable[..., bytes]]] = [
    ("embeddings", "npy", ".npy", _npy),
    ("embeddings", "safetensors", ".safetensors", _safetensors),
    ("embeddings", "parquet columns", ".parquet", _maker(_embedding_columns, _parquet, False, False)),
    ("embeddings", "parquet list", ".parquet", _maker(_embedding_columns, _parquet, True, False)),
    ("embeddings", "csv columns", ".csv", _maker(_embedding_columns, _csv, False, True)),
    ("embeddings", "csv list", ".csv", _maker(_embedding_columns, _csv, True, True)),
    ("attributes", "csv", ".csv", _maker(_attribute_columns, _csv)),
    ("attributes", "csv.gz", ".csv.gz", _gzipped(_maker(_attribute_columns, _csv))),
    ("attributes", "parquet", ".parquet", _maker(_attribute_columns, _parquet)),
    ("interactions", "csv", ".csv", _maker(_interaction_columns, _csv)),
    ("interactions", "csv.gz", ".csv.gz", _gzipped(_maker(_interaction_columns, _csv))),
    ("interactions", "parquet", ".parquet", _maker(_interaction_columns, _parquet)),
]
"""What it holds, its format, its suffix, and how to make one (with faulty cells when the second argument is true)."""
