"""What trees see: on which side of thresholds a user's columns are.

Where users lie smoothly along every direction, trees see little that kernels on directions do not. Where columns have
sharp edges, as those of non-negative factors, thresholds of many columns tell together. Here a column's rank is written
as a thermometer, whose steps are thresholds that an equal share of the users is on; a kernel on thermometers sees what
trees would split at, and has gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from oblivec.calibration.groups import Groups
from oblivec.calibration.left_out import by_machines
from oblivec.calibration.telling import Sight

STEPS = 12
"""Of a column's thermometer."""
LEAST = 1e-6
"""Standard deviations of a column at which its quantiles are kept from each other."""
CONSTANT = 1e-5
"""Standard deviation of a column, as a share of its largest value, up to which it is constant but for rounding."""


@dataclass(frozen=True)
class Ranks:
    """Ranks of columns, from 0 to `STEPS`, linear between quantiles; beyond the ends they go on as steeply."""

    quantiles: Tensor
    """Columns x (steps + 1), ascending."""

    @classmethod
    def of(cls, columns: Tensor) -> Ranks:
        order = columns.sort(dim=0).values
        at = torch.linspace(0, len(columns) - 1, STEPS + 1, device=columns.device).round().long()
        apart = LEAST * torch.arange(STEPS + 1, device=columns.device) * columns.std(0)[:, None]
        return cls((order[at].T + apart).contiguous())

    def encode(self, columns: Tensor) -> Tensor:
        values = columns.T.contiguous()
        below = (torch.searchsorted(self.quantiles, values, right=True) - 1).clamp(0, STEPS - 1)
        left = self.quantiles.gather(1, below)
        return (below + (values - left) / (self.quantiles.gather(1, below + 1) - left)).T

    def decode(self, ranks: Tensor) -> Tensor:
        values = ranks.T
        below = values.floor().clamp(0, STEPS - 1).long()
        left = self.quantiles.gather(1, below)
        return torch.lerp(left, self.quantiles.gather(1, below + 1), values - below).T


def by_thresholds(ranks: Tensor, attributes: Sequence[Groups], rng: torch.Generator) -> Sight:
    """What machines say that look at thermometers; the gradients are those of the ranks."""
    passed = ranks[:, :, None] - torch.arange(STEPS, device=ranks.device)
    sight = by_machines(passed.clamp(0, 1).flatten(1), attributes, rng)
    at = ranks.floor().clamp(0, STEPS - 1).long()[:, :, None]  # the one step that a rank is on
    return Sight(
        sight.values, lambda attribute: sight.gradient(attribute).view_as(passed).gather(2, at)[:, :, 0]
    )


def columns_apart(rows: Tensor, least: float) -> Tensor:
    """Which columns may be moved one by one: those that vary, or none where they hang together so closely that the
    smallest eigenvalue of their correlations is below `least`."""
    varying = torch.nonzero(rows.std(0) > CONSTANT * rows.abs().amax(0))[:, 0]
    if len(varying) < 2:
        return varying[:0]
    closest = torch.linalg.eigvalsh(torch.corrcoef(rows[:, varying].T))[0]
    return varying if closest >= least else varying[:0]
