"""How attackers look at a matrix: as it is, with scaled columns, or every row at unit length; and the way back.

Which users lie near each other depends on that. Rows are of different lengths: groups that are alike as the rows are
can still lie apart for whoever compares directions alone, as cosine similarity does.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Geometry:
    """From coordinates X to rows X @ to, and back."""

    to: Tensor
    """d x k."""
    back: Tensor
    """k x d."""
    origin: Tensor | None = None
    """Where given, rows are X @ to + origin, divided by their length."""
    sparse: bool = False
    """Whether neighbours are sought among few users, so that neighbourhoods are wide."""

    def see(self, X: Tensor) -> Seen:
        rows = X @ self.to
        if self.origin is None:
            return Seen(self, rows, None)
        rows = rows + self.origin
        lengths = rows.norm(dim=1, keepdim=True)
        lengths = lengths.maximum(1e-6 * lengths.square().mean().sqrt() + 1e-30)
        return Seen(self, rows / lengths, lengths)


@dataclass(frozen=True)
class Seen:
    """A matrix in one geometry, and how it changes there when users move in coordinates."""

    geometry: Geometry
    rows: Tensor
    """Users x k."""
    lengths: Tensor | None
    """What rows were divided by, users x 1."""

    def slopes(self, users: Tensor, gradients: Tensor) -> Tensor:
        """Gradients in these rows, users x any x k, as gradients in coordinates."""
        if self.lengths is not None:
            gradients = self._across(users, gradients) / self.lengths[users, None]
        return gradients @ self.geometry.to.T

    def ways(self, users: Tensor, gradients: Tensor) -> Tensor:
        """How to go in coordinates so as to go up gradients in these rows."""
        if self.lengths is not None:
            gradients = self._across(users, gradients) * self.lengths[users, None]
        return gradients @ self.geometry.back

    def moved(self, move: Tensor) -> Tensor:
        """How far everybody goes in these rows, for moves in coordinates, to first order."""
        move = move @ self.geometry.to
        if self.lengths is None:
            return move
        everybody = torch.arange(len(move), device=move.device)
        return self._across(everybody, move[:, None])[:, 0] / self.lengths

    def _across(self, users: Tensor, gradients: Tensor) -> Tensor:
        """What is at a right angle to each user's own row: along it, unit rows do not change."""
        own = self.rows[users, None]
        return gradients - (gradients * own).sum(2, keepdim=True) * own
