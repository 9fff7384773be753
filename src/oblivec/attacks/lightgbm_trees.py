"""LightGBM: another gradient boosting, for who wants a second opinion. Needs `pip install oblivec[boosters]`."""

from __future__ import annotations

from typing import Any

from oblivec.attacks.base import Problem, register
from oblivec.attacks.trees import TreeAttacker

ROUNDS = 100
LEAVES = 8


@register
class LightGBM(TreeAttacker):
    name = "lightgbm"
    says = "gradient boosting by LightGBM: trees grown leaf by leaf, each correcting the last"
    needs = "lightgbm"
    fold_dependence = 1.4

    def model(self, problem: Problem, n_train: int, seed: int) -> Any:
        from lightgbm import LGBMClassifier, LGBMRegressor  # pyright: ignore[reportMissingImports]

        kind: Any = LGBMRegressor if problem.continuous else LGBMClassifier
        return kind(
            n_estimators=ROUNDS, num_leaves=LEAVES, learning_rate=0.1, min_child_samples=min(20, max(n_train // 20, 1)),
            deterministic=True, force_row_wise=True, random_state=seed, n_jobs=1, verbosity=-1,
        )
