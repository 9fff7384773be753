"""The panel: attackers with different inductive biases, run together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np
import torch
from scipy.sparse import issparse

from oblivec.attacks import (  # noqa: F401  (registration)
    bayes,
    gaussian,
    kernel,
    lightgbm_trees,
    linear,
    mlp,
    neighbours,
    pairs,
    paper,
    support_vectors,
    trees,
    xgboost_trees,
)
from oblivec.attacks.base import REGISTRY, Problem, Scores
from oblivec.attacks.sampling import Sample
from oblivec.engines.local import map_tasks
from oblivec.errors import BadInput

PANEL = ("paper", "linear", "pairs", "mlp", "kernel", "neighbours", "forest", "boosting")
"""The default members, in the order they are reported."""
LISTS = ("bayes",)
"""Members that read item lists instead of vectors."""


@dataclass(frozen=True)
class Task:
    """A piece of work: one attacker on some trials of one problem."""

    key: str
    attacker: str
    first_trial: int
    problem: Problem

    @property
    def cost(self) -> float:
        """Rough work, in training rows times outputs; only its order matters."""
        rows = float(np.sum([len(trial.train) for trial in self.problem.trials]))
        return rows * (self.problem.outputs if self.attacker in ("boosting", "mlp") else 4)


def check_attackers(names: Sequence[str]) -> None:
    """Refuse, before any work is done, an attacker that does not exist or whose library is not installed."""
    known = [name for name in REGISTRY if name not in LISTS]
    if not names:
        raise BadInput(f"no attacker was chosen; use {', '.join(known)}")
    for name in names:
        if name not in known:
            raise BadInput(f"--attacker {name}: unknown; use {', '.join(known)}")
        library = REGISTRY[name].needs
        if library is not None and find_spec(library) is None:
            raise BadInput(f"--attacker {name}: {library} is not installed; pip install oblivec[boosters]")


def members(problem: Problem, names: Sequence[str] = PANEL) -> list[str]:
    """Those who can attack this problem."""
    if issparse(problem.vectors):
        return [] if problem.continuous else list(LISTS)
    return [name for name in names if not problem.continuous or REGISTRY[name].attacks_continuous]


def attack_all(
    problems: Mapping[str, tuple[Problem, Sample]], names: Sequence[str] = PANEL, *,
    device: torch.device | str = "cpu", jobs: int | None = None, label: str = "Attacking",
) -> dict[str, dict[str, Scores]]:
    """Scores of every attacker on every problem: `found[problem][attacker][trial]`.

    Tensor programs take all their trials at once (on `device`); the others are cut into one task per trial and spread
    over `jobs` processes. The cut never depends on `jobs`, and every task runs on one thread, so the result does not
    either.
    """
    device = torch.device(device)
    tasks: list[Task] = []
    for key, (problem, sample) in problems.items():
        for name in members(problem, names):
            trials = sample.up_to(REGISTRY[name].repeats)
            if REGISTRY[name].batched:
                tasks.append(Task(key, name, 0, replace(problem, trials=trials)))
            else:
                tasks += [
                    Task(key, name, number, replace(problem, trials=(trial,), seed=problem.seed + number))
                    for number, trial in enumerate(trials)
                ]
    on_device = device.type != "cpu"
    here = [task for task in tasks if on_device and REGISTRY[task.attacker].batched]
    spread = [task for task in tasks if not (on_device and REGISTRY[task.attacker].batched)]
    spread.sort(key=lambda task: -task.cost)  # the longest first: no worker is left alone with it at the end
    with ThreadPoolExecutor(max_workers=1) as beside:  # the processor works while the accelerator does
        elsewhere = beside.submit(map_tasks, _run, spread, jobs, label)
        results = [(task, _run(task, device)) for task in here]
        results += zip(spread, elsewhere.result(), strict=True)
    found: dict[str, dict[str, Scores]] = {
        key: {name: [] for name in members(problem, names)} for key, (problem, _) in problems.items()
    }
    for task, scores in sorted(results, key=lambda result: result[0].first_trial):
        found[task.key][task.attacker] += scores
    return found


def _run(task: Task, device: torch.device | None = None) -> Scores:
    return REGISTRY[task.attacker]().attack(task.problem, device or torch.device("cpu"))
