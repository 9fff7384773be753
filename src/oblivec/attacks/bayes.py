"""Naive Bayes on item lists: what a user's items say, item by item."""

from __future__ import annotations

import numpy as np
import torch

from oblivec.attacks.base import Attacker, Problem, Scores, register

SMOOTHING = 1.0


@register
class Bayes(Attacker):
    name = "bayes"
    says = "naive Bayes on the lists of items: which items each group prefers"
    attacks_continuous = False
    attacks_lists = True
    fold_dependence = 1.5

    def attack(self, problem: Problem, device: torch.device) -> Scores:
        del device
        lists = problem.vectors
        scores = []
        for trial in problem.trials:
            one_hot = np.eye(problem.n_classes)[problem.labels[trial.train]]
            counts = (lists[trial.train].T @ one_hot).T + SMOOTHING
            preference = np.log(counts / counts.sum(1, keepdims=True))
            found = np.asarray(lists[trial.test] @ (preference - preference.mean(0)).T)
            found[:, one_hot.sum(0) == 0] = found.min() - 1  # nothing is known of a class that was never seen
            scores.append(found)
        return scores
