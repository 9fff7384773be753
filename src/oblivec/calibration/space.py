"""The coordinates in which `lego` works: principal directions, each with unit variance, the widest first.

Directions the matrix does not use (constant, duplicate and collinear columns) have no coordinate. What rounding left in
them is dropped on the way back: a label written there would be read by any attacker that scales its input.

Where some rows are far longer than most a few users would decide every mean; and where lengths differ for a reason of
their own, as in factorisations whose norms follow a user's activity, a move that is right for long rows turns short
ones round. There a row is taken apart into its direction and the logarithm of its length first.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

NARROWEST = 1e-6
"""Smallest variance of a direction, relative to the widest, that still counts as used."""
HEAVY_TAIL = 8.0
"""Longest row, as a multiple of the median, up to which rows are taken as they are ..."""
UNEVEN, UNEXPLAINED = 0.3, 1.5
"""... unless the lengths' logarithms spread by this much, and this many times as much as those of Gaussian rows would
that have the same mean and covariance: then lengths are a property of their own, as a user's activity is."""
SHORTEST = 1e-3
"""Rows shorter than this share of the median (zero rows among them) count as that long: they have no direction."""


@dataclass(frozen=True)
class Space:
    offset: Tensor
    """What every row has in the directions the matrix does not use, d."""
    basis: Tensor
    """The directions it uses, d x k, orthonormal."""
    typical: Tensor
    """Median length of a row where rows are taken apart, else 0."""
    mean: Tensor
    """Mean of the rows in that basis, or of their directions and log lengths."""
    directions: Tensor
    """Principal directions of those, orthonormal columns."""
    spread: Tensor
    """Standard deviation along each, descending."""

    @classmethod
    def of(cls, U: Tensor) -> Space:
        mean, basis, _ = _principal(U)
        used = U @ basis
        lengths = used.norm(dim=1)
        lengths = lengths[lengths > 0] if bool((lengths > 0).any()) else lengths.new_ones(1)
        heavy = bool(lengths.max() > HEAVY_TAIL * lengths.median()) or _uneven(used, lengths)
        typical = lengths.median() if heavy else lengths.new_zeros(())
        return cls(mean - mean @ basis @ basis.T, basis, typical, *_principal(_features(used, typical)))

    @property
    def dimensions(self) -> int:
        return len(self.spread)

    def encode(self, U: Tensor) -> Tensor:
        return (_features(U @ self.basis, self.typical) - self.mean) @ self.directions / self.spread

    def decode(self, X: Tensor) -> Tensor:
        """A function of the coordinates alone: what they do not tell, the rows do not tell."""
        features = (X * self.spread) @ self.directions.T + self.mean
        if self.typical:
            features = features[:, :-1] * (features[:, -1:].exp() * self.typical)
        return features @ self.basis.T + self.offset

    @property
    def columns(self) -> Tensor:
        """Maps coordinates to columns of the matrix, each with unit variance: as attackers see it who scale columns."""
        columns = self.spread[:, None] * self.directions.T
        if not self.typical:
            columns = columns @ self.basis.T
        return columns / columns.norm(dim=0).clamp_min(1e-12 * float(self.spread[0]))

    @property
    def rows(self) -> tuple[Tensor, Tensor, Tensor]:
        """What leads from coordinates to rows, and back, and the row at the origin: where rows are taken apart, rows
        but for their length."""
        to, back, origin = self.spread[:, None] * self.directions.T, self.directions / self.spread, self.mean
        if self.typical:
            to, back, origin = to[:, :-1], back[:-1], origin[:-1]
        return to @ self.basis.T, self.basis @ back, origin @ self.basis.T + self.offset

    def scales(self, power: float) -> Tensor:
        """What to multiply coordinates with: 0 leaves every direction alike, 1 gives each its natural width."""
        scale = (self.spread / self.spread[0]) ** power
        return scale / scale.square().mean().sqrt()


def _features(U: Tensor, typical: Tensor) -> Tensor:
    """The rows, or their directions and log lengths relative to the typical one."""
    if not typical:
        return U
    lengths = U.norm(dim=1, keepdim=True).clamp_min(SHORTEST * typical)
    return torch.cat([U / lengths, (lengths / typical).log()], dim=1)


def _uneven(rows: Tensor, lengths: Tensor) -> bool:
    """Whether lengths differ much, and more than a Gaussian's mean and covariance would make them."""
    spread = float(lengths.log().std(correction=0))
    if spread <= UNEVEN:
        return False
    mean = rows.double().mean(0)
    covariance = (rows - mean).T.double() @ (rows - mean).double() / max(len(rows), 1)
    # Squared lengths of Gaussian rows are about chi-squared, with as many degrees of freedom as these two moments say.
    square, variance = covariance.trace() + mean @ mean, 2 * covariance.square().sum() + 4 * mean @ covariance @ mean
    freedom = 2 * square.square() / variance.clamp_min(1e-30)
    by_gaussian = torch.special.polygamma(1, freedom / 2).sqrt() / 2
    return spread > UNEXPLAINED * float(by_gaussian)


def _principal(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, principal directions that are used, and the standard deviations along them, the widest first."""
    mean = rows.double().mean(0)
    centred = rows.double() - mean
    variance, directions = torch.linalg.eigh(centred.T @ centred / max(len(rows), 1))
    used = torch.nonzero(variance > NARROWEST * variance[-1:].clamp_min(1e-30))[:, 0].flip(0)
    return mean.float(), directions[:, used].float(), variance[used].sqrt().float()
