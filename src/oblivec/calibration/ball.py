"""The parameter space constraint: how far a calibrated matrix may be from the original, Equation (projection)."""

from __future__ import annotations

import math
from typing import Literal

from torch import Tensor

Ball = Literal["matrix", "row", "relative-row"]
"""What the radius bounds: the whole change in the Frobenius norm, by `radius` times the number of users; every user's
change, by `radius`; or every user's change, by `radius` times the length of that user's original row."""


def project(U: Tensor, U0: Tensor, ball: Ball, radius: float) -> None:
    """Bring `U` back into the ball around `U0`, in place: shorten what is too long, keep its direction.

    For `matrix`, the number of users is the number of rows given, so `radius` is the paper's epsilon / N.
    """
    if math.isinf(radius):
        return
    change = U - U0
    if ball == "matrix":
        length, limit = change.norm(), U0.new_tensor(radius * len(U0))
    else:
        length = change.norm(dim=1, keepdim=True)
        limit = U0.norm(dim=1, keepdim=True) * radius if ball == "relative-row" else U0.new_tensor(radius)
    # 1 where inside: U itself, not U0 + (U - U0), whose rounding would move users at every step.
    outside = length > limit
    shortened = U0 + change * (limit / length.clamp_min(1e-30))
    U.copy_(shortened.where(outside, U))
