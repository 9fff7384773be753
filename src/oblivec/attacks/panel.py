"""The panel: attackers with different inductive biases, run together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.sparse import issparse

from oblivec.attacks import bayes, kernel, linear, mlp, neighbours, pairs, paper, trees  # noqa: F401  (registration)
from oblivec.attacks.base import REGISTRY, Problem, Scores
from oblivec.attacks.sampling import Sample
from oblivec.engines.local import map_tasks

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
    results = [(task, _run(task, device)) for task in here]
    results += zip(spread, map_tasks(_run, spread, jobs, label), strict=True)
    found: dict[str, dict[str, Scores]] = {
        key: {name: [] for name in members(problem, names)} for key, (problem, _) in problems.items()
    }
    for task, scores in sorted(results, key=lambda result: result[0].first_trial):
        found[task.key][task.attacker] += scores
    return found


def _run(task: Task, device: torch.device | None = None) -> Scores:
    return REGISTRY[task.attacker]().attack(task.problem, device or torch.device("cpu"))
