"""Matrices in memory: whatever comes in is worked on as float32 and goes out as the kind and type it came in."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from oblivec.errors import BadInput


def as_float32(values: np.ndarray, source: str) -> np.ndarray:
    """What the methods work on: a copy, since a mapped file or the caller's array may change under us."""
    with np.errstate(over="ignore"):
        copied = np.array(values, dtype=np.float32, order="C")
    if not np.isfinite(copied).all():
        raise BadInput(f"{source}: hold numbers too large for float32; scale them down")
    return copied


def as_given(edited: Tensor, given: Any, values: np.ndarray) -> Any:
    """`edited` as `given` is: numpy or torch, its type, its device. `values` is `as_float32` of what was given.

    A value that was not moved stays as it was to the bit, also where its type is wider than float32. Always a copy.
    """
    unmoved = torch.from_numpy(values) == edited
    if isinstance(given, Tensor):
        kind = given.dtype if given.is_floating_point() else torch.float64
        return torch.where(unmoved.to(given.device), given.detach().to(kind), edited.to(given.device, kind))
    original = np.asarray(given)
    kind = original.dtype if original.dtype.kind == "f" else np.dtype(np.float64)
    with np.errstate(over="ignore"):
        return np.where(unmoved.numpy(), original.astype(kind, copy=False), edited.numpy().astype(kind))
