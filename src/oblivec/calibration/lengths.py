"""Bring to chance how far users are from the middle.

Groups may look alike along every single direction and still differ in this: over hundreds of directions, what is noise
in each adds up. Who is near the middle is everybody's neighbour, so whoever asks the nearest users reads it, and
whoever measures the rows. Lengths are dealt out like the values along a direction (`waves`): where their table stands
out, every group gets those of a random group of its size, in the order its users had.
"""

from __future__ import annotations

import torch
from torch import Tensor

from oblivec.calibration.groups import Groups
from oblivec.calibration.waves import deal_out


def deal_lengths(Z: Tensor, groups: Groups, rng: torch.Generator) -> Tensor:
    """Z with its rows stretched or shortened; Z itself where no group's lengths stand out."""
    lengths = Z.norm(dim=1, keepdim=True)
    return Z * (deal_out(lengths, groups, rng) / lengths.clamp_min(1e-12))
