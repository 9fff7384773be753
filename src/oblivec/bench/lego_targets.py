"""Does unlearning hold? Privacy, ranking, speed and resemblance of releases, target by target.

Base: MovieLens-1M, three recommenders, five base seeds. The cells are

    release/DATASET/MODEL/SEED/lego/ATTRIBUTES protect them; panel and outside attackers, utility, neighbours
    change/DATASET/MODEL                       seconds of a requirement change from a warm store, on two cores
    training/DATASET/MODEL                     seconds of a whole training on two cores, from its first two epochs
    unlabelled/DATASET/MODEL/SEED/FORM         half of the labels hidden, the attacker is after the hidden ones
    differencing/DATASET/MODEL/SEED            label-free; the attacker holds the original too
    later/DATASET/MODEL/SEED                   a third of the users come later; the attacker is after those
    continuous/ml-100k/MODEL/SEED, continuous/synthetic/SEED

The first kind is the cell of `oblivec reproduce table1`: whichever is run first, the other finds it done.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from oblivec.bench.target_summary import show_targets, summarise
from oblivec.datasets.attributes import Attribute
from oblivec.datasets.foreign import foreign_matrix
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.engines import local
from oblivec.experiments.base_models import BaseModels, data, models_root
from oblivec.experiments.cells import Cell, finish_cells
from oblivec.experiments.releases import OUTSIDE, Means, resemblance, utility
from oblivec.experiments.setup import QUICK_ATTACKERS, QUICK_TRAINING, release_cell
from oblivec.experiments.setup import Setup as Releases
from oblivec.policies.utility import REFIT_EPOCHS
from oblivec.randomness import numpy_rng
from oblivec.recommenders import RECOMMENDERS, Recommender, recommender

show = show_targets
ALL, ALONE, PAIR = ("gender", "age", "occupation"), ("gender",), ("gender", "age")
SYNTHETIC_USERS = 6000
TIMED = ("lightgcn", "ncf")
"""Recommenders whose training a requirement change is compared with."""
CORES = 2
CHANGES = {"add one": ALL, "drop one": ("age", "occupation"), "swap one": ("gender", "occupation")}
"""From gender and age, each change following the one before. None is a release that the store already has."""
QUICK: dict[str, Any] = {"dataset": "ml-100k", "models": ("lightgcn",), "seeds": 1, "synthetic_users": 600}


@dataclass(frozen=True)
class Setup:
    """What all cells share. Where things lie and run is no part of its `repr`, which kept results are kept under."""

    means: Means
    base: BaseModels = field(repr=False)
    dataset: str = "ml-1m"
    models: Sequence[str] = tuple(RECOMMENDERS)
    seeds: int = 5
    synthetic_users: int = SYNTHETIC_USERS
    training: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the recommenders, where not their own defaults."""
    refit_epochs: int = REFIT_EPOCHS

    def model(self, name: str, seed: int, dataset: str | None = None) -> Recommender:
        return self.base.get(dataset or self.dataset, name, seed)

    @property
    def releases(self) -> Releases:
        """The same for the cells that the tables share."""
        panel, beside = (
            tuple(name for name in self.means.attackers if (name in OUTSIDE) == kind) for kind in (False, True)
        )
        return Releases(self.base, attackers=panel, outside=beside, refit_epochs=self.refit_epochs)

    def split(self) -> LeaveOneOut:
        return data(self.dataset, self.base.root)[1]

    def attributes(self, names: Sequence[str], dataset: str | None = None) -> dict[str, Attribute]:
        source, _ = data(dataset or self.dataset, self.base.root)
        known = source.attributes | source.extra_attributes
        return {name: known[name] for name in names}


def run(
    quick: bool = False,
    *,
    cells: Sequence[str] = (),
    resume: Path | None = None,
    enough_seconds: float = float("inf"),
    models_folder: Path | None = None,
    root: Path | None = None,
    device: str = "auto",
    jobs: int | None = None,
    **means: Any,
) -> dict[str, Any]:
    """Every target with its figure. `quick`: ML-100K, LightGCN of a few epochs, one seed, four attackers.

    `means`: fields of `Means` to overrule.
    """
    folder = models_root(models_folder, root)
    means = {"device": device, "jobs": 1} | ({"attackers": QUICK_ATTACKERS} if quick else {}) | means
    if quick:
        base = BaseModels(folder / "quick", QUICK_TRAINING, device, root)
        setup = Setup(Means(**means), base, training=QUICK_TRAINING, refit_epochs=1, **QUICK)
    else:
        setup = Setup(Means(**means), BaseModels(folder, {}, device, root))
    setup.means.lego(0)  # an unknown method or setting is refused before anything is trained
    everything = list_cells(setup)
    finished = finish_cells(
        everything, patterns=cells, resume=resume, enough_seconds=enough_seconds, jobs=jobs,
        prepare=lambda chosen: setup.base.train_missing([cell.base for cell in chosen if cell.base], jobs),
    )
    expected = [cell.name for cell in everything]
    summary = summarise(expected, finished.found, setup.means.attackers)
    return {"setup": repr(setup), "failed": finished.failed} | summary


def list_cells(setup: Setup) -> list[Cell]:
    """All cells, first those that most targets ask for. Base seeds run outermost: an early end has whole seeds."""
    cells: list[Cell] = []

    def add(name: str, work: partial[dict[str, Any]], base: tuple[str, str, int] | None, alone: bool = False) -> None:
        cells.append(Cell(name, work, base, settings=setup, alone=alone))

    for seed in range(setup.seeds):
        for model in setup.models:
            base, age = (setup.dataset, model, seed), ("ml-100k", model, seed)
            of = f"{setup.dataset}/{model}/{seed}"
            for names in (ALL, ALONE):
                cells.append(release_cell(setup.releases, *base, setup.means.method, names, setup.means.settings))
            add(f"differencing/{of}", partial(_differencing, setup, model, seed), base)
            for form in ("label-free", "label-aware"):
                add(f"unlabelled/{of}/{form}", partial(_unlabelled, setup, model, seed, form == "label-free"), base)
            add(f"later/{of}", partial(_later, setup, model, seed), base)
            add(f"continuous/ml-100k/{model}/{seed}", partial(_age_in_years, setup, model, seed), age)
        add(f"continuous/synthetic/{seed}", partial(_synthetic_amount, setup, seed), None)
    for model in setup.models:
        add(f"change/{setup.dataset}/{model}", partial(_change, setup, model), (setup.dataset, model, 0), alone=True)
    for model in TIMED:
        add(f"training/{setup.dataset}/{model}", partial(_training, setup, model), None, alone=True)
    return cells


def _differencing(setup: Setup, name: str, seed: int) -> dict[str, Any]:
    """Target 6: what the difference to the original says, beside what the original itself says."""
    model, attributes = setup.model(name, seed), setup.attributes(ALL)
    split = setup.split()
    U = model.user_matrix()
    release = setup.means.lego(seed, items=model.item_matrix(), label_free=True).fit(U, attributes).protect(ALL)
    return {
        "attacks": setup.means.attack(release, attributes, seed, ("embeddings", "differencing"), baseline=U),
        "utility": utility(model, model.with_user_matrix(release), split, refit_epochs=0, seed=seed),
    } | resemblance(U, release, seed, setup.means.device)


def _unlabelled(setup: Setup, name: str, seed: int, label_free: bool) -> dict[str, Any]:
    """Target 5. The audit's attacker holds the labels of four fifths of the hidden users, not of half: harder."""
    model, known = setup.model(name, seed), setup.attributes(PAIR)
    U = model.user_matrix()
    hidden = numpy_rng(seed, "half of the labels").permutation(len(U)) < len(U) // 2
    shown = {name: attribute.take(np.where(hidden, -1, np.arange(len(U)))) for name, attribute in known.items()}
    more = {"label_free": True} if label_free else {}
    release = setup.means.lego(seed, items=model.item_matrix(), **more).fit(U, shown).protect(PAIR)
    return {
        "attacks": setup.means.attack(release, shown, seed, ("unlabelled",), hidden=known),
    } | resemblance(U, release, seed, setup.means.device)


def _later(setup: Setup, name: str, seed: int) -> dict[str, Any]:
    """Beyond the targets: who was not there when labels were learned is served by `transform`."""
    model, known = setup.model(name, seed), setup.attributes(PAIR)
    U = model.user_matrix()
    order = numpy_rng(seed, "who comes later").permutation(len(U))
    late, there = np.sort(order[: len(U) // 3]), np.sort(order[len(U) // 3 :])
    fitted, attacked = ({name: one.take(rows) for name, one in known.items()} for rows in (there, late))
    served = setup.means.lego(seed, items=model.item_matrix()).take(U[there], fitted).transform(U[late], PAIR)
    return {
        "attacks": setup.means.attack(served, attacked, seed),
    } | resemblance(U[late], served, seed, setup.means.device)


def _age_in_years(setup: Setup, name: str, seed: int) -> dict[str, Any]:
    """Target 7 on ML-100K."""
    model = setup.model(name, seed, "ml-100k")
    attributes = setup.attributes(("age_years",), "ml-100k")
    return _continuous(setup, seed, model.user_matrix(), attributes, model.item_matrix())


def _synthetic_amount(setup: Setup, seed: int) -> dict[str, Any]:
    """Target 7 on a made-up attribute, partly linear and partly a square."""
    made = foreign_matrix("continuous", setup.synthetic_users, 32, seed)
    return _continuous(setup, seed, made.embeddings, made.attributes)


def _continuous(
    setup: Setup, seed: int, U: np.ndarray, attributes: Mapping[str, Attribute], items: np.ndarray | None = None
) -> dict[str, Any]:
    release = setup.means.lego(seed, items=items).fit(U, attributes).protect(list(attributes))
    return {
        "attacks": setup.means.attack(release, attributes, seed, baseline=U),
    } | resemblance(U, release, seed, setup.means.device)


def _change(setup: Setup, name: str) -> dict[str, Any]:
    """Target 4: from opening the store to the new release, on two cores."""
    model, attributes = setup.model(name, 0), setup.attributes(ALL)
    U, items = model.user_matrix(), model.item_matrix()
    with tempfile.TemporaryDirectory() as folder, local.threads(CORES):

        def protect(names: Sequence[str]) -> float:
            start = time.perf_counter()
            lego = setup.means.lego(0, items=items, store=Path(folder) / "store", device="cpu", jobs=CORES)
            lego.fit(U, attributes).protect(names)
            return time.perf_counter() - start

        first = protect(PAIR)
        changes = {change: protect(names) for change, names in CHANGES.items()}
    return {"cores": CORES, "calibrate_and_first": first, "changes": changes}


def _training(setup: Setup, name: str) -> dict[str, Any]:
    """Target 4: the whole training on two cores, from its second epoch, with one thread or two: whichever is faster."""
    split = setup.split()
    epochs = recommender(name, **setup.training).config.epochs
    totals = {}
    for threads in range(1, CORES + 1):
        ends: list[float] = []
        brief = recommender(name, **{**setup.training, "epochs": 2})
        with local.threads(threads):
            start = time.perf_counter()
            brief.fit(split, seed=0, device="cpu", watch=lambda *_, ends=ends: ends.append(time.perf_counter()))
        totals[threads] = (ends[0] - start) + (epochs - 1) * (ends[1] - ends[0])
    by_threads = {str(threads): seconds for threads, seconds in totals.items()}
    return {"seconds": min(totals.values()), "by_threads": by_threads, "epochs": epochs, "epochs_run": 2}
