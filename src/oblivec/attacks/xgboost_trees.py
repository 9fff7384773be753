"""XGBoost: another gradient boosting, for who wants a second opinion. Needs `pip install oblivec[boosters]`."""

from __future__ import annotations

from typing import Any

from oblivec.attacks.base import Problem, register
from oblivec.attacks.trees import TreeAttacker

ROUNDS = 100
DEPTH = 3


@register
class XGBoost(TreeAttacker):
    name = "xgboost"
    says = "gradient boosting by XGBoost: shallow trees, each correcting the last"
    needs = "xgboost"
    fold_dependence = 1.4

    def model(self, problem: Problem, n_train: int, seed: int) -> Any:
        from xgboost import XGBClassifier, XGBRegressor  # pyright: ignore[reportMissingImports]

        kind: Any = XGBRegressor if problem.continuous else XGBClassifier
        return kind(
            n_estimators=ROUNDS, max_depth=DEPTH, learning_rate=0.1, tree_method="hist", random_state=seed, n_jobs=1,
            verbosity=0,
        )
