"""Grid search for the methods that need one, as the paper says it did; never on the test.

Base models are trained without the test item, and ranking is measured on the last training item. Attackers see half of
the users, drawn at random: neither those models nor what is read from them appear in any table. All attributes are
protected at once. `tuning_choice` says by which rule a setting wins.

    tuning/DATASET/MODEL/SEED/METHOD/SETTING=VALUE+...      one point of a grid
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from oblivec.experiments.cells import Cell
from oblivec.experiments.measuring import printed_attack
from oblivec.experiments.methods import make_release, sources
from oblivec.experiments.releases import Means, utility
from oblivec.experiments.setup import ATTRIBUTES, MEASURING, Setup
from oblivec.experiments.tuning_grids import GRIDS, QUICK_GRIDS, in_words, nested, points
from oblivec.randomness import numpy_rng

ATTACKERS = ("linear", "mlp")
"""Beside the paper's."""


def cells(setup: Setup) -> list[Cell]:
    """The whole search; `setup.base` must be that of the validation items."""
    grids = QUICK_GRIDS if setup.quick else GRIDS
    return [
        Cell(
            f"tuning/{dataset}/{model}/{seed}/{method}/{in_words(point)}",
            partial(_try, setup, dataset, model, seed, method, point), (dataset, model, seed),
            (*MEASURING, *sources(method), "experiments/tuning.py"), sorted(setup.base.settings.items()),
        )
        for seed in range(setup.seeds) for dataset in setup.datasets for method, by_model in grids.items()
        for model in setup.models if model in by_model for point in points(by_model[model])
    ]


def _try(
    setup: Setup, dataset: str, model: str, seed: int, method: str, point: Mapping[str, Any]
) -> dict[str, Any]:
    base, (_, split) = setup.base.get(dataset, model, seed), setup.data(dataset)
    attributes = setup.attributes(dataset, ATTRIBUTES[dataset])
    made = make_release(method, base, split, attributes, seed=seed, device=setup.device, jobs=1, settings=nested(point))
    if made.recommender is None or made.release is None:
        raise ValueError(f"{method} has no user matrix")
    ranks = utility(base, made.recommender, split, refit_epochs=0, seed=seed)
    found = {"point": dict(point), "seconds": made.seconds, "utility": {
        kind: {metric: row[metric] for metric in ("hr@10", "ndcg@10")} for kind, row in ranks.items()
    }}
    if method == "dp":  # chosen by what it costs
        return found
    users = numpy_rng(seed, "validation users").permutation(split.n_users) < split.n_users // 2
    seen = {name: one.take(np.where(users, np.arange(split.n_users), -1)) for name, one in attributes.items()}
    read = Means(attackers=ATTACKERS, device=setup.device, jobs=1).attack(made.release, seen, seed)["embeddings"]
    printed = printed_attack(made.release, seen, seed)
    return found | {"points_from_chance": {
        name: {"paper": 100 * (printed[name]["bacc"] - one["chance"])}
        | {attacker: 100 * (score - one["chance"]) for attacker, score in one["attackers"].items()}
        for name, one in read.items()
    }}
