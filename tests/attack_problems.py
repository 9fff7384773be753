"""Small problems for attackers: who leaks what, and how it is divided into trials."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import torch
from scipy.sparse import csr_matrix

from oblivec.attacks.base import REGISTRY, Attacker, Problem, Scores, Trial
from oblivec.attacks.panel import PANEL
from oblivec.attacks.sampling import FOLDS, assign_folds

CPU = torch.device("cpu")
FAST = ("linear", "pairs", "neighbours")
"""Milliseconds each."""
INSTALLED = [name for name, kind in REGISTRY.items() if kind.needs is None or find_spec(kind.needs) is not None]
CONTINUOUS = [name for name in INSTALLED if REGISTRY[name].attacks_continuous and not REGISTRY[name].attacks_lists]
VECTORS = [name for name in INSTALLED if not REGISTRY[name].attacks_lists]
assert set(PANEL) <= set(VECTORS)


def attacker(name: str) -> Attacker:
    return REGISTRY[name]()


def folds(labels: np.ndarray, seed: int = 0) -> tuple[Trial, ...]:
    """The out-of-fold trials of one division."""
    strata = labels if labels.dtype.kind == "i" else np.zeros(len(labels), dtype=np.int64)
    fold = assign_folds(strata, FOLDS, np.random.default_rng(seed))
    return tuple(Trial(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(FOLDS))


def class_problem(n: int = 120, d: int = 5, classes: int = 3, gap: float = 1.5, seed: int = 0) -> Problem:
    """Gaussian clouds, class c shifted by `gap` and twice as wide along column c (as far as there are columns)."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    vectors = rng.standard_normal((n, d)).astype(np.float32)
    vectors[np.arange(n), labels % d] = 2 * vectors[np.arange(n), labels % d] + gap
    return Problem(vectors, labels, classes, folds(labels, seed), seed)


def value_problem(n: int = 200, d: int = 3, noise: float = 0.3, seed: int = 0) -> Problem:
    """A continuous attribute: as much of it linear in the first column as in the square of the second."""
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((n, d)).astype(np.float32)
    x = vectors.astype(np.float64)
    labels = 40 + 10 * (x[:, 0] + (x[:, 1] ** 2 - 1) / np.sqrt(2) + noise * rng.standard_normal(n))
    return Problem(vectors, labels, 0, folds(labels, seed), seed)


def list_problem(n: int = 120, items: int = 30, seed: int = 0) -> Problem:
    """Item lists: users of class c prefer the items with number c modulo 3."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    chance = np.where(np.arange(items)[None] % 3 == labels[:, None], 0.5, 0.15)
    lists = csr_matrix((rng.random((n, items)) < chance).astype(np.float32))
    return Problem(lists, labels, 3, folds(labels, seed), seed)


def problem_for(name: str, **changes: int) -> Problem:
    return list_problem(**changes) if REGISTRY[name].attacks_lists else class_problem(**changes)


def predictions(problem: Problem, scores: Scores) -> np.ndarray:
    """The class (or value) predicted for every user by the trial that tests it."""
    found = np.empty(len(problem.labels))
    for trial, part in zip(problem.trials, scores, strict=True):
        found[trial.test] = part[:, 0] if problem.continuous else part.argmax(1)
    return found


def balanced_accuracy(problem: Problem, scores: Scores) -> float:
    right = predictions(problem, scores) == problem.labels
    return float(np.mean([right[problem.labels == c].mean() for c in range(problem.n_classes)]))


def r2(problem: Problem, scores: Scores) -> float:
    residual = np.square(problem.labels - predictions(problem, scores)).sum()
    return float(1 - residual / np.square(problem.labels - problem.labels.mean()).sum())
