"""Gaussian naive Bayes on whitened directions, for who wants one more attacker no method was tried on.

Never part of the panel. It knows a mean and a spread for every class along every principal direction and adds up the
evidence of all of them, however little each gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.special import softmax

from oblivec.attacks.base import Problem, register
from oblivec.attacks.scaling import whiten
from oblivec.attacks.trees import TreeAttacker, Vectors

SMOOTHING = 1e-3
"""Added to every variance: a class of one user has none."""


@register
class Gaussian(TreeAttacker):
    name = "gaussian"
    says = "naive Bayes: adds up what every single direction says about average and spread"
    attacks_continuous = False

    def see(self, train: Vectors, test: Vectors) -> tuple[Vectors, Vectors]:
        white = whiten(torch.as_tensor(train))
        return white(torch.as_tensor(train)).numpy(), white(torch.as_tensor(test)).numpy()

    def model(self, problem: Problem, n_train: int, seed: int) -> Any:
        return _NaiveBayes()


class _NaiveBayes:
    """Classes as likely as each other, whatever their sizes."""

    def fit(self, x: np.ndarray, codes: np.ndarray, sample_weight: np.ndarray) -> _NaiveBayes:
        del sample_weight  # alike within a class, and classes are alike here
        parts = [x[codes == code] for code in range(codes.max() + 1)]
        self.means = np.stack([part.mean(0) for part in parts])
        self.variances = np.stack([part.var(0) for part in parts]) + SMOOTHING
        return self

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        likelihoods = [
            -0.5 * (np.square(x - mean) / variance + np.log(variance)).sum(1)
            for mean, variance in zip(self.means, self.variances, strict=True)
        ]
        return softmax(np.stack(likelihoods, axis=1), axis=1)
