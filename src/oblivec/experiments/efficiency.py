"""`oblivec reproduce efficiency`: seconds to meet a requirement and to follow its changes (figure 3), on two cores.

One cell per data set and model, everything in it measured one after the other, so that ratios are of one machine in one
state. What is compared:

    original        training the recommender: the line everything is held against
    advx            training it against adversaries, anew for every requirement
    d2dfr           sequential unlearning, from the trained model for every requirement
    d2dfr-stored    the same with every intermediate matrix kept: only the steps behind a kept beginning are done
    paper, lego     meeting a requirement calibrates and combines; a change from a warm store only combines
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, count, permutations
from pathlib import Path
from typing import Any

from oblivec.baselines import baseline
from oblivec.baselines.d2dfr import D2DFR, groups
from oblivec.calibration.alternating import AlternatingConfig
from oblivec.datasets.attributes import Attribute
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.engines.local import threads
from oblivec.experiments.cells import Cell
from oblivec.experiments.efficiency_tables import draw, show, summarise
from oblivec.experiments.methods import sources
from oblivec.experiments.setup import ATTRIBUTES, Setup
from oblivec.experiments.timing import d2dfr_flops, fastest, product_rate, scaled
from oblivec.information.target import Target
from oblivec.lego import Lego
from oblivec.recommenders import Recommender

__all__ = ["CORES", "MODELS", "cells", "draw", "show", "summarise"]

MODELS = ("ncf", "lightgcn")
"""The paper shows NCF."""
CORES = 2
D2DFR_STEPS, PAPER_STEPS, EPOCHS = (2, 10), (10, 60), 2
"""Runs that a whole one is scaled up from: a short and a long one, and the first epochs of a training."""
WHOLE = {"paper": AlternatingConfig.model_fields["steps"].default, "lego": 1}
"""Steps of a whole run; lego's own number is not a setting, it is run as it is."""
CHANGES = ("increase", "decrease", "alter")
Requirement = tuple[str, ...]


def requirements(names: Sequence[str]) -> dict[str, Requirement]:
    """What is asked for: one attribute, two, three, each from nothing. Then the changes, one after the other, where all
    but the last are protected: the last as well, the first no longer, and one for another."""
    asked = {str(number): tuple(names[:number]) for number in range(1, len(names) + 1)}
    asked["increase"] = tuple(names)
    asked["decrease"] = tuple(names[1:])
    asked["alter"] = (names[0], *names[2:])  # for the second, the first again
    return asked


def cells(setup: Setup) -> list[Cell]:
    """`efficiency/DATASET/MODEL/SEED`; each wants the machine for itself. One base seed is enough for a clock."""
    used = tuple(dict.fromkeys(
        pattern for method in ("d2dfr", "advx", "paper", "lego") for pattern in sources(method)
    ))
    code = (*used, "recommenders/*.py", "store/*.py", "experiments/timing.py", "experiments/efficiency.py")
    return [
        Cell(
            f"efficiency/{dataset}/{model}/0", partial(_measure, setup, dataset, model), (dataset, model, 0), code,
            (sorted(setup.base.settings.items()), CORES, setup.quick), alone=True,
        )
        for dataset in setup.datasets for model in setup.models
    ]


def _measure(setup: Setup, dataset: str, model: str) -> dict[str, Any]:
    base, (_, split) = setup.base.get(dataset, model, 0).to("cpu"), setup.data(dataset)
    attributes = setup.attributes(dataset, ATTRIBUTES[dataset])
    asked = requirements(list(attributes))
    most = 1 if setup.quick else CORES
    with threads(most):
        removals = {name: _d2dfr(base, one) for name, one in attributes.items()}
        rate = product_rate(base.users.shape[1])
        stepwise = {method: _stepwise(method, base, attributes, asked, most) for method in ("paper", "lego")}
    training = fastest(partial(_training, base, split, ()), most)
    with threads(training["threads"]):
        against = {
            str(number): _training(base, split, tuple(attributes.values())[:number])
            for number in range(1, len(attributes) + 1)
        }
    return {
        "cores": most, "users": split.n_users, "dimensions": base.users.shape[1], "requirements": asked,
        "original": training, "advx": against,
        "d2dfr": _sequential(removals, asked) | {"removals": removals, "product_rate": rate},
        "d2dfr-stored": _with_stored(removals, asked, 4 * base.users.numel()),
    } | stepwise


def _training(base: Recommender, split: LeaveOneOut, attributes: Sequence[Attribute]) -> dict[str, Any]:
    """A training of the base model's settings, against adversaries where attributes are given; from two epochs."""
    ends: list[float] = []

    def fit(self: Recommender, split: LeaveOneOut, **more: Any) -> Recommender:
        return type(base).fit(self, split, **more, watch=lambda *_: ends.append(time.perf_counter()))

    watched = type("Watched", (type(base),), {"fit": fit})  # whoever trains it, its epochs are timed
    brief = watched(base.config.model_copy(update={"epochs": EPOCHS}))
    start = time.perf_counter()
    if attributes:
        baseline("advx").apply(brief, split, attributes, seed=0, device="cpu")
    else:
        brief.fit(split, seed=0, device="cpu")
    epoch = (ends[-1] - ends[0]) / (EPOCHS - 1)
    return {"seconds": ends[0] - start + (base.config.epochs - 1) * epoch, "seconds_of_a_step": epoch,
            "steps": base.config.epochs, "steps_run": EPOCHS}


# --- sequential unlearning --------------------------------------------------------------------------------------------


def _d2dfr(base: Recommender, attribute: Attribute) -> dict[str, Any]:
    """One removal, as all of D2DFR's steps cost the same, beside the products it cannot do without."""
    items = base.tensors["items"] if base.is_dot_product else None
    found = scaled(
        lambda steps: D2DFR.configure(steps=steps).protect(base.users, [attribute], items=items), *D2DFR_STEPS,
        D2DFR().config.steps,
    )
    sizes = [len(rows) for rows in groups(Target.of(attribute), D2DFR().config.continuous_groups)]
    return found | {"flops": d2dfr_flops(sizes, base.users.shape[1]) * found["steps"]}


def _sequential(removals: Mapping[str, Mapping[str, Any]], asked: Mapping[str, Requirement]) -> dict[str, Any]:
    return {"seconds": {what: sum(removals[name]["seconds"] for name in names) for what, names in asked.items()}}


def _with_stored(
    removals: Mapping[str, Mapping[str, Any]], asked: Mapping[str, Requirement], matrix_bytes: int
) -> dict[str, Any]:
    """Requirements in the order asked, each served from what the ones before have left behind."""
    stored: set[Requirement] = {()}
    seconds, kept = {}, {}
    for what, names in asked.items():
        if what not in CHANGES:
            stored = {()}
        elif what == "increase":
            stored = set(_beginnings(names[:-1]))  # the changes start where all but the last are protected
        order, begun = best_order(names, stored)
        seconds[what] = sum(removals[name]["seconds"] for name in order[begun:])
        stored |= set(_beginnings(order))
        kept[what] = (len(stored) - 1) * matrix_bytes
    return {"seconds": seconds, "bytes": kept}


def best_order(names: Iterable[str], stored: set[Requirement]) -> tuple[Requirement, int]:
    """The order of removal with the longest beginning that is stored, and the length of that beginning."""
    found = [(max(len(one) for one in _beginnings(order) if one in stored), order) for order in permutations(names)]
    begun, order = max(found, key=lambda one: one[0])
    return order, begun


def _beginnings(order: Sequence[str]) -> list[Requirement]:
    return [tuple(order[:number]) for number in range(len(order) + 1)]


# --- two steps --------------------------------------------------------------------------------------------------------


def _stepwise(
    method: str, base: Recommender, attributes: Mapping[str, Attribute], asked: Mapping[str, Requirement], jobs: int
) -> dict[str, Any]:
    """Met from nothing: calibrate what the requirement names, two at a time, and combine. Changes: from opening a store
    that has every calibration and no release."""
    U, items = base.user_matrix(), base.item_matrix()
    brief, whole = PAPER_STEPS[0], WHOLE[method]

    def lego(calibrate: int, combine: int, store: Path | None = None) -> Lego:
        steps: dict[str, Any] = {"steps": calibrate, "combination": {"steps": combine}} if whole > 1 else {}
        return Lego(method, items=items, store=store, device="cpu", jobs=jobs, **steps)

    def meet(names: Requirement, steps: int) -> None:
        lego(steps, steps).fit(U, {name: attributes[name] for name in names}).protect(names)

    def follow(names: Requirement, stores: Iterator[Path], steps: int) -> None:
        lego(brief, steps, next(stores)).fit(U, dict(attributes)).protect(names)

    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        warm = Path(folder) / "warm"
        lego(brief, brief, warm).fit(U, dict(attributes))
        for what, names in asked.items():
            if what in CHANGES:
                copies = (Path(shutil.copytree(warm, Path(folder) / f"{what}-{turn}")) for turn in count())
                work = partial(follow, names, chain([next(copies)], copies))  # the first is there before the clock runs
            else:
                work = partial(meet, names)
            found[what] = scaled(work, *PAPER_STEPS, whole)
    return {"seconds": {what: one["seconds"] for what, one in found.items()}, "runs": found}
