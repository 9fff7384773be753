"""Simulated audits whose truth is known: the common engine of `audit-level` and `audit-power`.

Each simulated audit is the whole thing, as a user would run it: the full panel, the null test, the correction over
attributes, the verdicts. Audits are independent, run on one thread each and are spread over the cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from oblivec.attacks.threats import Evidence
from oblivec.audit.run import run_audit
from oblivec.console import voice
from oblivec.datasets.attributes import Attribute
from oblivec.engines.local import map_tasks
from oblivec.randomness import numpy_rng

Matrix = tuple[np.ndarray, Mapping[str, Attribute]]


@dataclass(frozen=True)
class Scenario:
    """Something to audit many times: `make(seed)` draws a matrix and its attributes."""

    name: str
    make: Callable[[int], Matrix]
    audits: int
    enough_seconds: float = float("inf")
    """No further audit of this scenario is begun once the benchmark has run for so long."""


def run_scenarios(scenarios: Sequence[Scenario], jobs: int | None = None) -> dict[str, list[dict[str, Any]]]:
    """Every audit of every scenario, as the JSON of the audit plus its seconds.

    Scenarios take turns in proportion to their audits, so that a run cut short has its share of each.
    """
    start = time.time()
    tasks = [(scenario, seed) for scenario in scenarios for seed in range(scenario.audits)]
    tasks.sort(key=lambda task: (task[1] + 0.5) / task[0].audits)
    found: dict[str, list[dict[str, Any]]] = {scenario.name: [] for scenario in scenarios}
    results = map_tasks(partial(_audit_once, start), tasks, jobs, "Simulated audits")
    for (scenario, _), result in zip(tasks, results, strict=True):
        if result is not None:
            found[scenario.name].append(result)
    return found


def _audit_once(start: float, task: tuple[Scenario, int]) -> dict[str, Any] | None:
    scenario, seed = task
    if time.time() - start > scenario.enough_seconds:
        return None
    voice.quiet = True
    embeddings, attributes = scenario.make(seed)
    before = time.perf_counter()
    result = run_audit(Evidence(embeddings, attributes, seed=seed), seed=seed, jobs=1, device="cpu")
    return result.to_json() | {"seconds": time.perf_counter() - before}


def noise_labels(priors: Sequence[float], n: int, name: str, seed: int) -> Attribute:
    """Labels drawn from `priors`, independent of everything."""
    shares = np.asarray(priors, dtype=float) / np.sum(priors)
    codes = numpy_rng(seed, "noise", name).choice(len(shares), size=n, p=shares)
    return Attribute(name, "categorical", codes.astype(np.int64), tuple(str(c) for c in range(len(shares))))


def share_with_error(hits: int, of: int) -> dict[str, float | int]:
    """A share and two standard errors of it."""
    share = hits / max(of, 1)
    error = float(np.sqrt(share * (1 - share) / max(of, 1)))
    return {"share": share, "hits": hits, "of": of, "two_standard_errors": 2 * error}
