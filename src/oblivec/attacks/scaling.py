"""Scaling learnt from the training rows of a trial, and from nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

SMALLEST_SPREAD = 1e-9
"""Of a column, relative to its mean; below it is rounding."""
SMALLEST_VARIANCE = 1e-11
"""Of a direction, relative to the largest. Rounding to float32 leaves about 1e-14 in a direction that is not there."""

LARGEST = 1e30
"""Numbers beyond this, or below its inverse, overflow or vanish in float32 arithmetic."""
FARTHEST = 1e4
"""How many times its range a column may lie away from 0 before float32 loses digits that matter."""


def as_float32(x: np.ndarray) -> np.ndarray:
    """Vectors in the precision attackers work in.

    A float64 column that float32 cannot hold (too large, too small, too far from 0) is moved to the interval from -1 to
    1: only its unit is lost, and no label is looked at.
    """
    if x.dtype != np.float64 or len(x) == 0:
        return np.ascontiguousarray(x, dtype=np.float32)
    low, high = x.min(0), x.max(0)
    centre, reach, size = low / 2 + high / 2, high / 2 - low / 2, np.maximum(np.abs(low), np.abs(high))
    lost = (size > LARGEST) | ((size > 0) & (size < 1 / LARGEST)) | (size > FARTHEST * reach)
    lost &= (reach > 0) | (size > LARGEST)
    x = x.copy()
    x[:, lost] = (x[:, lost] - centre[lost]) / np.where(reach > 0, reach, 1.0)[lost]
    return np.ascontiguousarray(x, dtype=np.float32)


@dataclass(frozen=True)
class Affine:
    """x -> (x - shift) @ matrix. A diagonal matrix may be given as its diagonal."""

    shift: torch.Tensor
    matrix: torch.Tensor

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        moved = x.to(self.shift) - self.shift
        return (moved * self.matrix if self.matrix.ndim == 1 else moved @ self.matrix).float()


def standardise(x: torch.Tensor) -> Affine:
    """Every column to mean 0 and variance 1; a constant column becomes 0."""
    x = x.double()
    shift = x.mean(0)
    spread = (x - shift).square_().mean(0).sqrt()
    live = spread > SMALLEST_SPREAD * shift.abs()  # of its own column: how small others are or large says nothing
    return Affine(shift, torch.where(live, 1 / torch.where(live, spread, 1.0), 0.0))


def whiten(x: torch.Tensor, most: int | None = None) -> Affine:
    """Every direction to variance 1, so that a low-variance direction is as readable as any other.

    Null directions (constant, duplicate and collinear columns, d > n) are dropped; one that was only shrunk, to a
    hundred-thousandth of the others, is not. `most` keeps the directions of
    largest variance only. O(n d^2 + d^3).
    """
    scale = standardise(x)
    z = (x.double() - scale.shift) * scale.matrix
    values, vectors = torch.linalg.eigh(z.T @ z / len(z))
    keep = values > SMALLEST_VARIANCE * values[-1].clamp(min=1e-30)
    values, vectors = values[keep], vectors[:, keep]
    if most is not None:
        values, vectors = values[-most:], vectors[:, -most:]
    return Affine(scale.shift, scale.matrix[:, None] * (vectors / values.sqrt()))
