"""Line 5 of Algorithm 1: which users a step looks at."""

from __future__ import annotations

import torch
from torch import Tensor


class Batches:
    """`size` of `length` rows for each step, sampled without replacement; all of them, in order, without a size."""

    def __init__(self, length: int, size: int | None, rng: torch.Generator):
        self._all = size is None or size >= length
        self._length, self._size, self._rng = length, size, rng

    def draw(self) -> Tensor | slice:
        if self._all:
            return slice(None)
        return torch.randperm(self._length, generator=self._rng, device=self._rng.device)[: self._size]
