"""The paper's two ablations: LEGO with one of its two steps exchanged for something plainer.

`d2dfr-fc` keeps the flexible combination and lets D2DFR remove each attribute alone. `ec-ac` keeps the embedding
calibration and takes the plain mean of the calibrated matrices.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import torch

from oblivec.baselines import ReleaseBaseline, baseline
from oblivec.calibration.base import Calibration
from oblivec.combination.base import combiner
from oblivec.combination.partners import PARTNERS
from oblivec.datasets.attributes import Attribute
from oblivec.engines.local import run_single_threaded
from oblivec.errors import OblivecError
from oblivec.lego import Lego
from oblivec.recommenders import Recommender


def combined_d2dfr(
    base: Recommender, attributes: Mapping[str, Attribute], *, seed: int, device: str, steps_of: str = "paper",
    combination: Mapping[str, Any] | None = None, **settings: Any,
) -> tuple[torch.Tensor, dict[str, float], dict[str, Any]]:
    """`d2dfr-fc`: release, seconds and facts. `settings` are D2DFR's; `steps_of` says whose combination it is."""
    method = baseline("d2dfr", **settings)
    if not isinstance(method, ReleaseBaseline):
        raise OblivecError("d2dfr-fc: d2dfr no longer edits a user matrix")
    start = time.perf_counter()
    U = base.users.detach().float().cpu()
    items = base.tensors["items"] if base.is_dot_product else None
    chosen = [attributes[name] for name in sorted(attributes)]  # the order in which LEGO combines
    made = [method.protect(U, [one], items=items, seed=seed, device=device) for one in chosen]
    calibrated = time.perf_counter()
    calibrations = [Calibration(one.name, "d2dfr", edit.release) for one, edit in zip(chosen, made, strict=True)]
    second = combiner(PARTNERS[steps_of], **(combination or {}))
    release = run_single_threaded(
        lambda step: step.combine(U, calibrations, chosen, seed=seed, device=device), second
    )
    seconds = {"calibrate": calibrated - start, "combine": time.perf_counter() - calibrated}
    return release, seconds, {one.name: edit.facts for one, edit in zip(chosen, made, strict=True)}


def averaged(steps_of: str = "paper", **given: Any) -> Lego:
    """`ec-ac`: LEGO with the calibrations of that method and equal weights, which no step changes."""
    return Lego(steps_of, combination={"steps": 0}, **given)
