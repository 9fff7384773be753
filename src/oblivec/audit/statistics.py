"""Estimates from out-of-fold scores, p-values from forward scores.

A *statistic* here is linear in the labels: sum_i A[i, y_i] for a table A that an attacker's scores determine. Balanced
accuracy is one (A[i, c] = 1 / (C n_c) where c is predicted for i), the macro one-against-rest AUC is another (A[i, c]
is the rank of i by its score for c). In a forward trial the scores do not depend on the labels of the test fold, so
under the null hypothesis (labels independent of vectors) those labels are exchangeable within the fold, and the mean,
the variance and, by permuting them, the joint distribution of all statistics of all attackers are known without
refitting anything. See `attacks/sampling.py` for why out-of-fold scores do not allow this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import norm, rankdata

from oblivec.attacks.base import Problem, Scores
from oblivec.attacks.sampling import Repeat, Sample
from oblivec.randomness import torch_rng

PERMUTATIONS = 2000
LEVEL = 0.05
SINGLE_REPEAT = 1.25
"""How much more an estimate from one division into folds varies than one averaged over several."""


@dataclass(frozen=True)
class Estimate:
    """Out-of-fold performance of one attacker, averaged over repeats."""

    score: float
    standard_error: float
    micro_f1: float | None = None
    auc: float | None = None
    confusion: np.ndarray | None = None


@dataclass(frozen=True)
class NullTest:
    """Forward z-scores of every attacker, and the p-values that go with them."""

    z: dict[str, np.ndarray]
    """Per attacker: z of balanced accuracy and of the AUC; one z of the covariance for a continuous attribute."""
    p_values: dict[str, float]
    p_value: float
    """Of the attribute: corrected for taking the worst of all attackers and statistics."""
    critical: float
    """The largest |z| (z when continuous) that 95 % of permutations stay below."""


# Estimates ------------------------------------------------------------------------------------------------------------


def estimate(problem: Problem, sample: Sample, scores: Scores, fold_dependence: float) -> Estimate:
    """Averaged over the divisions `scores` has; `fold_dependence` is the attacker's (see `attacks.base.Attacker`)."""
    each = [_estimate_once(problem, sample, repeat, scores) for repeat in sample.repeats if repeat.end <= len(scores)]
    inflation = fold_dependence if len(each) > 1 else fold_dependence * SINGLE_REPEAT
    error = float(np.mean([one.standard_error for one in each]) * np.sqrt(inflation))
    score = float(np.mean([one.score for one in each]))
    if problem.continuous:
        return Estimate(score, error)
    micro_f1, auc = (float(np.mean([getattr(one, name) for one in each])) for name in ("micro_f1", "auc"))
    return Estimate(score, error, micro_f1, auc, each[0].confusion)


def _estimate_once(problem: Problem, sample: Sample, repeat: Repeat, scores: Scores) -> Estimate:
    labels = problem.labels
    if problem.continuous:
        predicted = np.empty(len(labels))
        for number in repeat.out_of_fold:
            predicted[sample.trials[number].test] = scores[number][:, 0]
        return _r2(labels, predicted)
    counts = np.bincount(labels, minlength=problem.n_classes)
    confusion = np.zeros((problem.n_classes, problem.n_classes), dtype=np.int64)
    aucs = []
    for number in repeat.out_of_fold:
        test = sample.trials[number].test
        np.add.at(confusion, (labels[test], scores[number].argmax(1)), 1)
        aucs.append(_macro_auc(labels[test], scores[number]))
    hits = confusion.diagonal()
    recall, smoothed = hits / counts, (hits + 1) / (counts + 2)
    error = np.sqrt((smoothed * (1 - smoothed) / counts).sum()) / problem.n_classes
    return Estimate(
        float(recall.mean()), float(error), float(hits.sum() / counts.sum()), float(np.nanmean(aucs)), confusion
    )


def _r2(labels: np.ndarray, predicted: np.ndarray) -> Estimate:
    """R2 against the mean of all users, with the delta-method standard error of a ratio of means."""
    total, residual = np.square(labels - labels.mean()), np.square(labels - predicted)
    r2 = 1 - residual.sum() / max(total.sum(), 1e-300)
    influence = (residual - (1 - r2) * total) / max(total.mean(), 1e-300)
    return Estimate(float(r2), float(influence.std() / np.sqrt(len(labels))))


def _macro_auc(labels: np.ndarray, scores: np.ndarray) -> float:
    ranks = rankdata(scores, axis=0)
    counts = np.bincount(labels, minlength=scores.shape[1])
    sums = np.array([ranks[labels == c, c].sum() for c in range(scores.shape[1])])
    with np.errstate(invalid="ignore", divide="ignore"):
        auc = (sums - counts * (counts + 1) / 2) / (counts * (len(labels) - counts))
    return float(np.nanmean(auc)) if np.isfinite(auc).any() else float("nan")


# The null -------------------------------------------------------------------------------------------------------------


def null_test(
    problem: Problem, sample: Sample, scores: Mapping[str, Scores], *, seed: int, device: torch.device | str = "cpu"
) -> NullTest:
    """Two-sided for classes, one-sided for a continuous attribute.

    z-scores are averaged over repeats and compared with the permutation distribution of a single repeat: repeats share
    their users, so that averaging them can only make the statistic steadier than what it is compared with.
    """
    averaged: np.ndarray = np.mean(
        [_forward_z(problem, sample, repeat, scores, None)[:, 0] for repeat in sample.repeats if repeat.forward],
        axis=0,
    )
    rng = torch_rng(seed, "permutations", device=device)
    permuted = _forward_z(problem, sample, sample.repeats[0], scores, rng)
    if problem.continuous:
        extreme, extreme_permuted, per_attacker = averaged, permuted, 1
    else:
        extreme, extreme_permuted, per_attacker = np.abs(averaged), np.abs(permuted), 2
    largest = extreme_permuted.max(0)
    names = list(scores)
    z = {name: averaged[i * per_attacker : (i + 1) * per_attacker] for i, name in enumerate(names)}
    p_values = {}
    for i, name in enumerate(names):
        own = slice(i * per_attacker, (i + 1) * per_attacker)
        p_values[name] = _p_value(extreme[own].max(), extreme_permuted[own].max(0))
    return NullTest(z, p_values, _p_value(extreme.max(), largest), float(np.quantile(largest, 1 - LEVEL)))


def _p_value(observed: float, null: np.ndarray) -> float:
    return float((1 + (null >= observed - 1e-9).sum()) / (1 + len(null)))


def _forward_z(
    problem: Problem, sample: Sample, repeat: Repeat, scores: Mapping[str, Scores], rng: torch.Generator | None
) -> np.ndarray:
    """z-scores (statistics x draws): of the labels as they are (one draw), or of permutations of them."""
    device = rng.device if rng is not None else torch.device("cpu")
    sums: list[Sums] = []
    for number in repeat.forward:
        trial = sample.trials[number]
        # Later folds are predicted by attackers that have learnt from more users and deserve more weight.
        weight = np.sqrt(len(trial.train))
        labels = problem.labels[trial.test]
        if problem.continuous:
            table = np.stack([weight * _centred(part[number][:, 0]) for part in scores.values()])
            found = _covariance_statistic(torch.as_tensor(table, device=device), labels, rng)
        else:
            tables = [t for part in scores.values() for t in _tables(labels, part[number], problem.n_classes, weight)]
            found = _class_statistic(torch.as_tensor(np.stack(tables), device=device), labels, problem.n_classes, rng)
        sums.append(found)
    total, mean, variance = (torch.stack(part).sum(0) for part in zip(*sums, strict=True))
    spread = variance.clamp(min=0).sqrt()[:, None]
    z = torch.where(spread > 1e-12, (total - mean[:, None]) / spread.clamp(min=1e-12), 0.0)
    return z.cpu().numpy()


def _tables(labels: np.ndarray, scores: np.ndarray, n_classes: int, weight: float) -> list[np.ndarray]:
    """The tables A (users x classes) of balanced accuracy and of the macro AUC for one test fold."""
    counts = np.bincount(labels, minlength=n_classes)
    share = np.where(counts > 0, weight / np.maximum(counts, 1), 0.0).astype(np.float32)
    hit = np.zeros(scores.shape, dtype=np.float32)
    hit[np.arange(len(scores)), scores.argmax(1)] = 1
    ranks = rankdata(scores, axis=0).astype(np.float32) / len(scores)
    return [hit * share, ranks * share]


Sums = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Observed or permuted sums (statistics x draws), their mean and their variance under permutation."""


def _class_statistic(table: torch.Tensor, labels: np.ndarray, n_classes: int, rng: torch.Generator | None) -> Sums:
    """sum_i A[i, y_i] for every table, with its exact permutation moments (Hoeffding 1951)."""
    codes = torch.as_tensor(labels, device=table.device)
    n = len(codes)
    counts = torch.bincount(codes, minlength=n_classes).double()
    exact = table.double()
    by_class, by_user = exact.mean(1), exact @ (counts / n)
    mean = by_class @ counts
    centred = exact - by_class[:, None, :] - by_user[:, :, None] + (mean / n)[:, None, None]
    variance = (centred.square().sum(1) @ counts) / max(n - 1, 1)
    users = torch.arange(n, device=table.device)[:, None]
    return _draws(lambda y: table[:, users, y].sum(1), codes, rng), mean, variance


def _covariance_statistic(table: torch.Tensor, labels: np.ndarray, rng: torch.Generator | None) -> Sums:
    """sum_i f_i y_i of centred predictions and labels; its permutation mean is 0."""
    values = torch.as_tensor(_centred(labels), device=table.device)
    variance = table.square().sum(1) * values.square().sum() / max(len(values) - 1, 1)
    return _draws(lambda y: table @ y, values, rng), torch.zeros_like(variance), variance


def _draws(statistic, labels: torch.Tensor, rng: torch.Generator | None) -> torch.Tensor:
    """The statistic of the labels, or of permutations of them, in chunks of bounded memory."""
    if rng is None:
        return statistic(labels[:, None])
    n = len(labels)
    chunk = max(1, min(PERMUTATIONS, 2_000_000 // n))
    parts = []
    for start in range(0, PERMUTATIONS, chunk):
        draws = min(chunk, PERMUTATIONS - start)
        order = torch.rand(n, draws, generator=rng, device=labels.device).argsort(0)
        parts.append(statistic(labels[order]))
    return torch.cat(parts, dim=1)


def _centred(values: np.ndarray) -> np.ndarray:
    return values - values.mean()


# Corrections and power -----------------------------------------------------------------------------------------------


def holm(p_values: list[float]) -> list[float]:
    """Holm's step-down correction: controls the chance of any false alarm under any dependence."""
    order = np.argsort(p_values, kind="stable")
    adjusted = np.empty(len(p_values))
    running = 0.0
    for rank, i in enumerate(order):
        running = max(running, min(1.0, p_values[i] * (len(p_values) - rank)))
        adjusted[i] = running
    return [float(p) for p in adjusted]


def smallest_leak(standard_error: float, critical: float, power: float = 0.8) -> float:
    """The distance from chance that is found with probability `power`."""
    return float((critical + norm.ppf(power)) * standard_error)
