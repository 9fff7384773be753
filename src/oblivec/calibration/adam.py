"""Adam (Kingma and Ba, 2015), written out: loading torch's optimisers takes longer than what is done with it here."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

BETAS = 0.9, 0.999
"""How much of the mean slope, and of the mean squared slope, a step leaves as it was."""
TINY = 1e-8


@dataclass
class Adam:
    """For one tensor. `way` says, slope by slope, which way to go and how far, at a rate of one."""

    steps: int = 0
    first: Tensor | None = None
    second: Tensor | None = None

    def way(self, slope: Tensor) -> Tensor:
        self.steps += 1
        nothing = torch.zeros_like(slope)
        self.first = torch.lerp(slope, nothing if self.first is None else self.first, BETAS[0])
        self.second = torch.lerp(slope.square(), nothing if self.second is None else self.second, BETAS[1])
        spread = (self.second / (1 - BETAS[1] ** self.steps)).sqrt()
        return self.first / (1 - BETAS[0] ** self.steps) / (spread + TINY)
