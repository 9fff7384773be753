"""What the cells of an experiment share, and the cells that most experiments are made of: releases.

A release is called `release/DATASET/MODEL/SEED/METHOD/ATTRIBUTES`, with the METHOD's variant behind a colon (`dp:0.5`).
Whichever experiment asks for it, it is the same cell and is measured once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from oblivec.attacks.panel import PANEL
from oblivec.datasets.attributes import Attribute
from oblivec.datasets.dataset import Dataset
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.experiments.base_models import BaseModels
from oblivec.experiments.cells import Cell
from oblivec.experiments.measuring import measure_release, prefixes
from oblivec.experiments.methods import QUICK_SETTINGS, Made, chain, make_release, sources
from oblivec.experiments.releases import OUTSIDE, Means
from oblivec.policies.utility import REFIT_EPOCHS
from oblivec.recommenders import RECOMMENDERS, Recommender

MEASURING = (
    "attacks/*.py", "audit/run.py", "audit/statistics.py", "audit/verdicts.py", "audit/attackable.py", "metrics/*.py",
    "recommenders/*.py", "randomness.py", "experiments/measuring.py", "experiments/releases.py",
)
"""The code that every measured release depends on, whatever made it."""
JUDGED = ("original", "lego")
"""Methods whose releases are attacked by everybody and get verdicts with corrected p-values."""
REFITTED = ("lego",)
"""Methods whose item side is refitted too, beside the control."""
BLIND = ("original", "dp", "random-moments", "most-popular")
"""Methods that look at no attribute: one release serves every requirement, and is measured on all attributes."""
ATTRIBUTES = {
    "ml-100k": ("gender", "age", "occupation"), "ml-1m": ("gender", "age", "occupation"),
    "kuaisar": ("onehot_feat1", "onehot_feat2"), "kuairand-pure": ("onehot_feat0", "onehot_feat1"),
}
"""In the order of the paper's requirements: each is a beginning of this list."""
QUICK_TRAINING = {"epochs": 5, "learning_rate": 5e-3, "steps_per_epoch": 50}
QUICK_ATTACKERS = ("linear", "pairs", "neighbours", "svm")


@dataclass(frozen=True)
class Setup:
    """Which data sets, models and seeds; how models are trained and releases attacked; where the work is done."""

    base: BaseModels
    datasets: tuple[str, ...] = ("ml-100k", "ml-1m")
    models: tuple[str, ...] = tuple(RECOMMENDERS)
    seeds: int = 5
    attackers: tuple[str, ...] = PANEL
    outside: tuple[str, ...] = OUTSIDE
    """Attackers beside the panel, for the methods that are judged: as many as are installed, so that they are no part
    of what a result is kept under."""
    refit_epochs: int = REFIT_EPOCHS
    quick: bool = False
    tuned: Mapping[str, Any] = field(default_factory=dict)
    """Settings chosen by the grid search: data set, model, method. Those absent are the methods' defaults."""

    @property
    def device(self) -> str:
        return self.base.device

    def data(self, dataset: str) -> tuple[Dataset, LeaveOneOut]:
        return self.base.data(dataset)

    def attributes(self, dataset: str, names: Sequence[str]) -> dict[str, Attribute]:
        source, _ = self.data(dataset)
        known = source.attributes | source.extra_attributes
        return {name: known[name] for name in names}

    def requirements(self, dataset: str) -> list[tuple[str, ...]]:
        """As in the paper: the first attribute, the first two, and so on."""
        return prefixes(ATTRIBUTES[dataset])

    def means(self, method: str) -> Means:
        """How a release of this method is attacked: in one process, because cells run side by side."""
        attackers = (*self.attackers, *self.outside) if method in JUDGED else self.attackers
        return Means(attackers=attackers, device=self.device, jobs=1)

    def settings(self, dataset: str, model: str, method: str) -> dict[str, Any]:
        """Of the method wherever a table shows it: those chosen, and in a quick run those for a quick run."""
        return dict(QUICK_SETTINGS.get(method, {})) if self.quick else self.chosen(dataset, model, method)

    def chosen(self, dataset: str, model: str, method: str, which: str = "settings") -> dict[str, Any]:
        """The settings that the grid search chose, or none. `settings_at_any_price`: however much ranking they lose."""
        return dict(self.tuned.get(dataset, {}).get(model, {}).get(method, {}).get(which, {}))


def release_cell(
    setup: Setup,
    dataset: str,
    model: str,
    seed: int,
    method: str,
    names: Sequence[str],
    settings: Mapping[str, Any] | None = None,
    variant: str = "",
) -> Cell:
    """Make one release and measure it. `variant` tells two cells of the same method and requirement apart."""
    name = _name(dataset, model, seed, method, variant, names)
    work = partial(_release, setup, dataset, model, seed, method, tuple(names), dict(settings or {}))
    return _cell(setup, name, work, (dataset, model, seed), method, settings)


def chain_cell(
    setup: Setup,
    dataset: str,
    model: str,
    seed: int,
    method: str,
    names: Sequence[str],
    settings: Mapping[str, Any] | None = None,
    variant: str = "",
) -> Cell:
    """The releases for the first attribute, the first two, and so on, each begun where the one before ended."""
    parts = tuple(_name(dataset, model, seed, method, variant, some) for some in prefixes(names))
    work = partial(_chain, setup, dataset, model, seed, method, tuple(names), dict(settings or {}), parts)
    return _cell(setup, parts[-1], work, (dataset, model, seed), method, settings, parts)


def _name(dataset: str, model: str, seed: int, method: str, variant: str, names: Sequence[str]) -> str:
    return f"release/{dataset}/{model}/{seed}/{method}{':' * bool(variant)}{variant}/{'+'.join(names)}"


def _cell(
    setup: Setup, name: str, work: Callable[[], dict[str, Any]], base: tuple[str, str, int], method: str,
    settings: Mapping[str, Any] | None, parts: tuple[str, ...] = (),
) -> Cell:
    kept_under = (
        sorted((settings or {}).items()), tuple(setup.attackers), sorted(setup.base.settings.items()),
        _refit_epochs(setup, method), method in JUDGED,
    )
    return Cell(name, work, base, (*MEASURING, *sources(method)), kept_under, parts)


def _refit_epochs(setup: Setup, method: str) -> int:
    return setup.refit_epochs if method in REFITTED else 0


def _release(
    setup: Setup, dataset: str, model: str, seed: int, method: str, names: tuple[str, ...], settings: dict[str, Any]
) -> dict[str, Any]:
    base, (_, split) = setup.base.get(dataset, model, seed), setup.data(dataset)
    attributes = setup.attributes(dataset, names)
    made = make_release(
        method, base, split, attributes, seed=seed, device=setup.device, jobs=1, settings=settings or None
    )
    return _measured(setup, made, base, split, attributes, seed, method, settings)


def _chain(
    setup: Setup, dataset: str, model: str, seed: int, method: str, names: tuple[str, ...], settings: dict[str, Any],
    parts: Sequence[str],
) -> dict[str, Any]:
    base, (_, split) = setup.base.get(dataset, model, seed), setup.data(dataset)
    attributes = setup.attributes(dataset, names)
    steps = chain(method, base, split, attributes, seed=seed, device=setup.device, jobs=1, settings=settings or None)
    return {
        part: _measured(setup, made, base, split, {one: attributes[one] for one in some}, seed, method, settings)
        for part, (some, made) in zip(parts, steps, strict=True)
    }


def _measured(
    setup: Setup, made: Made, base: Recommender, split: LeaveOneOut, attributes: Mapping[str, Attribute], seed: int,
    method: str, settings: Mapping[str, Any],
) -> dict[str, Any]:
    found = measure_release(
        made, base, split, attributes, seed=seed, means=setup.means(method), p_values=method in JUDGED,
        refit_epochs=_refit_epochs(setup, method),
    )
    return found | {"settings": dict(settings), "device": base.users.device.type}
