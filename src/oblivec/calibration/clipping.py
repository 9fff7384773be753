"""Bring group means and covariances to chance: no further, and no less.

Groups of users drawn at random do not have equal means or covariances: they differ by sampling noise. Making them
exactly equal would write the labels back with their sign flipped (the training folds predict the opposite of the test
fold). So differences are compared with what random groups show: what stands out is shortened to where it no longer
does, and what is shorter is stretched again. For means that is a statement about singular values, for covariances about
the length of their difference.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from oblivec.calibration.groups import Groups, group_means

FEWEST_FOR_COVARIANCE = 5
FEWEST_FOR_PAIRS = 50
NULL_DRAWS = 8
EDGE = 1.05
"""How far above the largest singular value that chance gives on average one must lie to count as signal."""
STRETCH = 1.5
"""Differences shorter than chance are stretched by at most this much in one pass."""


def clip_means(X: Tensor, groups: Groups, basis: Tensor, columns: Tensor, rng: torch.Generator) -> Tensor:
    """X with the dependence of its mean on `basis` brought to what chance would leave.

    Singular values of basis.T @ X above the largest that chance gives are set to those chance gives on average; when
    all of them together are then less than chance, they are stretched until they are not. `columns` maps X to what
    attackers see: a direction too narrow to be seen keeps only its share of what chance leaves, and the rest is dealt
    out to directions at random. Left where nobody looks, it would be missing where they do look.
    """
    rows, root, axes = whitened(X[groups.rows])
    found, values, directions, chance = _dependence(rows, basis, rng)
    signal = values > EDGE * chance[0]
    kept = torch.where(signal, chance, values)
    kept = kept * (chance.norm() / kept.norm().clamp_min(1e-12)).clamp(max=STRETCH)
    back = root[:, None] * axes.T
    seen = (directions @ back @ columns).square().sum(1) * len(root) / (back @ columns).square().sum()
    share = torch.where(signal, seen, 1.0).clamp(max=1)[:, None]
    anywhere = F.normalize(torch.randn(directions.shape, generator=rng, device=rng.device).to(X.device), dim=1)
    left = share.sqrt() * directions + (1 - share).sqrt() * anywhere
    X = X.clone()
    X[groups.rows] += basis @ (found * kept @ left - found * values @ directions) @ back
    return X


def _dependence(rows: Tensor, basis: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """How means depend on `basis`, as a singular value decomposition, and the singular values chance gives."""
    found, values, directions = torch.linalg.svd(basis.T @ (rows - rows.mean(0)), full_matrices=False)
    shuffles = [torch.randperm(len(rows), generator=rng, device=rng.device) for _ in range(NULL_DRAWS)]
    drawn = basis[torch.stack(shuffles, dim=1).to(rows.device)].flatten(1)  # narrower than the rows, so less to move
    by_chance = (drawn.T @ rows).reshape(NULL_DRAWS, basis.shape[1], -1)
    return found, values, directions, torch.linalg.svdvals(by_chance).square().mean(0).sqrt()


def whitened(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows without their mean, every direction with unit variance; and the way back: times root, times axes.T."""
    rows = rows - rows.mean(0)
    variance, axes = torch.linalg.eigh(rows.T @ rows / max(len(rows), 1))
    root = variance.clamp_min(variance[-1] * 1e-9 + 1e-30).sqrt()
    return rows @ axes / root, root, axes


def clip_variances(X: Tensor, groups: Groups) -> Tensor:
    """X with every group's variances along the axes brought to chance: their common factor first, then what differs.

    A group that is a little wider along all of hundreds of axes shows in none of them, nor in the length of the whole
    difference of covariances, but clearly in their sum.
    """
    X = X.clone()
    rows = X[groups.rows]
    means = group_means(rows, groups.number, len(groups.members))
    residuals = rows - means[groups.number]
    squares = residuals.square() / residuals.square().mean(0).clamp_min(1e-30)
    ratios = group_means(squares, groups.number, len(groups.members))
    together = squares.mean(1, keepdim=True)
    left = 1 - groups.shares  # random groups are drawn without replacement
    chance_together = (together.var(correction=0) * left / groups.sizes).sqrt()[:, None]
    chance_apart = ((squares - together).var(0, correction=0).sum() * left / groups.sizes).sqrt()[:, None]
    common = ratios.mean(1, keepdim=True) - 1
    apart = ratios - 1 - common
    wanted = 1 + common * (chance_together / common.abs().clamp_min(1e-12)).clamp(max=1)
    wanted = wanted + apart * (chance_apart / apart.norm(dim=1, keepdim=True).clamp_min(1e-12)).clamp(max=1)
    stretch = torch.where(ratios > 1e-6, (wanted.clamp_min(0) / ratios.clamp_min(1e-6)).sqrt(), 1.0)
    stretch[groups.sizes < FEWEST_FOR_COVARIANCE] = 1
    X[groups.rows] = means[groups.number] + residuals * stretch[groups.number]
    return X


def clip_covariances(X: Tensor, groups: Groups, rng: torch.Generator) -> Tensor:
    """X with every group's covariance as far from the common one as a random group's of its size: no further, no less.

    The whole difference is shortened, and no eigenvalue left outside a random group's range, by the symmetric map that
    does it: for Gaussian groups, the least movement that can. Cutting off outlying eigenvalues alone would leave many
    small differences, which attackers who weigh all directions together (support vectors, pairs of columns) add up.
    """
    X = X.clone()
    rows = X[groups.rows]
    means = group_means(rows, groups.number, len(groups.members))
    residuals = rows - means[groups.number]
    residuals, root, axes = whitened(residuals)
    fourth = residuals.square().sum(1).square().mean()
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
        # The mean squared length, over random groups drawn without replacement, of the difference to the identity.
        chance = (fourth - X.shape[1]) / n * (len(rows) - n) / max(len(rows) - 1, 1)
        kept = (chance / (values - 1).square().sum().clamp_min(1e-12)).sqrt().clamp(max=STRETCH)
        target = (1 + kept * (values - 1)).clamp(max(float(by_chance[0]), 0.0), float(by_chance[-1]))
        stretch = torch.where(values > 1e-6, (target / values.clamp_min(1e-6)).sqrt(), 1.0)
        X[members] = means[number] + ((own @ turns) * stretch) @ turns.T * root @ axes.T
    return X


def clip_pairs(Z: Tensor, groups: Groups) -> Tensor:
    """Z with no pair of columns whose covariance within a group stands out from chance on its own.

    A leak in a single pair is too small a part of a covariance to lengthen it much, and too clear to be left at the
    border of chance: its difference is taken out whole.
    """
    Z = Z.clone()
    rows = Z[groups.rows]
    means = group_means(rows, groups.number, len(groups.members))
    residuals = rows - means[groups.number]
    width = residuals.square().mean(0).sqrt().clamp_min(1e-12)
    residuals = residuals / width
    pooled = residuals.T @ residuals / len(rows)
    squares = residuals.square()
    spread = (squares.T @ squares / len(rows) - pooled.square()).clamp_min(1e-12)
    d = Z.shape[1]
    edge = math.sqrt(2 * math.log(d * (d + 1) / 2 + 1))  # the largest of so many standard normals, about
    start = 0
    for number, members in enumerate(groups.members):
        n, part = len(members), slice(start, start + len(members))
        start += n
        if n < FEWEST_FOR_PAIRS or n == len(rows):
            continue
        own = residuals[part]
        covariance = own.T @ own / n
        difference = covariance - pooled
        clear = difference.abs() > edge * (spread * (1 - n / len(rows)) / n).sqrt()
        if clear.any():
            wanted = torch.where(clear, pooled, covariance)
            Z[members] = means[number] + own @ _symmetric_map(covariance, wanted) * width
    return Z


def _symmetric_map(given: Tensor, wanted: Tensor) -> Tensor:
    """The symmetric matrix that turns one covariance into another: of all that do, the one that moves least."""
    values, turns = torch.linalg.eigh(given)
    used = values > 1e-6 * values[-1]
    root = torch.where(used, values.clamp_min(1e-30).sqrt(), 0.0)
    inverse = torch.where(used, values.clamp_min(1e-30).rsqrt(), 0.0)
    inner, axes = torch.linalg.eigh(root[:, None] * (turns.T @ wanted @ turns) * root)
    middle = (axes * inner.clamp_min(0).sqrt()) @ axes.T
    return turns @ (inverse[:, None] * middle * inverse + torch.diag((~used).float())) @ turns.T
