"""Sampling protocols: which users are attacked, and how they are split into trials.

Two kinds of trials are drawn from the same folds.

*Out-of-fold* trials (train on four fifths, test on the fifth left out) give the estimates: every user is scored once
by an attacker that never saw that user.

*Forward* trials (train on folds 1..k, test on fold k + 1) give the p-values. Out-of-fold statistics of different folds
are dependent, because each fold's labels train the attackers of all the others: what fold 1 says of fold 2 comes back
as what fold 2 says of fold 1, and for a linear attacker the variance of their sum is twice what independent folds
would give. In a forward pass the labels of fold k + 1 have not been used yet, so under the null hypothesis they are
exchangeable within the fold *given* the predictions, whatever the attacker: permuting them gives an exact null.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from oblivec.attacks.base import Trial
from oblivec.randomness import numpy_rng

Protocol = Literal["panel", "paper"]
FOLDS = 5
REPEATS = 4
"""Divisions into folds under `panel`; an attacker that is slow uses the first two."""
FORWARD_REPEATS = 2
MANY_USERS = 20_000
"""From here on one division is precise enough."""


@dataclass(frozen=True)
class Repeat:
    """One division of the users into folds: positions of its trials in `Sample.trials`.

    `forward` is empty for divisions that only steady the estimates.
    """

    out_of_fold: tuple[int, ...]
    forward: tuple[int, ...]
    end: int
    """Trials up to and including this division."""


@dataclass(frozen=True)
class Sample:
    """The users attacked (`rows` of the matrix) and the trials over them (positions within `rows`)."""

    rows: np.ndarray
    trials: tuple[Trial, ...]
    repeats: tuple[Repeat, ...]

    def up_to(self, repeats: int) -> tuple[Trial, ...]:
        """The trials of the first `repeats` divisions."""
        return self.trials[: self.repeats[min(repeats, len(self.repeats)) - 1].end]


def draw(labels: np.ndarray, rows: np.ndarray, protocol: Protocol, seed: int, *, limit: int | None = None) -> Sample:
    """Draw the users and their trials. `labels` belong to `rows`; float labels are stratified by their order.

    `paper` undersamples every class to the smallest, once: the paper does not print this, but its balanced accuracy
    and micro-F1 coincide far below the majority share, which only balanced classes can do. `panel` uses every
    labelled user, or a random `limit` of them, and divides them into folds more than once. The limit keeps the shares
    of the classes, but of a rare class at least one user per fold.
    """
    rng = numpy_rng(seed, "users")
    strata = labels if labels.dtype.kind in "iu" else _terciles(labels)
    chosen = np.arange(len(rows))
    if protocol == "paper" and labels.dtype.kind in "iu":
        smallest = np.bincount(strata)[np.unique(strata)].min()
        order = rng.permutation(len(strata))
        chosen = np.sort(order[_rank_within_class(strata[order]) < smallest])
    if limit is not None and len(chosen) > limit:
        chosen = np.sort(chosen[_thin(strata[chosen], limit, rng)])
    repeats = REPEATS if protocol == "panel" and len(chosen) <= MANY_USERS else 1
    trials: list[Trial] = []
    found = []
    for repeat in range(repeats):
        fold = assign_folds(strata[chosen], FOLDS, numpy_rng(seed, "folds", repeat))
        first = len(trials)
        trials += [Trial(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(FOLDS)]
        forward: tuple[int, ...] = ()
        if repeat < FORWARD_REPEATS:
            # The last forward trial trains on all folds but the last: it is an out-of-fold trial already.
            forward = (*range(len(trials), len(trials) + FOLDS - 2), first + FOLDS - 1)
            trials += [Trial(np.flatnonzero(fold < k), np.flatnonzero(fold == k)) for k in range(1, FOLDS - 1)]
        found.append(Repeat(tuple(range(first, first + FOLDS)), forward, len(trials)))
    return Sample(rows[chosen], tuple(trials), tuple(found))


def assign_folds(strata: np.ndarray, folds: int, rng: np.random.Generator) -> np.ndarray:
    """Random folds that share out every class, and all users, as evenly as can be."""
    order = rng.permutation(len(strata))
    # Classes one behind the other, dealt out in turn: each class is even, and so is the total.
    order = order[np.argsort(strata[order], kind="stable")]
    fold = np.empty(len(strata), dtype=np.int64)
    fold[order] = np.arange(len(strata)) % folds
    return rng.permutation(folds)[fold]


def _thin(strata: np.ndarray, limit: int, rng: np.random.Generator) -> np.ndarray:
    """Positions of `limit` random rows, classes in their shares and none without a row for every fold."""
    order = rng.permutation(len(strata))
    rank = _rank_within_class(strata[order])
    share = (rank + rng.random(len(rank))) / np.bincount(strata)[strata[order]]
    return order[np.argsort(np.where(rank < FOLDS, -1.0, share), kind="stable")[:limit]]


def _rank_within_class(strata: np.ndarray) -> np.ndarray:
    """0 for the first row of each class, 1 for the second, and so on."""
    order = np.argsort(strata, kind="stable")
    starts = np.r_[0, np.flatnonzero(np.diff(strata[order])) + 1]
    rank = np.empty(len(strata), dtype=np.int64)
    rank[order] = np.arange(len(strata)) - np.repeat(starts, np.diff(np.r_[starts, len(strata)]))
    return rank


def _terciles(values: np.ndarray) -> np.ndarray:
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return ranks * 3 // max(len(values), 1)
