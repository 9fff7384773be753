"""Bring group means and covariances to chance, and no further.

Groups of users drawn at random do not have equal means or covariances: they differ by sampling noise. Making them
exactly equal would write the labels back with their sign flipped (the training folds predict the opposite of the test
fold). So differences are compared with what random groups show; only what stands out is moved, to where it no longer
does. For means that is a statement about singular values, for covariances about the length of their difference.
"""

from __future__ import annotations

import torch
from torch import Tensor

from oblivec.calibration.groups import Groups

FEWEST_FOR_COVARIANCE = 5
NULL_DRAWS = 8
EDGE = 1.05
"""How far above the largest singular value that chance gives on average one must lie to count as signal."""


def clip_means(X: Tensor, groups: Groups, basis: Tensor, rng: torch.Generator) -> Tensor:
    """X with the dependence of its mean on `basis` brought to what chance would leave.

    Whitened rows make basis.T @ X a matrix of standard normals where there is no signal. Its singular values above the
    largest that chance gives are set to those chance gives on average.
    """
    rows = X[groups.rows]
    found, values, directions, chance = _dependence(rows, basis, rng)
    kept = torch.where(values > EDGE * chance[0], chance, values)
    X = X.clone()
    X[groups.rows] = rows + basis @ (found * (kept - values)) @ directions
    return X


def standing_out(X: Tensor, groups: Groups, basis: Tensor, rng: torch.Generator) -> Tensor:
    """Orthonormal columns: the directions along which means depend on `basis` by more than chance."""
    _, values, directions, chance = _dependence(X[groups.rows], basis, rng)
    return directions[values > EDGE * chance[0]].T


def _dependence(rows: Tensor, basis: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """How means depend on `basis`, as a singular value decomposition, and the singular values chance gives."""
    found, values, directions = torch.linalg.svd(basis.T @ (rows - rows.mean(0)), full_matrices=False)
    noise = torch.randn(NULL_DRAWS, basis.shape[1], rows.shape[1], generator=rng, device=rng.device)
    return found, values, directions, torch.linalg.svdvals(noise).mean(0)


def clip_covariances(X: Tensor, groups: Groups, rng: torch.Generator) -> Tensor:
    """X with every group's covariance as far from the common one as a random group's of its size, and no further.

    The whole difference is shortened, and no eigenvalue left outside a random group's range, by the symmetric map that
    does it: for Gaussian groups, the least movement that can. Cutting off outlying eigenvalues alone would leave many
    small differences, which attackers who weigh all directions together (support vectors, pairs of columns) add up.
    """
    X = X.clone()
    rows = X[groups.rows]
    means = torch.zeros(len(groups.members), X.shape[1], device=X.device).index_add_(0, groups.number, rows)
    means /= groups.sizes[:, None]
    residuals = rows - means[groups.number]
    variance, axes = torch.linalg.eigh(residuals.T @ residuals / len(rows))
    root = variance.clamp_min(variance[-1] * 1e-9 + 1e-30).sqrt()
    residuals = residuals @ axes / root
    shuffled = residuals[torch.randperm(len(rows), generator=rng, device=rng.device).to(X.device)]
    start = 0
    for number, members in enumerate(groups.members):
        n, part = len(members), slice(start, start + len(members))
        start += n
        if n < FEWEST_FOR_COVARIANCE:
            continue
        own, random = residuals[part], shuffled[part]
        values, turns = torch.linalg.eigh(own.T @ own / n)
        by_chance = torch.linalg.eigvalsh(random.T @ random / n)
        kept = ((by_chance - 1).square().sum() / (values - 1).square().sum().clamp_min(1e-12)).sqrt().clamp(max=1)
        target = (1 + kept * (values - 1)).clamp(float(by_chance[0]), float(by_chance[-1]))
        stretch = torch.where(values > 1e-6, (target / values.clamp_min(1e-6)).sqrt(), 1.0)
        X[members] = means[number] + ((own @ turns) * stretch) @ turns.T * root @ axes.T
    return X
