"""Scaling learnt from the training rows of a trial, and from nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Affine:
    """x -> (x - shift) @ matrix."""

    shift: torch.Tensor
    matrix: torch.Tensor

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return ((x.to(self.shift) - self.shift) @ self.matrix).float()


def standardise(x: torch.Tensor) -> Affine:
    """Every column to mean 0 and variance 1; a constant column becomes 0."""
    x = x.double()
    shift = x.mean(0)
    spread = x.std(0, correction=0)
    live = spread > 1e-9 * (shift.abs() + spread.max())
    return Affine(shift, torch.diag(torch.where(live, 1 / torch.where(live, spread, 1.0), 0.0)))


def whiten(x: torch.Tensor, most: int | None = None) -> Affine:
    """Every direction to variance 1, so that a low-variance direction is as readable as any other.

    Null directions (constant, duplicate and collinear columns, d > n) are dropped. `most` keeps the directions of
    largest variance only. O(n d^2 + d^3).
    """
    scale = standardise(x)
    z = (x.double() - scale.shift) @ scale.matrix
    values, vectors = torch.linalg.eigh(z.T @ z / len(z))
    keep = values > 1e-7 * values[-1].clamp(min=1e-30)
    values, vectors = values[keep], vectors[:, keep]
    if most is not None:
        values, vectors = values[-most:], vectors[:, -most:]
    return Affine(scale.shift, scale.matrix @ (vectors / values.sqrt()))
