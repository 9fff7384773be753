"""Every method of the tables behind one function: from a trained recommender to one that protects a requirement.

This file only passes on what it is given. What decides a figure lies in the files that `sources` names, so that a
method's kept figures outlive a change of another method.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oblivec.baselines import REGISTRY as BASELINES
from oblivec.baselines import baseline
from oblivec.baselines.d2dfr import D2DFR
from oblivec.datasets.attributes import Attribute
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.devices import resolve_device
from oblivec.errors import BadInput
from oblivec.experiments.two_steps import averaged, combined_d2dfr
from oblivec.lego import Lego
from oblivec.recommenders import Recommender

METHODS: Mapping[str, str] = {
    "original": "Original",
    "dp": "DP",
    "d2dfr": "D2DFR",
    "advx": "AdvX",
    "leace": "LEACE",
    "random-moments": "random, same moments",
    "most-popular": "most popular",
    "paper": "LEGO as printed",
    "paper-tuned": "LEGO as printed, tuned",
    "lego": "lego",
    "d2dfr-fc": "D2DFR-FC",
    "ec-ac": "EC-AC",
}
"""Name to the name in a table, in the order of the tables."""
STEPWISE = ("paper", "paper-tuned", "lego")
"""Those that go through the front door, `oblivec.Lego`."""
_BRIEF = {"steps": 20, "combination": {"steps": 20}}
QUICK_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "d2dfr": {"steps": 20}, "paper": _BRIEF, "paper-tuned": _BRIEF, "d2dfr-fc": _BRIEF, "ec-ac": {"steps": 20},
}
"""Of the iterative methods in a quick run, which shows that an experiment runs and no more."""
Attributes = Mapping[str, Attribute]


@dataclass(frozen=True)
class Made:
    """A requirement met by a method, and what that took."""

    recommender: Recommender | None
    """With the release in place; None where there is no user matrix (most-popular)."""
    release: np.ndarray | None
    """N x d."""
    seconds: dict[str, float]
    """What meeting the requirement took, by step: `calibrate` and `combine`, `edit`, or `train`."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What the method says; plain JSON."""


def make_release(
    method: str,
    base: Recommender,
    split: LeaveOneOut,
    attributes: Attributes,
    *,
    seed: int,
    device: str = "auto",
    jobs: int | None = 1,
    settings: Mapping[str, Any] | None = None,
) -> Made:
    """`base`, which is left as it is, made to protect all of `attributes` by the method of that name.

    `settings` are the method's own (`scale` for dp, `gradient_scale` for advx, ...); those of the ablations may name
    in `steps_of` whose steps are kept, `paper` (the default) or `paper-tuned`.
    """
    *_, (_, last) = chain(method, base, split, attributes, seed=seed, device=device, jobs=jobs, settings=settings,
                          whole_only=True)
    return last


def chain(
    method: str,
    base: Recommender,
    split: LeaveOneOut,
    attributes: Attributes,
    *,
    seed: int,
    device: str = "auto",
    jobs: int | None = 1,
    settings: Mapping[str, Any] | None = None,
    whole_only: bool = False,
) -> Iterator[tuple[tuple[str, ...], Made]]:
    """Every prefix of `attributes` (in their order), and how the method meets it; `whole_only` gives the last alone.

    Work that prefixes share is done once: sequential D2DFR passes through all of them, and LEGO calibrates an attribute
    once. `seconds` are nevertheless those of the prefix met on its own.
    """
    if method not in METHODS:
        raise BadInput(f"method {method!r}: unknown; use one of {', '.join(METHODS)}")
    if not attributes:
        raise BadInput(f"method {method!r}: no attribute to protect; name at least one")
    given: dict[str, Any] = dict(settings or {})
    names = tuple(attributes)
    prefixes = [names[:count] for count in range(1, len(names) + 1)]
    wanted = prefixes[-1:] if whole_only else prefixes
    if method == "d2dfr":
        stages = zip(prefixes, _d2dfr_in_turn(base, attributes, seed, device, given), strict=True)
        yield from (stage for stage in stages if stage[0] in wanted)
    elif method in STEPWISE or method == "ec-ac":
        make: Callable[..., Lego] = averaged if method == "ec-ac" else lambda **more: Lego(method, **more)
        lego = make(seed=seed, device=device, jobs=jobs, items=base.item_matrix(), **given)
        lego.take(base.user_matrix(), attributes)
        yield from ((prefix, _calibrate_and_combine(lego, base, prefix)) for prefix in wanted)
    else:
        for prefix in wanted:
            own = {name: attributes[name] for name in prefix}
            yield prefix, _at_once(method, base, split, own, seed, device, given)


def sources(method: str) -> tuple[str, ...]:
    """Files, as globs relative to the package, that a figure of this method depends on, beside the base models, the
    metrics and the attackers."""
    shared = ("baselines/base.py", "information/target.py")
    stepwise = ("information/*.py", "lego.py", "combination/base.py", "combination/partners.py", "calibration/base.py",
                "calibration/checks.py", "calibration/configured.py")
    paper = (*stepwise, "calibration/paper*.py", "calibration/alternating.py", "calibration/ball.py",
             "combination/convex.py")
    d2dfr = (*shared, "baselines/d2dfr.py", "baselines/mmd.py", "baselines/top_order.py")
    found = {
        "d2dfr": d2dfr,
        "advx": (*shared, "baselines/adv*.py"),
        "most-popular": ("recommenders/yardsticks.py",),
        "paper": paper,
        "paper-tuned": paper,
        "lego": (*stepwise, "calibration/*.py", "combination/composed.py"),
        "d2dfr-fc": (*d2dfr, *paper, "experiments/two_steps.py"),
        "ec-ac": (*paper, "experiments/two_steps.py"),
    }
    return found.get(method, (*shared, f"baselines/{method.replace('-', '_')}.py"))


def in_order(method: str) -> tuple[int, str]:
    """Where a method stands in a table, its variants (behind a colon) after it."""
    name, _, variant = method.partition(":")
    return list(METHODS).index(name), variant


def _calibrate_and_combine(lego: Lego, base: Recommender, names: tuple[str, ...]) -> Made:
    """Calibrations made before are kept, and their seconds counted again."""
    combined = lego.seconds["combine"]
    lego.calibrate(names)
    release = lego.protect(names)
    seconds = {"calibrate": lego.seconds["calibrate"], "combine": lego.seconds["combine"] - combined}
    facts = {name: lego.facts_of(name) for name in names}
    return Made(base.with_user_matrix(release), release, seconds, facts)


def _d2dfr_in_turn(
    base: Recommender, attributes: Attributes, seed: int, device: str, settings: dict[str, Any]
) -> Iterator[Made]:
    method = baseline("d2dfr", **settings)
    if not isinstance(method, D2DFR):
        raise BadInput("d2dfr: another method is registered under this name")
    items = base.tensors["items"] if base.is_dot_product else None
    start = time.perf_counter()
    stages = method.protect_in_turn(
        base.users, list(attributes.values()), items=items, seed=seed, device=resolve_device(device)
    )
    waited = 0.0
    for stage in stages:
        release = stage.release.cpu().numpy()
        done = time.perf_counter()
        yield Made(base.with_user_matrix(release), release, {"edit": done - start - waited}, stage.facts)
        waited += time.perf_counter() - done  # while the last release was looked at


def _at_once(
    method: str, base: Recommender, split: LeaveOneOut, attributes: Attributes, seed: int, device: str,
    settings: dict[str, Any],
) -> Made:
    """The methods that have nothing to share between requirements."""
    if method == "most-popular":
        if settings:
            raise BadInput(f"most-popular: has no settings, {', '.join(settings)} was given")
        return Made(None, None, {"edit": 0.0})
    start = time.perf_counter()
    if method == "d2dfr-fc":
        tensor, seconds, facts = combined_d2dfr(base, attributes, seed=seed, device=device, **settings)
        release = tensor.cpu().numpy()
        return Made(base.with_user_matrix(release), release, seconds, facts)
    applied = BASELINES[method].configure(**settings).apply(
        base, split, list(attributes.values()), seed=seed, device=resolve_device(device)
    )
    release = applied.recommender.users.cpu().numpy().copy()
    step = "train" if method == "advx" else "edit"
    return Made(applied.recommender, release, {step: time.perf_counter() - start}, applied.facts)
