"""The paper's attacker, exactly: scikit-learn's MLP with one hidden layer of 100, alpha 1.0, learning rate 1e-2, 500
iterations, every other setting at the library's default. It learns from balanced classes (see `sampling.draw`)."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from oblivec.attacks.base import Attacker, Problem, Scores, register
from oblivec.randomness import derive_seed, numpy_rng

MOST_ROWS = 6_000
"""Training users per trial at the most: the paper's data sets are smaller, and this library's MLP is not batched."""


@register
class Paper(Attacker):
    name = "paper"
    says = "the attacker of the LEGO paper: a neural network on the vectors as they are"
    attacks_continuous = False
    fold_dependence = 1.1

    def attack(self, problem: Problem, device: torch.device) -> Scores:
        del device
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPClassifier

        found = []
        for trial in problem.trials:
            seed = derive_seed(problem.seed, self.name, len(trial.train))
            rows = _balanced_draw(problem.labels, trial.train, numpy_rng(seed))
            model = MLPClassifier(
                hidden_layer_sizes=(100,), alpha=1.0, learning_rate_init=1e-2, max_iter=500, random_state=seed % 2**31
            )
            scores = np.full((len(trial.test), problem.n_classes), -1.0)
            present, codes = np.unique(problem.labels[rows], return_inverse=True)
            if len(present) == 1:
                scores[:, present] = 1.0
            else:
                with warnings.catch_warnings(), threadpool_limits(limits=1):
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model.fit(problem.vectors[rows], codes)
                scores[:, present] = model.predict_proba(problem.vectors[trial.test])
            found.append(scores)
        return found


def _balanced_draw(labels: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """As many rows of every class as the smallest class present has; nothing changes when classes are balanced."""
    rows = rng.permutation(rows)
    classes = labels[rows]
    present, counts = np.unique(classes, return_counts=True)
    each = min(int(counts.min()), MOST_ROWS // len(present))
    return np.concatenate([rows[classes == code][:each] for code in present])
