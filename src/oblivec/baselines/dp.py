"""`dp`: Gaussian noise on the user matrix, the paper's DP.

It looks at no label and no attribute. The noise is drawn once for a release: drawn afresh at every prediction, as the
paper words it, it could be averaged away by asking often. No (epsilon, delta) is claimed, because rows have no bound
that would give the sensitivity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from oblivec.baselines.base import BaselineConfig, ReleaseBaseline, register, spread
from oblivec.datasets.attributes import Attribute
from oblivec.randomness import torch_rng


class DPConfig(BaselineConfig):
    """How much noise."""

    scale: float = Field(1.0, ge=0, allow_inf_nan=False)
    """Standard deviation of the noise on every entry, in the unit below. Not printed in the paper; 1 is as much noise
    as there is signal, the one value that means the same for every model."""
    relative: bool = True
    """Whether the unit is the spread of the matrix: the root mean square of its entries around their column's mean.
    Otherwise the scale is in the units of the matrix itself."""


@register
class DP(ReleaseBaseline):
    name = "dp"
    Config = DPConfig
    config: DPConfig

    def _edit(
        self, U: Tensor, attributes: Sequence[Attribute], items: Tensor | None, seed: int
    ) -> tuple[Tensor, dict[str, Any]]:
        deviation = self.config.scale * (spread(U) if self.config.relative else 1.0)
        noise = torch.randn(U.shape, generator=torch_rng(seed, "dp", device=U.device), device=U.device)
        return U + deviation * noise, {"noise_deviation": deviation}
