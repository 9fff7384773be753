"""`.safetensors` matrices: tensor `embeddings`, ids as integer tensor `ids` or, when text, as a JSON list in the
metadata under `ids`. Everything else in the file is carried along untouched.

The safetensors library checks the header against the file's size before it allocates, and nothing in the format runs.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from oblivec.errors import BadInput
from oblivec.files.ids import id_texts, listing
from oblivec.files.opening import decoding

EMBEDDINGS, IDS = "embeddings", "ids"
_NUMBERS = {
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
}
_WHOLE = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}


@dataclass(frozen=True)
class TensorsLayout:
    """What `.safetensors` needs to be written back as it came."""

    dtype: torch.dtype
    others: Mapping[str, torch.Tensor] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)


def read_tensors(path: Path) -> tuple[np.ndarray, np.ndarray | None, TensorsLayout]:
    """The matrix (bfloat16 as float32, which holds it exactly), the ids as text, and the layout."""
    from safetensors import safe_open

    with decoding(path, "safetensors"), safe_open(path, framework="pt") as file:
        metadata = dict(file.metadata() or {})
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    matrix = tensors.pop(EMBEDDINGS, None)
    if matrix is None:
        raise BadInput(f"{path}: has no tensor '{EMBEDDINGS}' (it has {listing(sorted(tensors)) or 'none'}); rename it")
    if matrix.dtype not in _NUMBERS:
        raise BadInput(f"{path}: tensor '{EMBEDDINGS}' is {str(matrix.dtype).removeprefix('torch.')}; use float32")
    if matrix.ndim != 2:
        raise BadInput(f"{path}: tensor '{EMBEDDINGS}' has {matrix.ndim} dimensions, not 2 (users x dimensions)")
    if matrix.numel() == 0:
        raise BadInput(
            f"{path}: holds {matrix.shape[0]} rows of {matrix.shape[1]} dimensions; at least one of each is needed"
        )
    ids = _ids(path, len(matrix), tensors.get(IDS), metadata.get(IDS))
    layout = TensorsLayout(matrix.dtype, tensors, metadata)
    return (matrix.float() if matrix.dtype == torch.bfloat16 else matrix).numpy(), ids, layout


def _ids(path: Path, rows: int, tensor: torch.Tensor | None, text: str | None) -> np.ndarray | None:
    import pyarrow as pa

    if tensor is None and text is None:
        return None
    if tensor is not None and text is not None:
        raise BadInput(f"{path}: has ids as a tensor and in the metadata; keep one of them")
    if tensor is not None:
        if tensor.ndim != 1 or tensor.dtype not in _WHOLE:
            raise BadInput(f"{path}: tensor '{IDS}' must be one whole number per row; text ids go into the metadata")
        cells = pa.array(tensor.numpy())
    else:
        try:
            parsed = json.loads(text or "")
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, list) or not set(map(type, parsed)) <= {str, int}:
            raise BadInput(f"{path}: metadata '{IDS}' must be a JSON list of text or whole numbers, one per row")
        cells = pa.array([str(value) for value in parsed], pa.string())
    if len(cells) != rows:
        raise BadInput(f"{path}: has {len(cells)} ids for {rows} rows; give one id per row")
    return id_texts([cells], path, IDS)


def write_tensors(target: Path, matrix: torch.Tensor, layout: TensorsLayout) -> None:
    save_tensors(target, {EMBEDDINGS: matrix.contiguous(), **layout.others}, layout.metadata)


def save_tensors(target: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """`save_file`, but a full disk is the `OSError` it is anywhere else and not an error of the safetensors library."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    try:
        save_file(dict(tensors), target, metadata=dict(metadata or {}) or None)
    except SafetensorError as problem:
        code = re.search(r"\(os error (\d+)\)", str(problem))
        if code is None:
            raise
        raise OSError(int(code[1]), os.strerror(int(code[1])), str(target)) from None
