"""What the ranking lost, in percent of what it was, with an interval over users and base seeds at once.

The same users are ranked by every model before and after, so differences are paired: what makes a user hard to serve
is the same on both sides and drops out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oblivec.randomness import numpy_rng

DRAWS = 1000
LEVEL = 0.05
Pair = tuple[np.ndarray, np.ndarray]
"""Before and after: seeds x users, hits or gains."""


def relative_loss(models: Sequence[Pair], seed: int = 0) -> dict[str, Any]:
    """Mean over the models of each one's loss, `loss_percent`, and its 95 % bootstrap interval `ci`.

    Each draw takes users (the same for all models) and, for each model, base seeds, with replacement. A loss below 0
    is a gain.
    """
    rng = numpy_rng(seed, "paired", len(models))
    users = models[0][0].shape[1]
    times = rng.multinomial(users, np.full(users, 1 / users), size=DRAWS).astype(np.float32)
    drawn = np.zeros(DRAWS)
    for before, after in models:
        seeds = rng.integers(len(before), size=(DRAWS, len(before)))
        sums = (times @ part.T.astype(np.float32) for part in (before, after))
        was, now = (np.take_along_axis(part, seeds, axis=1).sum(1) for part in sums)
        drawn += 100 * (was - now) / np.maximum(was, 1e-12) / len(models)
    low, high = np.quantile(drawn, [LEVEL / 2, 1 - LEVEL / 2])
    return {"loss_percent": float(np.mean([_loss(*pair) for pair in models])), "ci": [float(low), float(high)]}


def _loss(before: np.ndarray, after: np.ndarray) -> float:
    return 100 * float(before.mean() - after.mean()) / max(float(before.mean()), 1e-12)
