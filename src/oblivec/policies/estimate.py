"""How long work will take: from how long the like of it took before, else from a probe on a few hundred users.

Estimates, meant to be within a factor of three: machines are shared, and matrices differ in more than size.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from statistics import median

import numpy as np
import torch

from oblivec.calibration.base import Calibration
from oblivec.datasets.attributes import Attribute
from oblivec.engines.local import default_jobs, map_tasks, run_single_threaded
from oblivec.errors import OblivecError
from oblivec.metrics import rank_test_items
from oblivec.metrics.neighbours import MOST_USERS, neighbour_overlap
from oblivec.policies.auditing import audit_work
from oblivec.policies.unlearning import labels_of
from oblivec.policies.work import Work
from oblivec.randomness import numpy_rng
from oblivec.store import config_hash
from oblivec.store.manifest import Manifest

PROBES = (400, 1200)
"""Users of the two probes; from how the second compares with the first follows how time grows."""
_TESTED = 500


class Estimate:
    """Seconds for each kind of work on the source of one policy file. Probes run when they are first needed."""

    def __init__(self, work: Work):
        self.work = work
        self.probed: set[str] = set()
        """Kinds of work that had to be probed, for want of the like in the store."""
        self.users, self.dimensions = work.lego.values.shape
        self.jobs = work.lego.jobs or default_jobs()

    # --- the kinds of work ----------------------------------------------------------------------------------------

    def calibrate(self, names: Sequence[str]) -> float:
        """These attributes, several at a time."""
        if not names:
            return 0.0
        jobs = self.jobs if self.work.lego.device.type == "cpu" else 1
        finish = [0.0] * min(jobs, len(names))
        for seconds in sorted((self._calibration(name) for name in names), reverse=True):
            finish[finish.index(min(finish))] += seconds
        return max(finish)

    def combine(self, sizes: Sequence[int]) -> float:
        """Releases of so many attributes each; one of a single attribute is that calibration."""
        several = [size for size in sizes if size > 1]
        return sum(several) * self._combination if several else 0.0

    def audit(self, attributes: Sequence[Mapping[str, Attribute]]) -> float:
        """One audit for each of these sets of attributes."""
        return sum(audit_work(self.users, one) for one in attributes) * self._attack if attributes else 0.0

    def measure(self, policies: int) -> float:
        """Neighbours, and ranking quality before and after, for so many releases."""
        return policies * (self._neighbours + 2 * self._ranking)

    @cached_property
    def start(self) -> float:
        """Worker processes have libraries to load."""
        if self.jobs == 1:
            return 0.0
        return _timed(lambda: map_tasks(_nothing, range(self.jobs), self.jobs, "Starting"))

    # --- from the store -------------------------------------------------------------------------------------------

    @cached_property
    def _history(self) -> list[Manifest]:
        store = self.work.lego.store
        found = []
        for entry in [] if store is None else store.entries():
            try:
                found.append(entry.manifest())
            except OblivecError:
                continue
        return found

    def _like(self, kind: str, method: str, settings: str) -> list[Manifest]:
        return [
            one for one in self._history
            if (one.lineage.kind, one.lineage.method, one.config_hash) == (kind, method, settings)
        ]

    # --- one of each ----------------------------------------------------------------------------------------------

    def _calibration(self, name: str) -> float:
        calibrator = self.work.lego.calibrator
        like = self._like("calibration", calibrator.name, config_hash(calibrator.config.model_dump(mode="json")))
        like = [one for one in like if one.lineage.attributes == [name]] or like
        if like:
            return median(one.seconds / (one.rows * one.dimensions) for one in like) * self.users * self.dimensions
        self.probed.add("calibrate")
        return _extrapolate(self._calibration_probes, self.users)

    @cached_property
    def _calibration_probes(self) -> list[tuple[int, float]]:
        """Of the attribute with most classes: one stands for all."""
        return [(users, self._probe_calibration(users)[1]) for users in self._sizes]

    def _probe_calibration(self, users: int) -> tuple[Calibration, float]:
        lego, (U, attribute) = self.work.lego, self._sample(users)
        items = None if lego.items is None else torch.from_numpy(lego.items)
        start = time.perf_counter()
        made = run_single_threaded(
            lambda one: one.calibrate(torch.from_numpy(U), attribute, items=items, seed=lego.seed, device=lego.device),
            lego.calibrator,
        )
        return made, time.perf_counter() - start

    @cached_property
    def _combination(self) -> float:
        """Per attribute of a requirement of several."""
        lego = self.work.lego
        like = self._like("release", lego.combiner.name, config_hash(lego.combiner.config.model_dump(mode="json")))
        per_value = [
            one.seconds / (one.rows * one.dimensions * len(one.lineage.calibrations))
            for one in like if len(one.lineage.calibrations) > 1
        ]
        if per_value:
            return median(per_value) * self.users * self.dimensions
        self.probed.add("combine")
        return _extrapolate([(users, self._probe_combination(users) / 2) for users in self._sizes], self.users)

    def _probe_combination(self, users: int) -> float:
        """Two attributes that happen to be the same."""
        lego, (U, attribute) = self.work.lego, self._sample(users)
        made, _ = self._probe_calibration(users)
        twins = [replace(made, attribute="probe"), replace(made, attribute="another probe")]
        labels = [replace(attribute, name=one.attribute) for one in twins]
        items = None if lego.items is None else torch.from_numpy(lego.items)
        return _timed(lambda: run_single_threaded(
            lambda one: one.combine(
                torch.from_numpy(U), twins, labels, items=items, seed=lego.seed, device=lego.device
            ), lego.combiner,
        ))

    @cached_property
    def _attack(self) -> float:
        """Per unit of `audit_work`."""
        settings = self.work.auditor.lineage("", {}).configuration
        per_work = [
            one.seconds / one.facts["work"] for one in self._history
            if one.lineage.kind == "audit" and one.lineage.configuration == settings and one.facts.get("work")
        ]
        if per_work:
            return median(per_work)
        self.probed.add("audit")
        spent = [(users, self._probe_audit(users)) for users in self._sizes]
        return _extrapolate(spent, self.users) / audit_work(self.users, self._probed_attribute)

    def _probe_audit(self, users: int) -> float:
        U, attribute = self._sample(users)
        keeps_nothing = replace(self.work.auditor, store=None)
        return _timed(lambda: keeps_nothing.audit(U, {attribute.name: attribute}))

    @cached_property
    def _neighbours(self) -> float:
        U = self.work.lego.values[: PROBES[1]]
        spent = _timed(lambda: neighbour_overlap(U, U, device=self.work.lego.device))
        return spent * min(self.users, MOST_USERS) * self.users / len(U) ** 2

    @cached_property
    def _ranking(self) -> float:
        model, split = self.work.given.model, self.work.given.split
        if model is None or split is None:
            return 0.0
        tested = split.tested_users
        few = np.full(split.n_users, -1, dtype=np.int64)
        few[tested[:_TESTED]] = split.test_items[tested[:_TESTED]]
        placed = model.to(self.work.lego.device)
        part = replace(split, test_items=few)
        spent = _timed(lambda: rank_test_items(placed.scores, part, device=placed.users.device))
        return spent * len(tested) / max(len(tested[:_TESTED]), 1)

    # --- probes ---------------------------------------------------------------------------------------------------

    @property
    def _sizes(self) -> list[int]:
        return sorted({min(users, self.users) for users in PROBES})

    @cached_property
    def _probed_attribute(self) -> dict[str, Attribute]:
        names = self.work.file.attributes
        chosen = max(names, key=lambda name: (len(self.work.given.attributes[name].classes), name))
        return labels_of(self.work.given, [chosen])

    def _sample(self, users: int) -> tuple[np.ndarray, Attribute]:
        rows = np.sort(numpy_rng(self.work.lego.seed, "probe").permutation(self.users)[:users])
        (attribute,) = self._probed_attribute.values()
        return self.work.lego.values[rows], attribute.take(rows)


def _extrapolate(spent: Sequence[tuple[int, float]], users: int) -> float:
    """Along the power law through two probes: constant, linear and quadratic cost are all of that kind."""
    (few, short), (many, long) = spent[0], spent[-1]
    if few == many or users <= many:
        return long
    power = math.log(max(long, 1e-6) / max(short, 1e-6)) / math.log(many / few)
    return long * (users / many) ** min(max(power, 0.0), 2.0)


def _timed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def _nothing(number: int) -> int:
    return number
