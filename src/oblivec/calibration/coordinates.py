"""A matrix as `lego` works on it: ties taken apart, then coordinates; and back to rows that may be released.

What is released is what counts: a difference that stands out there may drown among rows whose ties are apart. So steps
that look at all directions together look at what would be released, and move the coordinates by as much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from oblivec.calibration.space import Space
from oblivec.calibration.ties import Ties


@dataclass(frozen=True)
class Coordinates:
    space: Space
    ties: Ties

    @classmethod
    def of(cls, U: Tensor, moving: Tensor, rng: torch.Generator) -> tuple[Coordinates, Tensor]:
        """The coordinates of U and U in them. Ties are those among the users who are `moving`, a mask."""
        ties = Ties.of(U[moving])
        parted = torch.where(moving[:, None], ties.apart(U, rng), U)
        space = Space.of(parted)
        return cls(space, ties), space.encode(parted)

    def decode(self, X: Tensor) -> Tensor:
        """The rows to release."""
        return self.ties.together(self.space.decode(X))

    def as_released(self, X: Tensor, step: Callable[[Tensor], Tensor]) -> Tensor:
        """X after a step done on what would be released."""
        if not self.ties.columns:
            return step(X)
        seen = self.space.encode(self.decode(X))
        return X + step(seen) - seen

    def centred(self, X: Tensor) -> Tensor:
        """Rows with everybody in the middle of its interval: no threshold between two released values parts more."""
        return self.ties.centred(self.space.decode(X))
