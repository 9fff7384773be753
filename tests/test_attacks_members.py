"""The members one by one: the paper's attacker against scikit-learn, the tensor programs against what they stand for,
and scaling that neither misses a small direction nor invents one."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attack_problems import CPU, attacker, balanced_accuracy, class_problem, predictions
from oblivec.attacks.base import Problem
from oblivec.attacks.nearest import _count_dense, nearest_votes
from oblivec.attacks.neighbours import SCALES
from oblivec.attacks.paper import _balanced_draw
from oblivec.attacks.scaling import standardise, whiten
from oblivec.randomness import derive_seed, numpy_rng

# paper ----------------------------------------------------------------------------------------------------------------


def test_the_papers_attacker_is_scikit_learns_with_the_printed_settings() -> None:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    problem = class_problem(n=300, d=8, gap=0.5)  # balanced: 100 of each class, 80 in every training part
    trial = problem.trials[0]
    found = attacker("paper").attack(replace(problem, trials=(trial,)), CPU)[0]

    seed = derive_seed(problem.seed, "paper", len(trial.train))
    rows = _balanced_draw(problem.labels, trial.train, numpy_rng(seed))
    assert sorted(rows) == sorted(trial.train)  # nothing was left out
    assert problem.vectors[rows].shape[0] == len(trial.train)
    model = MLPClassifier((100,), alpha=1.0, learning_rate_init=1e-2, max_iter=500, random_state=seed % 2**31)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(problem.vectors[rows], problem.labels[rows])
    np.testing.assert_array_equal(found.argmax(1), model.predict(problem.vectors[trial.test]))
    np.testing.assert_allclose(found, np.asarray(model.predict_proba(problem.vectors[trial.test]), float), atol=1e-6)
    assert model.get_params()["batch_size"] == "auto"  # everything else is the library's default
    assert model.solver == "adam"


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), min_size=4, max_size=60), st.integers(0, 5))
def test_the_papers_attacker_learns_from_balanced_classes(labels: list[int], seed: int) -> None:
    codes = np.array(labels)
    rows = np.arange(len(codes))[::2]
    drawn = _balanced_draw(codes, rows, np.random.default_rng(seed))
    present, counts = np.unique(codes[rows], return_counts=True)
    assert len(set(drawn)) == len(drawn)
    assert set(drawn) <= set(rows)
    np.testing.assert_array_equal(np.unique(codes[drawn], return_counts=True), (present, [counts.min()] * len(present)))


# linear ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("classes", "gap"), [(2, 0.4), (3, 0.8), (5, 1.2)])
def test_linear_agrees_with_scikit_learn_on_whitened_vectors(classes: int, gap: float) -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(3)
    problem = class_problem(n=600, d=12, classes=classes, gap=gap)
    mixed = cast(np.ndarray, problem.vectors) @ rng.standard_normal((12, 12)).astype(np.float32)
    labels = np.where((problem.labels == 0) & (rng.random(600) < 0.6), 1, problem.labels)  # imbalanced
    problem = replace(problem, vectors=mixed, labels=labels)
    scores = attacker("linear").attack(problem, CPU)
    agree = []
    for trial, part in zip(problem.trials, scores, strict=True):
        white = whiten(torch.as_tensor(mixed[trial.train]))
        train, test = (white(torch.as_tensor(mixed[rows])).numpy() for rows in (trial.train, trial.test))
        model = LogisticRegression(class_weight="balanced", C=1.0, max_iter=1000).fit(train, labels[trial.train])
        agree.append(model.predict(test) == part.argmax(1))
    assert np.concatenate(agree).mean() > 0.97


def test_linear_ridge_recovers_a_linear_value() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((300, 6)).astype(np.float32)
    labels = vectors.astype(np.float64) @ np.array([3.0, -2, 1, 0, 0, 0]) + 1980
    problem = Problem(vectors, labels, 0, class_problem(n=300, d=6).trials, 0)
    found = predictions(problem, attacker("linear").attack(problem, CPU))
    assert np.abs(found - labels).max() < 0.01 * labels.std()


# kernel and neighbours ------------------------------------------------------------------------------------------------


def ring(n: int = 400, seed: int = 0) -> Problem:
    """Class 1 on a circle around class 0: no direction separates them."""
    rng = np.random.default_rng(seed)
    base = class_problem(n=n, d=2, classes=2)
    angle = rng.random(n) * 2 * np.pi
    radius = np.where(base.labels == 1, 3.0, 0.5) + 0.2 * rng.standard_normal(n)
    return replace(base, vectors=np.c_[np.cos(angle) * radius, np.sin(angle) * radius].astype(np.float32))


@pytest.mark.parametrize("name", ["kernel", "neighbours", "pairs", "mlp", "forest", "boosting"])
def test_a_ring_around_a_disc_is_seen(name: str) -> None:
    problem = ring()
    assert balanced_accuracy(problem, attacker(name).attack(problem, CPU)) > 0.85


def test_linear_cannot_see_the_ring() -> None:
    problem = ring()
    assert abs(balanced_accuracy(problem, attacker("linear").attack(problem, CPU)) - 0.5) < 0.15


def test_neighbours_are_the_nearest_by_euclid() -> None:
    """The votes are those of a plain search."""
    problem = class_problem(n=150, d=3)
    trial = problem.trials[0]
    found = attacker("neighbours").attack(replace(problem, trials=(trial,)), CPU)[0]
    vectors = cast(np.ndarray, problem.vectors).astype(np.float64)
    scaled = (vectors - vectors[trial.train].mean(0)) / vectors[trial.train].std(0)
    distance = ((scaled[trial.test][:, None] - scaled[trial.train][None]) ** 2).sum(2)
    order = problem.labels[trial.train][np.argsort(distance, axis=1)]
    sizes = sorted({min(k, len(trial.train)) for k in SCALES})
    weights = np.array(sizes) ** 0.75 / (np.array(sizes) ** 0.75).sum()
    expected = sum(
        w * np.stack([(order[:, :k] == c).mean(1) for c in range(3)], axis=1)
        for w, k in zip(weights, sizes, strict=True)
    )
    np.testing.assert_allclose(found, expected, atol=1e-4)  # classes are balanced: every weight is 1


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 700), st.integers(1, 40), st.sampled_from([1, 3, 1000]), st.integers(0, 100))
def test_votes_are_exact_with_ties_and_without(n: int, most: int, values: int, seed: int) -> None:
    """Both ways to count agree with a plain sort, whoever is as far as the k-th nearest included."""
    rng = np.random.default_rng(seed)
    query, train = (rng.integers(0, values, (size, 2)).astype(np.float32) for size in (7, n))
    ballots = rng.random((n, 3)).astype(np.float32)
    scales, weights = sorted({min(k, n) for k in (1, most)}), [0.25, 0.75]
    closeness = 2 * query @ train.T - np.square(train).sum(1)
    expected = np.zeros((7, 3))
    for k, weight in zip(scales, weights, strict=False):
        within = closeness >= -np.sort(-closeness, axis=1)[:, k - 1 : k]
        expected += weight * (within @ ballots) / within.sum(1, keepdims=True)
    given = torch.from_numpy(ballots), scales, weights[: len(scales)]
    found = nearest_votes(torch.from_numpy(query), torch.from_numpy(train), *given)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)
    np.testing.assert_allclose(_count_dense(torch.from_numpy(closeness), *given).numpy(), expected, atol=1e-5)


# scaling --------------------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(3, 40), st.integers(1, 8), st.integers(0, 100), st.floats(-6, 6), st.floats(0, 3))
def test_whitening_makes_every_direction_unit(n: int, d: int, seed: int, size: float, offset: float) -> None:
    rng = np.random.default_rng(seed)
    x = torch.as_tensor((rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) + offset) * 10.0**size)
    z = whiten(x)(x).double()
    assert z.shape[1] <= min(n - 1, d)
    moment = z.T @ z / n
    np.testing.assert_allclose(moment.numpy(), np.eye(z.shape[1]), atol=1e-3)
    np.testing.assert_allclose(z.mean(0).numpy(), 0, atol=1e-3)


def test_standardise_leaves_constant_columns_at_zero() -> None:
    x = torch.tensor([[0.1, 1.0, 0.0], [0.1, 2.0, 0.0], [0.1, 4.0, 0.0]])
    z = standardise(x)(x)
    assert (z[:, [0, 2]] == 0).all()
    assert float(z[:, 1].std(correction=0)) == pytest.approx(1)


def test_whitening_drops_what_is_not_there() -> None:
    x = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    copies = torch.cat([x, x, x @ torch.ones(3, 1), torch.zeros(50, 1), torch.full((50, 1), 0.3)], dim=1)
    assert whiten(copies).matrix.shape[1] == 3
    assert whiten(x, most=2).matrix.shape[1] == 2
    assert whiten(torch.ones(50, 3)).matrix.shape[1] <= 3


@pytest.mark.parametrize("shrunk", [1e-2, 1e-3, 1e-4, 1e-5])
def test_shrinking_a_direction_does_not_hide_it_from_the_linear_attacker(shrunk: float) -> None:
    """A direction that was made small, and not removed, is as readable as before; float32 keeps five digits of it."""
    problem = class_problem(n=400, d=6, classes=2, gap=2.0)
    rng = np.random.default_rng(1)
    turn = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    vectors = cast(np.ndarray, problem.vectors).astype(np.float64)
    vectors[:, :2] *= shrunk  # where the classes differ
    shown = replace(problem, vectors=(vectors @ turn).astype(np.float32))
    before = balanced_accuracy(problem, attacker("linear").attack(problem, CPU))
    after = balanced_accuracy(shown, attacker("linear").attack(shown, CPU))
    assert before > 0.75
    assert after > before - 0.05


@pytest.mark.parametrize("name", ["linear", "neighbours", "kernel", "mlp", "pairs", "forest", "boosting"])
def test_a_tiny_column_is_as_readable_as_any_other(name: str) -> None:
    problem = class_problem(n=200, d=4, classes=2, gap=2.0)
    vectors = cast(np.ndarray, problem.vectors) * np.array([1e-10, 1e-10, 1, 1e3], dtype="f4")
    shown = replace(problem, vectors=vectors)
    before, after = (balanced_accuracy(p, attacker(name).attack(p, CPU)) for p in (problem, shown))
    assert after > before - 0.05
