"""An attacker that looks at pairs of dimensions: spreads and interactions, what is left when class means are removed.

A dense quadratic form has O(d^2) weights and drowns a leak that sits in one pair of dimensions, so pairs are screened
first: for every pair the class means of the product are compared on the inner training rows (a d x d second moment
per class, no feature is ever written out), and the pairs that differ most enter a ridge fit. How many is chosen, with
the penalty, on the inner held-out rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from oblivec.attacks.base import Attacker, Problem, Scores, Unit, balanced_weights, register
from oblivec.attacks.ridge import choose_and_fit, held_out_last, ridge_targets
from oblivec.attacks.scaling import Affine, standardise, whiten

KEPT = (4, 16, 64, 256)
"""How many screened pairs may enter the fit."""
MOST_DIRECTIONS = 256
"""Pairs are taken among this many directions of largest variance at the most."""

View = Callable[[torch.Tensor], torch.Tensor]


@register
class Pairs(Attacker):
    name = "pairs"
    says = "looks at spreads and at pairs of dimensions, not only at averages"
    batched = True
    repeats = 4
    fold_dependence = 1.4

    def attack(self, problem: Problem, device: torch.device) -> Scores:
        vectors = torch.as_tensor(problem.vectors, device=device)
        scores = []
        for number, trial in enumerate(problem.trials):
            rows, inner = held_out_last(trial.train, problem.seed, number)
            x = vectors[torch.as_tensor(rows, device=device)]
            views = _views(x)
            pairs = _screen(views, x[:inner], problem, rows[:inner])
            target, weight, unit = ridge_targets(problem, rows, device)
            weights = choose_and_fit(
                _features(views, pairs, x), target, weight, inner, widths=[1 + kept for kept in KEPT]
            )
            test = vectors[torch.as_tensor(trial.test, device=device)]
            found = _features(views, pairs, test)[:, : len(weights)] @ weights
            scores.append(unit.back(found.cpu().numpy()))
        return scores


def _views(x: torch.Tensor) -> list[View]:
    """Three ways to look at the same users: columns as given, their signs, and the principal directions."""
    plain, white = standardise(x), whiten(x, most=MOST_DIRECTIONS)
    if len(plain.matrix) > MOST_DIRECTIONS:
        plain = Affine(plain.shift, torch.diag(plain.matrix)[:, :MOST_DIRECTIONS])
    # Heavy tails would let a few users own every product.
    return [
        lambda u: plain(u).clamp(-4, 4),
        lambda u: plain(u).sign(),
        lambda u: white(u).clamp(-4, 4),
    ]


def _screen(views: list[View], x: torch.Tensor, problem: Problem, rows: np.ndarray) -> list[tuple[int, int, int]]:
    """The pairs (view, i, j), i <= j, whose products differ most between classes, most telling first."""
    labels = problem.labels[rows]
    if problem.continuous:
        centred = torch.as_tensor(Unit.of(labels).into(labels), dtype=torch.float32, device=x.device)
        contrasts = (centred / centred.norm().clamp(min=1e-12))[:, None]
    else:
        weight = balanced_weights(labels, problem.n_classes)
        one_hot = np.eye(problem.n_classes)[labels] * weight[:, None]
        contrast = one_hot - weight[:, None] * (one_hot.sum(0) / weight.sum())
        contrast /= np.maximum(np.linalg.norm(contrast, axis=0), 1e-12)
        contrasts = torch.as_tensor(contrast, dtype=torch.float32, device=x.device)
    found = []
    for number, view in enumerate(views):
        z = view(x)
        mean, square = z.T @ z / len(z), z.square().T @ z.square() / len(z)
        spread = (square - mean.square()).clamp(min=1e-6).sqrt()
        strongest = torch.zeros_like(mean)
        for contrast in contrasts.T:
            # A contrast sums to 0 and has norm 1, so that under no leak each entry is about a standard normal.
            strongest = torch.maximum(strongest, ((z * contrast[:, None]).T @ z).abs() / spread)
        i, j = torch.triu_indices(len(mean), len(mean), device=x.device)
        strength = strongest[i, j]
        if number == 1:
            strength = torch.where(i == j, 0.0, strength)  # a squared sign says nothing
        top = strength.topk(min(KEPT[-1], len(strength))).indices
        found += [(float(strength[t]), number, int(i[t]), int(j[t])) for t in top.tolist()]
    found.sort(reverse=True)
    return [(view, i, j) for _, view, i, j in found[: KEPT[-1]]]


def _features(views: list[View], pairs: list[tuple[int, int, int]], x: torch.Tensor) -> torch.Tensor:
    """A constant, then the products in the order of `pairs`."""
    seen = [view(x) for view in views]
    which = torch.tensor(pairs, device=x.device)
    out = torch.ones(len(x), 1 + len(pairs), device=x.device)
    for number, z in enumerate(seen):
        own = torch.nonzero(which[:, 0] == number).squeeze(1)
        out[:, 1 + own] = z[:, which[own, 1]] * z[:, which[own, 2]]
    return out
