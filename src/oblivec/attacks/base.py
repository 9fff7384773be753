"""What an attacker is: something that learns labels from some users' vectors and scores the others.

Adding one is one file: subclass `Attacker`, give it a name, decorate it with `@register`, import it in `panel.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy.sparse import csr_matrix


@dataclass(frozen=True)
class Trial:
    """Learn from the rows `train`, score the rows `test`. The two never overlap."""

    train: np.ndarray
    test: np.ndarray


@dataclass(frozen=True)
class Problem:
    """One attribute of the users under attack: what the attacker sees, what it wants, and the trials to run.

    `labels` are class codes 0..`n_classes` - 1, or floats when `n_classes` is 0 (a continuous attribute).
    """

    vectors: np.ndarray | csr_matrix
    labels: np.ndarray
    n_classes: int
    trials: Sequence[Trial]
    seed: int

    @property
    def continuous(self) -> bool:
        return self.n_classes == 0

    @property
    def outputs(self) -> int:
        return max(self.n_classes, 1)


@dataclass(frozen=True)
class Unit:
    """Mean and spread of a trial's training values. Attackers learn in this unit: a year is as easy as an age."""

    mean: float = 0.0
    spread: float = 1.0

    @classmethod
    def of(cls, values: np.ndarray) -> Unit:
        return cls(float(values.mean()), float(values.std()) or 1.0)

    def into(self, values: np.ndarray) -> np.ndarray:
        return (values - self.mean) / self.spread

    def back(self, values: np.ndarray) -> np.ndarray:
        return values.astype(np.float64) * self.spread + self.mean


Scores = list[np.ndarray]
"""One array per trial: len(test) x n_classes, larger meaning likelier; len(test) x 1 predictions when continuous."""


class Attacker:
    """Base of every attacker. Must cope with classes that are absent from a trial's training rows."""

    name: ClassVar[str]
    says: ClassVar[str]
    """One plain sentence for the report's appendix."""
    batched: ClassVar[bool] = False
    """A tensor program that runs all trials together; otherwise trials are spread over worker processes."""
    attacks_continuous: ClassVar[bool] = True
    attacks_lists: ClassVar[bool] = False
    """Works on sparse item counts (a user's history) instead of vectors."""
    needs: ClassVar[str | None] = None
    """A library outside the standard installation (`oblivec[boosters]`)."""
    repeats: ClassVar[int] = 2
    """How many divisions into folds its estimate is averaged over."""
    fold_dependence: ClassVar[float] = 1.8
    """Variance of its out-of-fold estimate under the null, relative to independent users. The default is what a linear
    score has at two repeats, the worst known; the panel's members carry what `oblivec bench audit-level` measures."""

    def attack(self, problem: Problem, device: torch.device) -> Scores:
        raise NotImplementedError


REGISTRY: dict[str, type[Attacker]] = {}


def register(kind: type[Attacker]) -> type[Attacker]:
    REGISTRY[kind.name] = kind
    return kind


def balanced_weights(labels: np.ndarray, n_classes: int) -> np.ndarray:
    """A weight per row so that every class present weighs the same; the weights average 1."""
    counts = np.bincount(labels, minlength=n_classes)
    present = counts > 0
    return (len(labels) / (present.sum() * np.maximum(counts, 1)))[labels]
