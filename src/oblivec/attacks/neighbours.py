"""k nearest neighbours, exact, at several scales at once."""

from __future__ import annotations

import numpy as np
import torch

from oblivec.attacks.base import Attacker, Problem, Scores, Unit, balanced_weights, register
from oblivec.attacks.nearest import nearest_votes
from oblivec.attacks.scaling import standardise

SCALES = (5, 20, 80, 160)
"""Neighbourhood sizes. Their votes are added with weight k^0.75: between trusting each vote alike (k^1, best for large
clusters) and each scale alike (k^0.5, best for close pairs). Choosing one scale on held-out users was noisier."""

@register
class Neighbours(Attacker):
    name = "neighbours"
    says = "asks which group the most similar users belong to"
    batched = True
    repeats = 4
    fold_dependence = 1.2

    def attack(self, problem: Problem, device: torch.device) -> Scores:
        vectors = torch.as_tensor(problem.vectors, device=device)
        scores = []
        for trial in problem.trials:
            train = vectors[torch.as_tensor(trial.train, device=device)]
            scale = standardise(train)
            test = scale(vectors[torch.as_tensor(trial.test, device=device)])
            ballots, unit = _ballots(problem, trial.train, device)
            scores.append(unit.back(_votes(test, scale(train), ballots).cpu().numpy()))
        return scores


def _ballots(problem: Problem, train: np.ndarray, device: torch.device) -> tuple[torch.Tensor, Unit]:
    """What each training user votes: its class, weighed so that all classes together vote alike; or its value."""
    labels = problem.labels[train]
    if problem.continuous:
        unit = Unit.of(labels)
        return torch.as_tensor(unit.into(labels), dtype=torch.float32, device=device)[:, None], unit
    weight = torch.as_tensor(balanced_weights(labels, problem.n_classes), dtype=torch.float32, device=device)
    one_hot = torch.nn.functional.one_hot(torch.as_tensor(labels, device=device), problem.n_classes)
    return one_hot * weight[:, None], Unit()


def _votes(query: torch.Tensor, train: torch.Tensor, ballots: torch.Tensor) -> torch.Tensor:
    """Mean ballot of the nearest training users, averaged over the scales (as far as there are users)."""
    scales = sorted({min(k, len(train)) for k in SCALES})
    weights = np.array(scales) ** 0.75
    return nearest_votes(query, train, ballots, scales, (weights / weights.sum()).tolist())
