"""Simulated audits whose truth is known: the common engine of `audit-level` and `audit-power`.

Each simulated audit is the whole thing, as a user would run it: the full panel, the null test, the correction over
attributes, the verdicts. Audits are independent, run on one thread each and are spread over the cores.
"""

from __future__ import annotations

import hashlib
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from oblivec.attacks.threats import Evidence
from oblivec.audit.run import run_audit
from oblivec.console import voice
from oblivec.datasets.attributes import Attribute
from oblivec.engines.local import map_tasks
from oblivec.experiments.kept import Kept, code_digest
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


def run_scenarios(
    scenarios: Sequence[Scenario], jobs: int | None = None, resume: Path | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Every audit of every scenario, as the JSON of the audit plus its seconds.

    Scenarios take turns in proportion to their audits, so that a run cut short has its share of each. With `resume`,
    every finished audit is kept in that file, and those it already holds are not run again.
    """
    start = time.time()
    kept = Kept(resume) if resume is not None else None
    everything = [(scenario, seed) for scenario in scenarios for seed in range(scenario.audits)]
    everything.sort(key=lambda task: (task[1] + 0.5) / task[0].audits)
    names = [task_name(scenario, seed) for scenario, seed in everything]
    done = kept.read(dict.fromkeys(names, code_digest())) if kept is not None else {}
    tasks = [task for task, name in zip(everything, names, strict=True) if name not in done]
    results = iter(map_tasks(partial(_audit_once, start, kept), tasks, jobs, "Simulated audits"))
    found: dict[str, list[dict[str, Any]]] = {scenario.name: [] for scenario in scenarios}
    for (scenario, _), name in zip(everything, names, strict=True):
        result = done[name] if name in done else next(results)
        if result is not None:
            found[scenario.name].append(result)
    return found


def task_name(scenario: Scenario, seed: int) -> str:
    """Which audit this is: the scenario, how it is drawn (function and settings), and the seed."""
    make: Any = scenario.make
    function, settings = (make.func, make.args) if isinstance(make, partial) else (make, ())
    drawn = hashlib.sha256(f"{inspect.getsource(function)} {settings!r}".encode()).hexdigest()[:16]
    return f"{scenario.name} ({drawn}), seed {seed}"


def _audit_once(start: float, kept: Kept | None, task: tuple[Scenario, int]) -> dict[str, Any] | None:
    scenario, seed = task
    if time.time() - start > scenario.enough_seconds:
        return None
    embeddings, attributes = scenario.make(seed)
    was_quiet, voice.quiet = voice.quiet, True
    before = time.perf_counter()
    try:
        result = run_audit(Evidence(embeddings, attributes, seed=seed), seed=seed, jobs=1, device="cpu")
    finally:
        voice.quiet = was_quiet
    found = result.to_json() | {"seconds": time.perf_counter() - before}
    if kept is not None:
        kept.add(task_name(scenario, seed), code_digest(), found)
    return found


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
