"""Sliced transport towards the groups' common shape: what is left when means and covariances are at chance.

Rotate at random. Along every axis each group has a quantile function; its coefficients in Hermite polynomials say where
the group lies (order 0), how wide it is (1), how skewed (2), and so on. Users move along their own ranks from their
group's quantile function towards the mean of all, smoothly, and only by the part of the difference that random groups
of the same sizes do not show (James and Stein's shrinkage, pooled over the axes): where there is no signal nothing
moves, however often it is repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from oblivec.calibration.dense import sort_columns, sorted_columns
from oblivec.calibration.groups import ORDERS, Groups

MEMORY = 0.8
"""How much of the noise level of earlier rounds is kept: it is estimated from one random regrouping per round."""
CAUTION = 1.05
"""The noise level is taken as this much larger, so that its own error moves nobody."""
FIRST_ORDER = 1
"""Means are `clipping`'s business: rounds that each remove a little noise from them would add up to a signal."""


@dataclass
class Slices:
    """Repeated rounds for one attribute. `noise` is its groups' noise level, learned while going."""

    step: float
    noise: Tensor | None = field(default=None)

    def round(self, X: Tensor, groups: Groups, rng: torch.Generator) -> Tensor:
        """One random rotation, one damped move along all its axes."""
        d = X.shape[1]
        axes = torch.linalg.qr(torch.randn(d, d, generator=rng, device=rng.device))[0].to(X.device)
        return self.along(axes, X, groups, groups, rng)

    def along(self, axes: Tensor, X: Tensor, groups: Groups, judged: Groups, rng: torch.Generator) -> Tensor:
        """A damped move along orthonormal axes, by what is seen on `judged`: the same groups, of all users or some."""
        seen = X @ axes
        width = seen.std(0, correction=0).clamp_min(1e-12)
        seen = seen / width
        sorted_members = [sort_columns(seen[members]) for members in judged.members]
        found = differences([values for values, _ in sorted_members], judged)
        by_chance = differences([sorted_columns(seen[members]) for members in judged.permuted(rng)], judged)
        shift = found * self._trusted(found, by_chance, judged)[..., None]
        shift[:, :FIRST_ORDER] = 0
        moved = torch.zeros_like(seen)
        for number, members in enumerate(groups.members):
            shape = groups.shapes[number]
            order = sorted_members[number][1] if judged is groups else sort_columns(seen[members])[1]
            along_ranks = shape @ shift[number, : shape.shape[1]]
            moved[members] = torch.empty_like(along_ranks).scatter_(0, order, along_ranks)
        return X + self.step * ((moved * width) @ axes.T)

    def _trusted(self, found: Tensor, by_chance: Tensor, groups: Groups) -> Tensor:
        """Per group and order, the share of the difference that is more than noise."""
        weight = groups.sizes[:, None, None].sqrt()
        signal = (found * weight).square().mean(2)
        noise = (by_chance * weight).square().mean(2)
        if self.noise is not None and self.noise.shape == noise.shape:
            noise = MEMORY * self.noise + (1 - MEMORY) * noise
        self.noise = noise
        pooled = (noise * groups.shares[:, None]).sum(0)  # a small group's own noise level is itself noisy
        level = CAUTION * ((noise + pooled) / 2 / signal.clamp_min(1e-12)).sqrt()
        return torch.where(signal > 0, (1 - level).clamp_min(0), 0.0)


def differences(sorted_members: Sequence[Tensor], groups: Groups) -> Tensor:
    """Groups x orders x axes: from each group's coefficients to their mean, given its values in order."""
    axes = sorted_members[0].shape[1]
    coefficients = sorted_members[0].new_zeros(len(sorted_members), ORDERS + 1, axes)
    known = coefficients.new_zeros(len(sorted_members), ORDERS + 1, 1)
    for number, (values, shape) in enumerate(zip(sorted_members, groups.shapes, strict=True)):
        coefficients[number, : shape.shape[1]] = shape.T @ values / len(values)
        known[number, : shape.shape[1]] = 1
    weight = groups.shares[:, None, None] * known
    common = (weight * coefficients).sum(0) / weight.sum(0).clamp_min(1e-12)
    return (common - coefficients) * known
