"""Random forest and gradient boosting, by scikit-learn: step functions, blind to scale, good with interactions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from oblivec.attacks.base import Attacker, Problem, Scores, balanced_weights, register
from oblivec.randomness import derive_seed

FOREST_TREES = 60
FOREST_LEAF = 5
FOREST_ROWS = 20_000
"""Each tree of the forest sees at most this many training users."""
BOOSTING_TREES = 600
BOOSTING_ROUNDS = 50
"""Most trees over all classes: 21 classes get fewer rounds than two."""


def fit_and_score(model: Any, problem: Problem, train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Fit a scikit-learn style model with balanced weights; scores of absent classes are the lowest."""
    labels = problem.labels[train]
    if problem.continuous:
        return model.fit(problem.vectors[train], labels).predict(problem.vectors[test])[:, None]
    present, codes = np.unique(labels, return_inverse=True)
    scores = np.full((len(test), problem.n_classes), -1.0)
    if len(present) == 1:
        scores[:, present] = 1.0
        return scores
    weights = balanced_weights(codes, len(present))
    model.fit(problem.vectors[train], codes, sample_weight=weights)
    scores[:, present] = model.predict_proba(problem.vectors[test])
    return scores


class _SeedPerTrial(Attacker):
    def model(self, problem: Problem, n_train: int, seed: int) -> Any:
        raise NotImplementedError

    def attack(self, problem: Problem, device: torch.device) -> Scores:
        del device
        return [
            fit_and_score(
                self.model(problem, len(trial.train), derive_seed(problem.seed, self.name, len(trial.train)) % 2**31),
                problem, trial.train, trial.test,
            )
            for trial in problem.trials
        ]


@register
class Forest(_SeedPerTrial):
    name = "forest"
    says = "a random forest: many rough rules of thumb, averaged"
    fold_dependence = 1.1

    def model(self, problem: Problem, n_train: int, seed: int) -> Any:
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        kind: Any = RandomForestRegressor if problem.continuous else RandomForestClassifier
        return kind(
            n_estimators=FOREST_TREES, min_samples_leaf=min(FOREST_LEAF, max(n_train // 20, 1)), max_features="sqrt",
            max_samples=min(n_train, FOREST_ROWS), random_state=seed, n_jobs=1,
        )


@register
class Boosting(_SeedPerTrial):
    name = "boosting"
    says = "gradient boosting: decision trees, each correcting the last"
    fold_dependence = 1.4

    def model(self, problem: Problem, n_train: int, seed: int) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        kind: Any = HistGradientBoostingRegressor if problem.continuous else HistGradientBoostingClassifier
        per_round = problem.n_classes if problem.n_classes > 2 else 1
        return kind(
            max_iter=min(BOOSTING_ROUNDS, max(BOOSTING_TREES // per_round, 20)), learning_rate=0.1, max_leaf_nodes=8,
            min_samples_leaf=min(20, max(n_train // 20, 1)), l2_regularization=1.0, early_stopping=False,
            random_state=seed,
        )
