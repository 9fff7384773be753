"""Spreads that go with a score: directions along which users of a high score lie wider, or closer, than the others.

Once nothing linear in the scores is left, and nothing that machines find in the rows, second moments may still go with
them: along a direction v rows have the variance 1 + score x value, where v and value are an eigenvector and eigenvalue
of the second moments weighted by the score. Divided by its root, they no longer do. Shuffled scores have such
eigenvalues too; only what exceeds the largest of theirs is taken out.
"""

from __future__ import annotations

import torch
from torch import Tensor

from oblivec.calibration.clipping import whitened

LEADING = 64
"""Directions among which spreads are looked at first, before all: among hundreds, what the widest have drowns."""
FARTHEST = 2.0
"""Scores beyond count as this: few users have them, and what they say of a spread is not known there."""
LEAST, MOST = 0.5, 2.0
"""Of a variance that goes with a score, as a multiple of the common one."""


def without_spreads(X: Tensor, said: Tensor, rng: torch.Generator) -> Tensor:
    """X with no second moments that go with a score by more than chance gives."""
    for width in sorted({min(LEADING, X.shape[1]), X.shape[1]}):
        rows, root, axes = whitened(X[:, :width])
        before = rows
        for score in said.T:
            rows = _without_spread(rows, score, rng)
        X = torch.cat([X[:, :width] + (rows - before) * root @ axes.T, X[:, width:]], dim=1)
    return X


def _without_spread(rows: Tensor, score: Tensor, rng: torch.Generator) -> Tensor:
    """The same for one score, of unit variance; rows are white."""
    values, directions = torch.linalg.eigh(_weighted(rows, score))
    shuffled = score[torch.randperm(len(score), generator=rng, device=rng.device).to(score.device)]
    by_chance = torch.linalg.eigvalsh(_weighted(rows, shuffled)).abs().max()
    beyond = values.sign() * (values.abs() - by_chance).clamp_min(0)
    loud = beyond != 0
    directions, beyond = directions[:, loud], beyond[loud]
    variance = (1 + score.clamp(-FARTHEST, FARTHEST)[:, None] * beyond).clamp(LEAST, MOST)
    return rows + (rows @ directions * (variance.rsqrt() - 1)) @ directions.T


def _weighted(rows: Tensor, score: Tensor) -> Tensor:
    """Second moments, every user weighted by its score."""
    return rows.T @ (score[:, None] * rows) / len(rows)
