"""Fingerprints: SHA-256 of matrices, labels and settings, the same on every machine.

Whoever knows all labels but a few could find those few by trying which ones give the fingerprint: fingerprints belong
in the store and in listings of it, not in a report that is sent out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from oblivec.datasets.attributes import Attribute
from oblivec.errors import BadInput

_CHUNK_BYTES = 1 << 22


def canonical_json(value: Any) -> str:
    """One text per value: sorted keys, no spaces, ASCII, every float with the fewest digits that give it back."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError):
        raise BadInput("settings: hold something JSON has no word for; use text, finite numbers and lists") from None


def text_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def config_hash(configuration: Mapping[str, Any]) -> str:
    """Fingerprint of a method's settings."""
    return text_hash(canonical_json(dict(configuration)))


def file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def matrix_hash(matrix: np.ndarray | Tensor) -> str:
    """Fingerprint of type, shape and every value in order of rows; an array and a tensor of it have the same.

    Values count by their bits (0.0 and -0.0 differ) in little-endian order. Never more than a chunk is copied, wherever
    the matrix lies and however it is strided.
    """
    name, rows = _as_rows(matrix)
    digest = hashlib.sha256(canonical_json([name, list(matrix.shape)]).encode())
    step = max(1, _CHUNK_BYTES * len(rows) // max(1, _nbytes(rows)))
    for start in range(0, len(rows), step):
        chunk = rows[start:start + step]
        if isinstance(chunk, Tensor):
            chunk = chunk.cpu().numpy()
        digest.update(np.ascontiguousarray(chunk, chunk.dtype.newbyteorder("<")).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def labels_hash(attribute: Attribute) -> str:
    """Fingerprint of the kind, the number of classes and every label, missing ones included.

    Names of classes do not count: no method sees them. Labels count by value, so 0.0 and -0.0, or two ways to write
    NaN, are the same.
    """
    kind = canonical_json([attribute.kind, len(attribute.classes)])
    if attribute.is_continuous:
        values = np.asarray(attribute.values, dtype=np.float64)
        values = np.where(np.isnan(values), np.nan, values + 0.0)
    else:
        values = np.asarray(attribute.values, dtype=np.int64)
    return text_hash(f"{kind} {matrix_hash(values)}")


def _as_rows(matrix: np.ndarray | Tensor) -> tuple[str, np.ndarray | Tensor]:
    """The name of the type, which numpy and torch share, and the values with at least one dimension to cut along."""
    if isinstance(matrix, Tensor):
        name = str(matrix.dtype).removeprefix("torch.")
        matrix = matrix.detach()
        if matrix.dtype == torch.bfloat16:
            matrix = matrix.view(torch.int16)  # numpy has no bfloat16; the bits are the same
    else:
        name = matrix.dtype.newbyteorder("=").name
    return name, matrix.reshape(1) if matrix.ndim == 0 else matrix


def _nbytes(rows: np.ndarray | Tensor) -> int:
    return rows.numel() * rows.element_size() if isinstance(rows, Tensor) else rows.nbytes
