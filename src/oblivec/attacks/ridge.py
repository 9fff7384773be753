"""Balanced ridge on a feature map: the shared engine of the attackers that are kernels by features.

Least squares towards class indicators, every class weighing the same, with the penalty chosen on a fifth of the
training rows. Closed form: O(n D^2) for the Gram matrix of D features and O(D^3) per penalty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from oblivec.attacks.base import Problem, Scores, Unit, balanced_weights
from oblivec.randomness import numpy_rng, torch_rng

Features = Callable[[torch.Tensor], torch.Tensor]
FeatureMap = Callable[[torch.Tensor, torch.Generator], Features]
"""Learns a feature map from the training vectors (and a generator for random features)."""

PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Multiples of the mean squared feature, per training row."""


def ridge_attack(problem: Problem, device: torch.device, feature_map: FeatureMap) -> Scores:
    vectors = torch.as_tensor(problem.vectors, device=device)
    scores = []
    for number, trial in enumerate(problem.trials):
        train = vectors[torch.as_tensor(trial.train, device=device)]
        features = feature_map(train, torch_rng(problem.seed, "features", number))
        target, weight, unit = ridge_targets(problem, trial.train, device)
        held_out = torch.as_tensor(held_out_rows(len(train), problem.seed, number), device=device)
        weights = choose_and_fit(features(train), target, weight, held_out)
        test = vectors[torch.as_tensor(trial.test, device=device)]
        scores.append(unit.back((features(test) @ weights).cpu().numpy()))
    return scores


def ridge_targets(
    problem: Problem, train: np.ndarray, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, Unit]:
    """What to fit (rows x outputs), how much each row weighs, and the unit the fit is in."""
    labels = problem.labels[train]
    if problem.continuous:
        unit = Unit.of(labels)  # the constant feature is penalised like the others and cannot carry the mean
        target = torch.as_tensor(unit.into(labels), dtype=torch.float32, device=device)[:, None]
        return target, torch.ones(len(labels), device=device), unit
    codes = torch.as_tensor(labels, device=device)
    target = torch.nn.functional.one_hot(codes, problem.n_classes).float() - 1 / problem.n_classes
    weight = torch.as_tensor(balanced_weights(labels, problem.n_classes), dtype=torch.float32, device=device)
    return target, weight, Unit()


def held_out_rows(n: int, seed: int, number: int) -> np.ndarray:
    """A fifth of the training rows, kept aside to choose the penalty."""
    mask = np.zeros(n, dtype=bool)
    mask[numpy_rng(seed, "inner", number).permutation(n)[: max(n // 5, 1)]] = True
    return mask


def choose_and_fit(
    z: torch.Tensor, target: torch.Tensor, weight: torch.Tensor, held_out: torch.Tensor,
    widths: Sequence[int] | None = None,
) -> torch.Tensor:
    """Weights (features x outputs) with the penalty, and the number of leading features, that predict `held_out` best.

    Chosen on the held-out rows, refitted on all.
    """
    root = weight.sqrt()[:, None]
    a, b = z * root, target * root
    inner = ~held_out
    gram_inner, gram_held = a[inner].T @ a[inner], a[held_out].T @ a[held_out]
    moment_inner, moment_held = a[inner].T @ b[inner], a[held_out].T @ b[held_out]
    scale = gram_inner.diagonal().mean().clamp(min=1e-12)
    best, best_loss = (z.shape[1], PENALTIES[-1]), float("inf")
    for width in sorted({min(width, z.shape[1]) for width in widths or (z.shape[1],)}):
        for penalty in PENALTIES:
            weights = _solve(gram_inner[:width, :width], moment_inner[:width], penalty * scale)
            loss = float((a[held_out][:, :width] @ weights - b[held_out]).square().mean())
            if loss < best_loss:
                best, best_loss = (width, penalty), loss
    width, penalty = best
    gram, moment = (gram_inner + gram_held)[:width, :width], (moment_inner + moment_held)[:width]
    return _solve(gram, moment, penalty * scale * len(z) / int(inner.sum()))


def _solve(gram: torch.Tensor, moment: torch.Tensor, penalty: torch.Tensor) -> torch.Tensor:
    system = gram + penalty * torch.eye(len(gram), device=gram.device)
    factor, failed = torch.linalg.cholesky_ex(system)
    if failed:
        return torch.linalg.lstsq(system.double(), moment.double()).solution.float()
    return torch.cholesky_solve(moment, factor)
