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
        found, orders = differences(seen, judged.members, judged)
        by_chance, _ = differences(seen, judged.permuted(rng), judged)
        shift = found * self._trusted(found, by_chance, judged)[..., None]
        shift[:, :FIRST_ORDER] = 0
        moved = torch.zeros_like(seen)
        for number, members in enumerate(groups.members):
            shape = groups.shapes[number]
            order = orders[number] if judged is groups else seen[members].argsort(0)
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


def differences(seen: Tensor, members: Sequence[Tensor], groups: Groups) -> tuple[Tensor, list[Tensor]]:
    """Groups x orders x axes: from each group's coefficients to their mean; and each group's order along every axis."""
    coefficients = seen.new_zeros(len(members), ORDERS + 1, seen.shape[1])
    known = seen.new_zeros(len(members), ORDERS + 1, 1)
    orders = []
    for number, rows in enumerate(members):
        values, order = seen[rows].sort(0)
        shape = groups.shapes[number]
        coefficients[number, : shape.shape[1]] = shape.T @ values / len(rows)
        known[number, : shape.shape[1]] = 1
        orders.append(order)
    weight = groups.shares[:, None, None] * known
    common = (weight * coefficients).sum(0) / weight.sum(0).clamp_min(1e-12)
    return (common - coefficients) * known, orders
