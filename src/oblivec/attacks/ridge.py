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
        rows, inner = held_out_last(trial.train, problem.seed, number)
        train = vectors[torch.as_tensor(rows, device=device)]
        features = feature_map(train, torch_rng(problem.seed, "features", number))
        target, weight, unit = ridge_targets(problem, rows, device)
        weights = choose_and_fit(features(train), target, weight, inner)
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


def held_out_last(train: np.ndarray, seed: int, number: int) -> tuple[np.ndarray, int]:
    """The training rows, with a random fifth of them at the end, and how many come before that.

    The fifth is kept aside to choose the penalty; what lies in one piece is sliced and not copied.
    """
    n = len(train)
    mask = np.zeros(n, dtype=bool)
    mask[numpy_rng(seed, "inner", number).permutation(n)[: max(n // 5, 1)]] = True
    return np.r_[train[~mask], train[mask]], n - int(mask.sum())


def choose_and_fit(
    z: torch.Tensor, target: torch.Tensor, weight: torch.Tensor, inner: int, widths: Sequence[int] | None = None
) -> torch.Tensor:
    """Weights (features x outputs) with the penalty, and the number of leading features, that predict best.

    Chosen on the rows from `inner` on by fits to those before, refitted on all.
    """
    root = weight.sqrt()[:, None]
    a, b = z * root, target * root
    gram_inner, gram_held = _gram(a[:inner]), _gram(a[inner:])
    moment_inner, moment_held = a[:inner].T @ b[:inner], a[inner:].T @ b[inner:]
    scale = gram_inner.diagonal().mean().clamp(min=1e-12)
    penalties = scale * torch.tensor(PENALTIES, device=z.device)
    best, best_loss = (z.shape[1], len(PENALTIES) - 1), float("inf")
    for width in sorted({min(width, z.shape[1]) for width in widths or (z.shape[1],)}):
        fits = _solve(gram_inner[:width, :width], moment_inner[:width], penalties)
        errors = torch.einsum("nf,pfo->pno", a[inner:, :width], fits) - b[inner:]
        for choice, loss in enumerate(errors.square().mean((1, 2)).tolist()):
            if loss < best_loss:
                best, best_loss = (width, choice), loss
    width, choice = best
    gram, moment = (gram_inner + gram_held)[:width, :width], (moment_inner + moment_held)[:width]
    return _solve(gram, moment, penalties[choice : choice + 1] * len(z) / inner)[0]


def _gram(a: torch.Tensor) -> torch.Tensor:
    """a^T a. numpy sees that it is symmetric and computes half of it; torch does not."""
    if a.device.type != "cpu":
        return a.T @ a
    rows = a.numpy()
    return torch.from_numpy(rows.T @ rows)


def _solve(gram: torch.Tensor, moment: torch.Tensor, penalties: torch.Tensor) -> torch.Tensor:
    """The fit under each penalty (penalties x features x outputs)."""
    systems = gram + penalties[:, None, None] * torch.eye(len(gram), device=gram.device)
    factors, failed = torch.linalg.cholesky_ex(systems)
    fits = torch.cholesky_solve(moment.expand(len(penalties), *moment.shape), factors)
    for number in failed.nonzero().flatten().tolist():
        fits[number] = torch.linalg.lstsq(systems[number].double(), moment.double()).solution.float()
    return fits
