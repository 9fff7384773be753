"""`random-moments`: a random matrix with the mean and the covariance of the user matrix, exactly.

No row knows anything of its user, so attackers are at chance and what ranking quality is left comes from the mean: the
far end of the scale. A method whose ranking quality is down here has not protected users, it has lost them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from oblivec.baselines.base import BaselineConfig, ReleaseBaseline, register
from oblivec.datasets.attributes import Attribute
from oblivec.randomness import torch_rng


class RandomMomentsConfig(BaselineConfig):
    """There is nothing to set."""


@register
class RandomMoments(ReleaseBaseline):
    name = "random-moments"
    Config = RandomMomentsConfig

    def _edit(
        self, U: Tensor, attributes: Sequence[Attribute], items: Tensor | None, seed: int
    ) -> tuple[Tensor, dict[str, Any]]:
        """With U - mean = Q S V', S V' is kept and Q exchanged for random orthonormal columns that each sum to zero."""
        mean = U.double().mean(0)
        centred = U.double() - mean
        values, directions = torch.linalg.eigh(centred.T @ centred)
        rank = min(U.shape[1], len(U) - 1)
        null = U.shape[1] - rank  # the smallest eigenvalues, which come first, are zero where users are few
        values, directions = values[null:].clamp_min(0), directions[:, null:]
        rng = torch_rng(seed, "random-moments", device=U.device)
        noise = torch.randn(len(U), rank, generator=rng, device=U.device, dtype=torch.float64)
        columns = torch.linalg.qr(noise - noise.mean(0))[0]
        return (mean + columns * values.sqrt() @ directions.T).float(), {}
