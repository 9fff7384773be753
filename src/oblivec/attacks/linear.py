"""Multinomial logistic regression (ridge regression for a continuous attribute) in the whitened space."""

from __future__ import annotations

import numpy as np
import torch

from oblivec.attacks.base import Attacker, Problem, Scores, balanced_weights, register
from oblivec.attacks.ridge import Features, ridge_attack
from oblivec.attacks.scaling import Affine, whiten

STEPS = 60
CONVERGED = 1e-4
"""A step that moves no weight further than this is the last."""
PENALTY = 1.0
"""L2 penalty of the weights against the summed log-likelihood: scikit-learn's C = 1."""


@register
class Linear(Attacker):
    name = "linear"
    says = "logistic regression: looks for a direction along which the groups differ"
    batched = True
    repeats = 4
    fold_dependence = 1.5

    def attack(self, problem: Problem, device: torch.device) -> Scores:
        if problem.continuous:
            return ridge_attack(problem, device, _plain)
        vectors = torch.as_tensor(problem.vectors, device=device)
        scores = []
        for trial in problem.trials:
            white = whiten(vectors[torch.as_tensor(trial.train, device=device)])
            weights = _logistic(white, vectors, problem, trial.train, device)
            test = white(vectors[torch.as_tensor(trial.test, device=device)])
            scores.append((test @ weights[1:] + weights[0]).cpu().numpy())
        return scores


def _plain(train: torch.Tensor, rng: torch.Generator) -> Features:
    del rng
    white = whiten(train)
    return lambda x: torch.cat([torch.ones(len(x), 1, device=x.device), white(x)], dim=1)


def _logistic(
    white: Affine, vectors: torch.Tensor, problem: Problem, train: np.ndarray, device: torch.device
) -> torch.Tensor:
    """Nesterov's method on the balanced log-likelihood; whitening makes the problem well conditioned."""
    x = white(vectors[torch.as_tensor(train, device=device)])
    x = torch.cat([torch.ones(len(x), 1, device=device), x], dim=1)
    labels = problem.labels[train]
    weight = torch.as_tensor(balanced_weights(labels, problem.n_classes), dtype=torch.float32, device=device)
    weight = weight / len(labels)
    target = torch.nn.functional.one_hot(torch.as_tensor(labels, device=device), problem.n_classes).float()
    penalty = torch.full((x.shape[1], 1), PENALTY / len(labels), device=device)
    penalty[0] = 0
    # The Hessian is at most half the weighted second moment of x.
    step = 1 / (0.5 * torch.linalg.matrix_norm((x * weight[:, None]).T @ x, ord=2) + PENALTY / len(labels))
    weights = ahead = torch.zeros(x.shape[1], problem.n_classes, device=device)
    for iteration in range(STEPS):
        residual = (torch.softmax(x @ ahead, dim=1) - target) * weight[:, None]
        moved = ahead - step * (x.T @ residual + penalty * ahead)
        change = moved - weights
        ahead = moved + iteration / (iteration + 3) * change
        weights = moved
        if float(change.abs().max()) < CONVERGED:
            break
    return weights
