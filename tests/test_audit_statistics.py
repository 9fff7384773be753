"""The null: permutation moments against brute force, levels by simulation, Holm against its definition."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from attack_problems import CPU, REGISTRY, class_problem
from oblivec.attacks.base import Problem
from oblivec.attacks.sampling import Sample, draw
from oblivec.audit import statistics
from oblivec.audit.statistics import (
    PERMUTATIONS,
    _class_statistic,
    _covariance_statistic,
    _macro_auc,
    _r2,
    _tables,
    estimate,
    holm,
    null_test,
    smallest_leak,
)
from oblivec.randomness import torch_rng

LABELS = st.lists(st.integers(0, 2), min_size=2, max_size=6).map(np.array)


def orders(values: np.ndarray) -> np.ndarray:
    """All permutations of the values, one a row."""
    return np.array(list(permutations(values)))


# permutation moments --------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(LABELS, st.integers(0, 10_000))
def test_the_moments_of_a_class_statistic_are_those_of_all_permutations(labels: np.ndarray, seed: int) -> None:
    table = np.random.default_rng(seed).standard_normal((2, len(labels), 3))
    observed, mean, variance = _class_statistic(torch.as_tensor(table), labels, 3, None)
    users = np.arange(len(labels))
    every = np.stack([table[:, users, order].sum(1) for order in orders(labels)], axis=1)
    np.testing.assert_allclose(observed[:, 0].numpy(), table[:, users, labels].sum(1))
    np.testing.assert_allclose(mean.numpy(), every.mean(1), atol=1e-10)
    np.testing.assert_allclose(variance.numpy(), every.var(1), atol=1e-10)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-50, 50), min_size=2, max_size=6).map(np.array), st.integers(0, 10_000))
def test_the_moments_of_a_covariance_are_those_of_all_permutations(values: np.ndarray, seed: int) -> None:
    table = np.random.default_rng(seed).standard_normal((2, len(values)))
    table -= table.mean(1, keepdims=True)
    observed, mean, variance = _covariance_statistic(torch.as_tensor(table), values, None)
    every = orders(values - values.mean()) @ table.T
    np.testing.assert_allclose(observed[:, 0].numpy(), table @ values, atol=1e-8)
    np.testing.assert_allclose(mean.numpy(), every.mean(0), atol=1e-8)
    np.testing.assert_allclose(variance.numpy(), every.var(0), atol=1e-6)


def test_drawn_permutations_have_the_moments() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 200)
    table = torch.as_tensor(rng.standard_normal((3, 200, 4)), dtype=torch.float32)
    draws, mean, variance = _class_statistic(table, labels, 4, torch_rng(0, "test"))
    assert draws.shape == (3, PERMUTATIONS)
    z = ((draws.double() - mean[:, None]) / variance.sqrt()[:, None]).numpy()
    # Standard errors over 2,000 draws: 1/sqrt(2000) = 0.022 of the mean, sqrt(2/2000) = 0.032 of the variance.
    assert np.abs(z.mean(1)).max() < 4 * 0.022
    assert np.abs(z.var(1) - 1).max() < 4 * 0.032
    again, *_ = _class_statistic(table, labels, 4, torch_rng(0, "test"))
    assert torch.equal(draws, again)


@settings(deadline=None)
@given(LABELS, st.integers(0, 1000))
def test_the_tables_are_balanced_accuracy_and_auc(labels: np.ndarray, seed: int) -> None:
    scores = np.random.default_rng(seed).standard_normal((len(labels), 3))
    hits, ranks = (table[np.arange(len(labels)), labels].sum() for table in _tables(labels, scores, 3, 1.0))
    recalls = [np.mean(scores[labels == c].argmax(1) == c) for c in np.unique(labels)]
    assert hits == pytest.approx(np.sum(recalls), abs=1e-5)
    means = [np.mean([(scores[:, c] <= own).mean() for own in scores[labels == c, c]]) for c in np.unique(labels)]
    assert ranks == pytest.approx(np.sum(means), abs=1e-5)


# estimates ------------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.integers(0, 2), min_size=6, max_size=40), st.integers(0, 1000))
def test_the_macro_auc_is_scikit_learns(labels: list[int], seed: int) -> None:
    from sklearn.metrics import roc_auc_score

    codes = np.array([0, 1, 2, *labels])
    scores = np.random.default_rng(seed).integers(0, 4, (len(codes), 3)).astype(float)  # with ties
    expected = np.mean([roc_auc_score(codes == c, scores[:, c]) for c in range(3)])
    assert _macro_auc(codes, scores) == pytest.approx(float(expected))


def test_r2_is_scikit_learns() -> None:
    from sklearn.metrics import r2_score

    rng = np.random.default_rng(0)
    labels = rng.standard_normal(100)
    predicted = labels + rng.standard_normal(100)
    assert _r2(labels, predicted).score == pytest.approx(float(r2_score(labels, predicted)))
    assert _r2(labels, np.full(100, labels.mean())).score == pytest.approx(0)


def oracle_scores(problem: Problem, sample: Sample, right: float, seed: int) -> list[np.ndarray]:
    """An attacker that knows each label with probability `right` and else guesses, independently each time."""
    rng = np.random.default_rng(seed)
    scores = []
    for trial in sample.trials:
        guess = rng.integers(0, problem.n_classes, len(trial.test))
        knows = rng.random(len(trial.test)) < right
        scores.append(np.eye(problem.n_classes)[np.where(knows, problem.labels[trial.test], guess)])
    return scores


def test_the_estimate_is_balanced_accuracy_with_an_honest_interval() -> None:
    labels = np.repeat([0, 1, 2], [500, 100, 40])
    sample = draw(labels, np.arange(640), "paper", 0)
    problem = Problem(np.zeros((120, 1)), labels[sample.rows], 3, sample.trials, 0)
    found = np.array([
        estimate(problem, sample, oracle_scores(problem, sample, 0.4, seed), 1 / statistics.SINGLE_REPEAT).score
        for seed in range(200)
    ])
    one = estimate(problem, sample, oracle_scores(problem, sample, 0.4, 0), 1 / statistics.SINGLE_REPEAT)
    # Each recall is binomial(40, 0.4 + 0.6/3 = 0.6): the mean of three has deviation sqrt(0.24/120) = 0.0447.
    assert found.mean() == pytest.approx(0.6, abs=4 * 0.0447 / np.sqrt(200))
    assert one.standard_error == pytest.approx(0.0447, rel=0.1)
    assert found.std() == pytest.approx(0.0447, rel=0.25)
    assert one.micro_f1 == pytest.approx(one.score)  # classes are balanced
    assert one.confusion is not None
    assert one.confusion.sum() == 120
    assert one.confusion.sum(1).tolist() == [40, 40, 40]


# the null test --------------------------------------------------------------------------------------------------------


def noise_test(seed: int, n: int = 300, names: tuple[str, ...] = ("linear", "neighbours")) -> statistics.NullTest:
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat([0, 1], [n // 3, n - n // 3]))
    sample = draw(labels, np.arange(n), "panel", seed)
    problem = Problem(rng.standard_normal((n, 8)).astype(np.float32), labels, 2, sample.up_to(2), seed)
    scores = {name: REGISTRY[name]().attack(problem, CPU) for name in names}
    return null_test(problem, sample, scores, seed=seed)


def test_p_values_of_noise_hold_their_level() -> None:
    """Sixty audits of noise with two attackers. Under the null the p-value is uniform or above it."""
    tests = [noise_test(seed) for seed in range(60)]
    p = np.array([test.p_value for test in tests])
    # Binomial(60, 0.05) exceeds 8 with probability 0.003, binomial(60, 0.5) exceeds 45 with 0.00002.
    assert (p < 0.05).sum() <= 8
    assert 8 <= (p < 0.5).sum() <= 45
    assert kstest(p, "uniform", alternative="greater").pvalue > 0.001  # never smaller than uniform
    z = np.concatenate([test.z["linear"] for test in tests])
    assert abs(z.mean()) < 4 / np.sqrt(60)
    assert z.var() < 1.7  # at most 1; four standard errors of 60 draws are 0.73


def test_a_leak_has_the_smallest_p_value_there_can_be() -> None:
    labels = np.arange(300) % 2
    sample = draw(labels, np.arange(300), "panel", 0)
    problem = class_problem(n=300, classes=2)
    problem = Problem(problem.vectors, labels, 2, sample.up_to(2), 0)
    found = null_test(problem, sample, {"linear": REGISTRY["linear"]().attack(problem, CPU)}, seed=0)
    assert found.p_value == pytest.approx(1 / (1 + PERMUTATIONS))
    assert found.z["linear"].min() > 5
    assert found.critical > 1.9  # of the larger of two statistics


def test_an_attacker_that_says_nothing_is_no_evidence() -> None:
    labels = np.arange(100) % 2
    sample = draw(labels, np.arange(100), "panel", 0)
    problem = Problem(np.zeros((100, 1), dtype=np.float32), labels, 2, sample.trials, 0)
    same = [np.full((len(trial.test), 2), 0.3) for trial in sample.trials]
    found = null_test(problem, sample, {"silent": same}, seed=0)
    assert found.p_value == 1
    assert (found.z["silent"] == 0).all()


def test_a_useless_attacker_does_not_hide_a_good_one_and_costs_only_the_correction() -> None:
    labels = np.arange(200) % 2
    sample = draw(labels, np.arange(200), "panel", 0)
    problem = Problem(np.zeros((200, 1), dtype=np.float32), labels, 2, sample.trials, 0)
    good = oracle_scores(problem, sample, 0.25, 1)
    rest = {f"noise {k}": oracle_scores(problem, sample, 0.0, 2 + k) for k in range(6)}
    alone = null_test(problem, sample, {"good": good}, seed=0)
    together = null_test(problem, sample, {"good": good, **rest}, seed=0)
    assert alone.p_value <= together.p_value <= min(1.0, 7 * alone.p_value + 0.01)
    assert together.p_values["good"] == pytest.approx(alone.p_values["good"], abs=0.01)
    assert together.critical > alone.critical


def test_values_are_judged_one_sided() -> None:
    rng = np.random.default_rng(0)
    labels = rng.standard_normal(200)
    sample = draw(labels, np.arange(200), "panel", 0)
    problem = Problem(np.zeros((200, 1), dtype=np.float32), labels, 0, sample.trials, 0)
    for sign, small in ((1, True), (-1, False)):
        scores = [sign * labels[trial.test][:, None] + rng.standard_normal((len(trial.test), 1))
                  for trial in sample.trials]
        assert (null_test(problem, sample, {"a": scores}, seed=0).p_value < 0.01) == small


# Holm and power -------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_the_closure_of_bonferroni(p_values: list[float]) -> None:
    """Adjusted p of i: the largest Bonferroni p (size x smallest member) of any set of hypotheses that contains i."""
    m = len(p_values)
    subsets = [[j for j in range(m) if mask >> j & 1] for mask in range(1, 2**m)]
    expected = [
        max(min(1.0, len(subset) * min(p_values[j] for j in subset)) for subset in subsets if i in subset)
        for i in range(m)
    ]
    np.testing.assert_allclose(holm(p_values), expected)


def test_the_smallest_leak_is_found_four_times_out_of_five() -> None:
    rng = np.random.default_rng(0)
    leak = smallest_leak(0.01, 2.5)
    z = (leak + 0.01 * rng.standard_normal(20_000)) / 0.01
    assert (z > 2.5).mean() == pytest.approx(0.8, abs=0.012)
