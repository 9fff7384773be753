"""Multinomial logistic regression (ridge regression for a continuous attribute) in the whitened space."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize

from oblivec.attacks.base import Attacker, Problem, Scores, balanced_weights, register
from oblivec.attacks.ridge import Features, ridge_attack
from oblivec.attacks.scaling import whiten

STEPS = 60
CONVERGED = 3e-4
"""The largest gradient at the end, in a unit in which the curvature is about 1: a hundredth of a standard error."""
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
            train = vectors[torch.as_tensor(trial.train, device=device)]
            features = _plain(train)
            weights = _logistic(features(train), problem.labels[trial.train], problem.n_classes)
            test = vectors[torch.as_tensor(trial.test, device=device)]
            scores.append((features(test) @ weights.T).cpu().numpy())
        return scores


def _plain(train: torch.Tensor, rng: torch.Generator | None = None) -> Features:
    """A constant and the whitened vectors."""
    del rng
    white = whiten(train)
    return lambda x: torch.cat([torch.ones(len(x), 1, device=x.device), white(x)], dim=1)


def _logistic(x: torch.Tensor, labels: np.ndarray, n_classes: int) -> torch.Tensor:
    """Weights (classes x features) of the balanced log-likelihood under an L2 penalty, by L-BFGS.

    The search is done in coordinates in which the Hessian at the start, where all classes are equally likely, is the
    identity: a dozen steps are enough.
    """
    n, d = x.shape
    weight = torch.as_tensor(balanced_weights(labels, n_classes) / n, dtype=torch.float32, device=x.device)
    codes = torch.as_tensor(labels, device=x.device)
    penalty = torch.full((d,), PENALTY / n, device=x.device)
    penalty[0] = 0  # the bias is free
    moment = ((x * weight[:, None]).T @ x).double() / n_classes + torch.diag(penalty).double()
    moment += 1e-12 * moment.diagonal().max() * torch.eye(d, device=x.device)
    unit = torch.linalg.inv(torch.linalg.cholesky(moment)).float()
    columns, own = x.T.contiguous(), torch.arange(n, device=x.device)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = torch.as_tensor(flat, dtype=torch.float32, device=x.device).view(n_classes, d) @ unit
        likely = torch.log_softmax(weights @ columns, dim=0)
        value = -(likely[codes, own] * weight).sum(dtype=torch.float64) + 0.5 * (penalty * weights.square()).sum()
        residual = likely.exp_().mul_(weight)
        residual[codes, own] -= weight
        gradient = (residual @ x + penalty * weights) @ unit.T
        return float(value), gradient.flatten().double().cpu().numpy()

    found = minimize(
        loss, np.zeros(n_classes * d), jac=True, method="L-BFGS-B",
        options={"maxiter": STEPS, "gtol": CONVERGED, "ftol": 1e-9},
    )
    return torch.as_tensor(found.x, dtype=torch.float32, device=x.device).view(n_classes, d) @ unit
