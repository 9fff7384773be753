"""What must privacy cost? The least that any release that tells nothing of the attributes loses, beside what ours do.

Let T be a user's next item, U the original's row, A the attributes and R a release made from U and A, independent of A.
Then I(T;R) = I(T;R,A) - I(T;A|R), where I(T;R,A) <= I(T;U,A), and I(T;A|R) = I(T,R;A) >= I(T;A) because R says
nothing of A. So whatever the method,

    I(T;U) - I(T;R)  >=  I(T;A) - I(T;A|U) :

a release loses at least what the attributes say about the next item, less what the original had not made use of. Both
terms are measured on the test items (`experiments/choice.py`): what popularity by class adds to popularity, and what it
adds to the original's scores. They are estimates by simple models, not the informations themselves; standard errors are
over users. Cells are called `price/MODEL/DATASET/SEED`: the models of ours, and implicit's ALS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from oblivec.bench.factorised import factorised, is_installed
from oblivec.console import say, show_table
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.devices import resolve_device
from oblivec.experiments.base_models import BaseModels, models_root
from oblivec.experiments.cells import METHOD_SOURCES, Cell, finish_cells
from oblivec.experiments.choice import Known, fit_choice
from oblivec.experiments.group_popularity import GroupPopularity
from oblivec.experiments.releases import Means
from oblivec.experiments.setup import QUICK_TRAINING
from oblivec.metrics import factor_scorer, rank_test_items
from oblivec.metrics.ranking import Scorer

MODELS = ("lightgcn", "ncf", "multvae", "als")
FURTHER = 100
"""NDCG is given for this many places too: three times as many users count, so it says the same with less noise."""
SOURCES = (*METHOD_SOURCES, "experiments/choice.py", "experiments/group_popularity.py", "bench/price.py")


def run(
    quick: bool = False,
    *,
    cells: Sequence[str] = (),
    resume: Path | None = None,
    enough_seconds: float = float("inf"),
    models_folder: Path | None = None,
    root: Path | None = None,
    path: Path | None = None,
    device: str = "auto",
    jobs: int | None = None,
    seeds: int = 1,
    **means: Any,
) -> dict[str, Any]:
    """Floor and price for the first attribute and for all at once. `quick`: LightGCN of a few epochs on ML-100K.

    `path` is the folder of KuaiRand-Pure, without which it is left out. `means`: fields of `Means` to overrule.
    """
    folder, datasets, models, training = models_root(models_folder, root), ["ml-1m"], MODELS, {}
    if quick:
        folder, datasets, models, training = folder / "quick", ["ml-100k"], ("lightgcn",), QUICK_TRAINING
    elif path is not None:
        datasets.append("kuairand-pure")
    if "als" in models and not is_installed():
        say("als fails where it was not made before: pip install oblivec[foreign]")
    chosen = Means(**({"device": device, "jobs": 1} | means))
    chosen.lego(0)  # an unknown method or setting is refused before anything is trained
    bases = BaseModels(folder, training, device, root, path)
    everything = [
        Cell(f"price/{model}/{dataset}/{seed}", partial(_price, chosen, bases, dataset, model, seed),
             (dataset, model, seed), SOURCES, settings=(chosen, training))
        for seed in range(seeds) for dataset in datasets for model in models
    ]
    finished = finish_cells(everything, patterns=cells, resume=resume, enough_seconds=enough_seconds, jobs=jobs)
    return {"means": repr(chosen), "cells": finished.found, "of": len(everything), "failed": finished.failed}


def show(result: Mapping[str, Any]) -> None:
    """The table a person reads: a row per model and requirement."""
    rows = []
    for name, cell in result["cells"].items():
        for requirement, row in cell["requirements"].items():
            rows.append((
                name.removeprefix("price/"), requirement, _milli(row["says"]), _milli(row["beside"]),
                _milli(row["floor"]), _milli(row["paid"]), f"{1000 * cell['personal']:.0f}",
                *(f"{row['lost_percent'][key]:.1f}" for key in ("ndcg@10", f"ndcg@{FURTHER}")),
            ))
    columns = ("model", "protects", "attributes say", "beside the original", "floor", "paid", "personal",
               "NDCG@10 lost, %", f"NDCG@{FURTHER} lost, %")
    caption = ("thousandths of a nat per user's next item, with standard errors over users; floor: the first less the "
               "second; personal: what the original tells beyond popularity")
    done = f"{len(result['cells'])} of {result['of']} cells"
    show_table(f"What privacy must cost and does, {done}", columns, rows, caption)


def _price(means: Means, bases: BaseModels, dataset: str, model: str, seed: int) -> dict[str, Any]:
    source, split = bases.data(dataset)
    place = resolve_device(means.device)
    if model == "als":
        U, items = factorised(bases.folder, "als", dataset, split, seed)
        table = torch.from_numpy(items).to(place)

        def scorer(users: np.ndarray) -> Scorer:
            return factor_scorer(torch.from_numpy(users).to(place), table)
    else:
        base = bases.get(dataset, model, seed)
        U, items = base.user_matrix(), base.item_matrix()

        def scorer(users: np.ndarray) -> Scorer:
            return base.with_user_matrix(users).scores

    popularity = _popularity(split, place)
    original, nothing = [popularity, _scores(scorer(U))], [popularity]
    told, unaided = (_nats(known, split, place) for known in (original, nothing))
    ranking = rank_test_items(scorer(U), split, device=place)
    lego = means.lego(seed, items=items).fit(U, source.attributes)
    requirements = {}
    for names in dict.fromkeys((tuple(source.attributes)[:1], tuple(source.attributes))):
        groups: list[Known] = [GroupPopularity.of(source.attributes[name], split) for name in names]
        says = _nats(nothing + groups, split, place) - unaided
        beside = _nats(original + groups, split, place) - told
        release = scorer(lego.protect(list(names)))
        paid = told - _nats([popularity, _scores(release)], split, place)
        after = rank_test_items(release, split, device=place)
        requirements[", ".join(names)] = {
            "says": _mean(says), "beside": _mean(beside), "floor": _mean(says - beside), "paid": _mean(paid),
            "lost_percent": {f"ndcg@{k}": 100 * (1 - after.ndcg(k) / ranking.ndcg(k)) for k in (10, FURTHER)},
        }
    return {"personal": float((told - unaided).mean()), "requirements": requirements}


def _nats(known: Sequence[Known], split: LeaveOneOut, place: torch.device) -> np.ndarray:
    """Every tested user's log-likelihood, with all of this known."""
    return fit_choice(lambda users: torch.cat([one(users) for one in known], dim=2), split, device=place).nats


def _popularity(split: LeaveOneOut, place: torch.device) -> Known:
    counts = torch.as_tensor(np.asarray(split.train.sum(0)).ravel() + 1.0, dtype=torch.float32, device=place)
    logs = counts.log() - counts.log().mean()
    return lambda users: logs[None, :, None].expand(len(users), -1, -1)


def _scores(scorer: Scorer) -> Known:
    """Less each user's mean, which changes no probability: rounding then does not either."""

    def centred(users: Tensor) -> Tensor:
        scores = scorer(users).float()
        return (scores - scores.mean(1, keepdim=True))[..., None]

    return centred


def _mean(values: np.ndarray) -> list[float]:
    """Mean over users and its standard error."""
    return [float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))]


def _milli(pair: Sequence[float]) -> str:
    return f"{1000 * pair[0]:.1f} ± {1000 * pair[1]:.1f}"
