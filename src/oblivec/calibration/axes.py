"""Slices along the axes that tell most: where along one axis the groups' shapes differ, among random axes it drowns.

The axes are sought on each half of the users, by climbing to where the groups' quantile functions are farthest apart,
and judged on the other half: what was found there by chance is not seen here, so that nothing moves on noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from oblivec.calibration.adam import Adam
from oblivec.calibration.dense import sort_columns
from oblivec.calibration.groups import Groups
from oblivec.calibration.slices import FIRST_ORDER, Slices, differences

SEARCHES, STEPS, RATE = 8, 20, 0.15
"""Axes that climb at the same time, from random beginnings; how often, and how far each time."""
AXES = 4
"""Of those, so many are used: the first, then what each next one adds."""
FEWEST = 2
"""Users a group needs in each half; smaller groups stay out of it."""
SOUGHT = 8192
"""Users among whom the axes are sought at most: enough for what attackers could learn, and work is linear in N."""


@dataclass(frozen=True)
class Axes:
    """What tells an attribute's groups apart along single axes. Looking moves nobody and can be done beside others."""

    groups: Groups
    rng: torch.Generator
    found: tuple[tuple[Tensor, Groups], ...]
    """Orthonormal columns that one half of the users found, and the other half."""

    @classmethod
    def of(cls, X: Tensor, groups: Groups, rng: torch.Generator) -> Axes:
        groups = groups.at_least(2 * FEWEST)
        if len(groups.members) < 2 or X.shape[1] == 0:
            return cls(groups, rng, ())
        halves = groups.halves(rng)
        pairs = (halves, halves[::-1])
        return cls(groups, rng, tuple((_telling_axes(X, sought, rng), judged) for sought, judged in pairs))

    def round(self, X: Tensor, step: float) -> Tensor:
        """X after a damped move along the axes that either half found."""
        for axes, judged in self.found:
            X = Slices(step).along(axes, X, self.groups, judged, self.rng)
        return X


def _telling_axes(X: Tensor, groups: Groups, rng: torch.Generator) -> Tensor:
    """Orthonormal columns, those that tell most first."""
    every = -(-len(groups.rows) // SOUGHT)
    groups = Groups(tuple(members[::every] for members in groups.members))
    rows = X[groups.rows]
    members = torch.arange(len(rows), device=X.device).split([len(one) for one in groups.members])
    start = torch.randn(X.shape[1], SEARCHES, generator=rng, device=rng.device).to(X.device)
    axes, adam = start, Adam()
    for _ in range(STEPS):
        with torch.enable_grad():
            axes.requires_grad_()
            seen = rows @ F.normalize(axes, dim=0)
            seen = seen / seen.std(0, correction=0).clamp_min(1e-12)
            apart = differences([sort_columns(seen[own])[0] for own in members], groups)
            told = (apart[:, FIRST_ORDER:].square() * groups.sizes[:, None, None]).sum((0, 1))
            (slope,) = torch.autograd.grad(told.sum(), axes)
        axes = axes.detach() + RATE * adam.way(slope)
    best = told.detach().argsort(descending=True)
    return torch.linalg.qr(F.normalize(axes, dim=0)[:, best])[0][:, :AXES]
