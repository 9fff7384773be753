"""A forest and gradient boosting, by scikit-learn: step functions, blind to scale, good with interactions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from oblivec.attacks.base import Attacker, Problem, Scores, Unit, balanced_weights, register
from oblivec.attacks.scaling import standardise
from oblivec.randomness import derive_seed, numpy_rng

Vectors = np.ndarray

FOREST_TREES = 100
FOREST_LEAF = 5
FOREST_ROWS = 20_000
"""Each tree of the forest sees at most this many training users."""
BOOSTING_ROUNDS = 50
BOOSTING_TREES = 600
"""Most trees over all classes: 21 classes get fewer rounds than two."""
BOOSTING_BINS = 64
BOOSTING_ROWS = 50_000
"""Boosting sees at most this many training users."""


def fit_and_score(model: Any, problem: Problem, train: Vectors, test: Vectors, labels: np.ndarray) -> np.ndarray:
    """Fit a scikit-learn style model with balanced weights; scores of absent classes are the lowest."""
    # The libraries' own threads are limited here, where the libraries have certainly been loaded.
    with threadpool_limits(limits=1):
        if problem.continuous:
            unit = Unit.of(labels)
            return unit.back(model.fit(train, unit.into(labels)).predict(test)[:, None])
        present, codes = np.unique(labels, return_inverse=True)
        scores = np.full((len(test), problem.n_classes), -1.0)
        if len(present) == 1:
            scores[:, present] = 1.0
            return scores
        model.fit(train, codes, sample_weight=balanced_weights(codes, len(present)))
        scores[:, present] = model.predict_proba(test)
        return scores


class TreeAttacker(Attacker):
    """Trial by trial, each with a seed of its own."""

    def model(self, problem: Problem, n_train: int, seed: int) -> Any:
        raise NotImplementedError

    def rows(self, train: np.ndarray, seed: int) -> np.ndarray:
        """The training users the model looks at."""
        del seed
        return train

    def see(self, train: Vectors, test: Vectors) -> tuple[Vectors, Vectors]:
        """What the model is given instead of the vectors; learnt from `train` only."""
        return train, test

    def attack(self, problem: Problem, device: torch.device) -> Scores:
        del device
        scores = []
        for trial in problem.trials:
            model = self.model(problem, len(trial.train), derive_seed(problem.seed, self.name) % 2**31)
            rows = self.rows(trial.train, problem.seed)
            train, test = self.see(problem.vectors[rows], problem.vectors[trial.test])
            scores.append(fit_and_score(model, problem, train, test, problem.labels[rows]))
        return scores


@register
class Forest(TreeAttacker):
    name = "forest"
    says = "a forest of randomised trees: many rough rules of thumb, averaged"
    fold_dependence = 1.1

    def see(self, train: Vectors, test: Vectors) -> tuple[Vectors, Vectors]:
        """Scaled columns: scikit-learn takes a column whose values differ by less than 1e-7 for a constant."""
        scale = standardise(torch.as_tensor(train))
        return scale(torch.as_tensor(train)).numpy(), scale(torch.as_tensor(test)).numpy()

    def model(self, problem: Problem, n_train: int, seed: int) -> Any:
        from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

        kind: Any = ExtraTreesRegressor if problem.continuous else ExtraTreesClassifier
        many = n_train > FOREST_ROWS
        return kind(
            n_estimators=FOREST_TREES, min_samples_leaf=min(FOREST_LEAF, max(n_train // 20, 1)), max_features="sqrt",
            bootstrap=many, max_samples=FOREST_ROWS if many else None, random_state=seed, n_jobs=1,
        )


@register
class Boosting(TreeAttacker):
    name = "boosting"
    says = "gradient boosting: decision trees, each correcting the last"
    fold_dependence = 1.4

    def rows(self, train: np.ndarray, seed: int) -> np.ndarray:
        if len(train) <= BOOSTING_ROWS:
            return train
        return numpy_rng(seed, self.name, "rows").choice(train, size=BOOSTING_ROWS, replace=False)

    def see(self, train: Vectors, test: Vectors) -> tuple[Vectors, Vectors]:
        """Columns in quantile bins: boosting bins them anyway, but with sample weights takes 20 times longer."""
        edges = np.quantile(train, np.linspace(0, 1, BOOSTING_BINS + 1)[1:-1], axis=0).T
        return tuple(  # type: ignore[return-value]
            np.stack([np.searchsorted(edge, column) for edge, column in zip(edges, part.T, strict=True)], axis=1)
            for part in (train, test)
        )

    def model(self, problem: Problem, n_train: int, seed: int) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        kind: Any = HistGradientBoostingRegressor if problem.continuous else HistGradientBoostingClassifier
        per_round = problem.n_classes if problem.n_classes > 2 else 1
        return kind(
            max_iter=min(BOOSTING_ROUNDS, max(BOOSTING_TREES // per_round, 20)), learning_rate=0.1, max_leaf_nodes=8,
            min_samples_leaf=min(20, max(n_train // 20, 1)), l2_regularization=1.0, early_stopping=False,
            random_state=seed,
        )
