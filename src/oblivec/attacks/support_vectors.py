"""A support vector machine, by scikit-learn: for who wants an attacker that no method was ever tried against.

Never part of the panel. It sees a kernel as `kernel` does, but exactly, and it bends its border around the few users
who are hard to tell apart instead of fitting everybody.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.special import expit

from oblivec.attacks.base import Problem, register
from oblivec.attacks.scaling import whiten
from oblivec.attacks.trees import TreeAttacker, Vectors
from oblivec.randomness import numpy_rng

ROWS = 6000
"""Training users at most: the cost grows with their square."""
DIRECTIONS = 64
"""Whitened directions of largest variance it looks at, at most."""


@register
class SupportVectors(TreeAttacker):
    name = "svm"
    says = "a support vector machine: draws the border through the users who are hardest to tell apart"

    def rows(self, train: np.ndarray, seed: int) -> np.ndarray:
        if len(train) <= ROWS:
            return train
        return numpy_rng(seed, self.name, "rows").choice(train, size=ROWS, replace=False)

    def see(self, train: Vectors, test: Vectors) -> tuple[Vectors, Vectors]:
        """Whitened, beside a column of zeros: a constant matrix has no direction left, and one is asked for."""
        white = whiten(torch.as_tensor(train), most=DIRECTIONS)
        seen = (torch.nn.functional.pad(white(torch.as_tensor(part)), (0, 1)).numpy() for part in (train, test))
        return next(seen), next(seen)

    def model(self, problem: Problem, n_train: int, seed: int) -> Any:
        from sklearn.svm import SVR

        return SVR(cache_size=500) if problem.continuous else _Classifier()


class _Classifier:
    """`SVC` with its distances from the border in place of probabilities, which would cost five more fits."""

    def fit(self, x: np.ndarray, codes: np.ndarray, sample_weight: np.ndarray) -> _Classifier:
        from sklearn.svm import SVC

        self.machine = SVC(cache_size=500, decision_function_shape="ovr").fit(x, codes, sample_weight=sample_weight)
        return self

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        distances = self.machine.decision_function(x)
        return expit(np.stack([-distances, distances], axis=1) if distances.ndim == 1 else distances)
