"""What every attacker must do, registered tomorrow or today: shapes, determinism, hard inputs, and nothing from the
test rows but their own vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from attack_problems import (
    CONTINUOUS,
    CPU,
    INSTALLED,
    VECTORS,
    attacker,
    balanced_accuracy,
    class_problem,
    problem_for,
    r2,
    value_problem,
)
from oblivec.attacks.base import REGISTRY, Problem, Scores, Trial, balanced_weights
from oblivec.attacks.panel import LISTS, PANEL, check_attackers, members
from oblivec.errors import BadInput

HARD: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "constant matrix": lambda x: np.ones_like(x),
    "zero matrix": lambda x: np.zeros_like(x),
    "constant column": lambda x: np.c_[x[:, :-1], np.full(len(x), 0.1, dtype=x.dtype)],
    "duplicate columns": lambda x: np.c_[x, x],
    "collinear columns": lambda x: np.c_[x, x @ np.ones((x.shape[1], 1), dtype=x.dtype)],
    "one dimension": lambda x: x[:, :1],
    "more dimensions than users": lambda x: np.tile(x, 40) + np.linspace(0, 1, 40 * x.shape[1], dtype=x.dtype),
    "rows of zeros": lambda x: x * (np.arange(len(x)) % 2 == 0)[:, None].astype(x.dtype),
    "duplicate rows": lambda x: x[np.arange(len(x)) // 10 * 10],
    "huge": lambda x: x * np.float32(1e6),
    "small": lambda x: x * np.float32(1e-6),
    "columns of very different size": lambda x: x * np.float32(10.0) ** np.linspace(-12, 6, x.shape[1]).astype("f4"),
    "one outlier": lambda x: np.r_[x[:-1], x[-1:] * np.float32(1e6)],
    "far from the origin": lambda x: x + np.float32(1e4),
}


def hardened(problem: Problem, hard: str) -> np.ndarray:
    return np.ascontiguousarray(HARD[hard](cast(np.ndarray, problem.vectors)))


def check(problem: Problem, scores: Scores) -> None:
    assert len(scores) == len(problem.trials)
    for trial, part in zip(problem.trials, scores, strict=True):
        assert part.shape == (len(trial.test), problem.outputs)
        assert np.isfinite(part).all()


@pytest.mark.parametrize("name", INSTALLED)
def test_scores_have_their_shape_and_tell_the_classes_apart(name: str) -> None:
    problem = problem_for(name)
    scores = attacker(name).attack(problem, CPU)
    check(problem, scores)
    # Chance is 1/3 with a standard error of sqrt(2/9/120) = 0.043: five of them above.
    assert balanced_accuracy(problem, scores) > 1 / 3 + 5 * 0.043


@pytest.mark.parametrize("name", CONTINUOUS)
def test_values_are_predicted_in_their_own_unit(name: str) -> None:
    problem = value_problem()
    scores = attacker(name).attack(problem, CPU)
    check(problem, scores)
    # At most 2 / 2.09 = 0.96 can be explained; a predictor in another unit or off by its mean is negative.
    assert 0.15 < r2(problem, scores) < 0.97


@pytest.mark.parametrize("name", CONTINUOUS)
def test_a_year_is_as_easy_as_an_age(name: str) -> None:
    """The unit and the origin of a value change nothing but the unit and the origin of its prediction."""
    problem = value_problem(n=60)
    problem = replace(problem, trials=problem.trials[:1])
    years = replace(problem, labels=2e6 + 12 * problem.labels)
    plain, shifted = (attacker(name).attack(p, CPU)[0] for p in (problem, years))
    np.testing.assert_allclose((shifted - 2e6) / 12, plain, rtol=0, atol=0.02 * problem.labels.std())


@pytest.mark.parametrize("name", INSTALLED)
def test_the_seed_decides_everything(name: str) -> None:
    problem = problem_for(name, n=60)
    first, again = (attacker(name).attack(problem, CPU) for _ in range(2))
    assert all(np.array_equal(one, two) for one, two in zip(first, again, strict=True))


@pytest.mark.parametrize("name", CONTINUOUS)
def test_the_seed_decides_everything_for_values_too(name: str) -> None:
    problem = value_problem(n=60)
    first, again = (attacker(name).attack(problem, CPU) for _ in range(2))
    assert all(np.array_equal(one, two) for one, two in zip(first, again, strict=True))


@pytest.mark.parametrize("name", INSTALLED)
def test_classes_absent_from_the_training_rows_are_never_predicted(name: str) -> None:
    problem = problem_for(name)
    trials = tuple(Trial(t.train[problem.labels[t.train] != 1], t.test) for t in problem.trials[:2])
    problem = replace(problem, trials=trials)
    scores = attacker(name).attack(problem, CPU)
    check(problem, scores)
    for part in scores:
        assert np.mean(part.argmax(1) == 1) < 0.05


@pytest.mark.parametrize("name", INSTALLED)
def test_one_class_among_the_training_rows_is_predicted_throughout(name: str) -> None:
    problem = problem_for(name)
    trial = problem.trials[0]
    only = Trial(trial.train[problem.labels[trial.train] == 2], trial.test)
    scores = attacker(name).attack(replace(problem, trials=(only,)), CPU)
    assert (scores[0].argmax(1) == 2).mean() > 0.9


@pytest.mark.parametrize("hard", HARD)
@pytest.mark.parametrize("name", VECTORS)
def test_hard_matrices_give_finite_scores_without_a_warning(name: str, hard: str) -> None:
    problem = class_problem(n=60)
    problem = replace(problem, vectors=hardened(problem, hard), trials=problem.trials[:1])
    assert problem.vectors.dtype == np.float32
    check(problem, attacker(name).attack(problem, CPU))


@pytest.mark.parametrize("hard", HARD)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_hard_matrices_for_values(name: str, hard: str) -> None:
    problem = value_problem(n=60)
    problem = replace(problem, vectors=hardened(problem, hard), trials=problem.trials[:1])
    check(problem, attacker(name).attack(problem, CPU))


@pytest.mark.parametrize("name", INSTALLED)
def test_the_fewest_users_there_can_be(name: str) -> None:
    """Ten users in two classes: the first forward trial learns from one user of each."""
    problem = problem_for(name, n=30)
    few = np.r_[np.flatnonzero(problem.labels == 0)[:5], np.flatnonzero(problem.labels == 1)[:5]]
    trials = (Trial(few[[0, 5]], few[[1, 6]]), Trial(few[[0, 1, 5, 6]], few[[2, 7]]))
    problem = replace(problem, trials=trials)
    check(problem, attacker(name).attack(problem, CPU))


@pytest.mark.parametrize("name", CONTINUOUS)
def test_the_fewest_values_there_can_be(name: str) -> None:
    problem = replace(value_problem(n=10), trials=(Trial(np.array([0, 1]), np.array([2, 3])),))
    check(problem, attacker(name).attack(problem, CPU))


@pytest.mark.parametrize("name", CONTINUOUS)
def test_training_values_that_are_all_equal(name: str) -> None:
    problem = value_problem(n=60)
    trial = problem.trials[0]
    labels = problem.labels.copy()
    labels[trial.train] = 7.25
    scores = attacker(name).attack(replace(problem, labels=labels, trials=(trial,)), CPU)
    np.testing.assert_allclose(scores[0], 7.25, rtol=0.2)


def disturbed(problem: Problem, others: np.ndarray) -> Problem:
    """The vectors and labels of the rows `others` changed beyond recognition."""
    rng = np.random.default_rng(9)
    labels = problem.labels.copy()
    if problem.continuous:
        labels[others] = 1e5 * rng.standard_normal(len(others))
    else:
        labels[others] = (labels[others] + 1) % problem.n_classes
    vectors = problem.vectors.copy()
    vectors[others] = 1e4 * rng.standard_normal((len(others), vectors.shape[1]))
    return replace(problem, labels=labels, vectors=vectors)


@pytest.mark.parametrize("name", [*VECTORS, *(f"{name}, values" for name in CONTINUOUS)])
def test_nothing_about_the_other_test_rows_matters(name: str) -> None:
    """Scaling, penalties and early stopping are learnt from training rows: spoil every test row but one, vectors and
    labels, and that one's scores stay what they were."""
    name, _, values = name.partition(", ")
    problem = value_problem(n=60) if values else class_problem(n=60)
    trial = problem.trials[0]
    problem = replace(problem, trials=(trial,))
    kept, others = trial.test[:1], trial.test[1:]
    changed = disturbed(problem, others)
    changed.labels[kept] = changed.labels[others[0]]
    before, after = (attacker(name).attack(p, CPU)[0][0] for p in (problem, changed))
    # One user's scores may be summed in another order when the block it stands in differs.
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", VECTORS)
def test_training_rows_do_matter(name: str) -> None:
    """The test above can fail: the same disturbance on the training side changes the scores."""
    problem = class_problem(n=60)
    trial = problem.trials[0]
    problem = replace(problem, trials=(trial,))
    before, after = (attacker(name).attack(p, CPU)[0] for p in (problem, disturbed(problem, trial.train)))
    assert np.abs(after - before).max() > 0.01


def test_lists_are_attacked_without_looking_at_the_test_rows() -> None:
    problem = problem_for("bayes")
    trial = problem.trials[0]
    problem = replace(problem, trials=(trial,))
    lists: Any = problem.vectors
    lists = lists.toarray()
    lists[trial.test[1:]] = 1
    changed = replace(problem, vectors=csr_matrix(lists), labels=problem.labels.copy())
    changed.labels[trial.test] = 0
    before, after = (attacker("bayes").attack(p, CPU)[0][0] for p in (problem, changed))
    np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("name", INSTALLED)
def test_trials_do_not_disturb_each_other(name: str) -> None:
    """A trial's scores are the same whether its neighbours in the batch exist or not."""
    problem = problem_for(name, n=60)
    batch = attacker(name).attack(replace(problem, trials=problem.trials[:2]), CPU)
    alone = attacker(name).attack(replace(problem, trials=problem.trials[:1]), CPU)
    if name == "mlp":  # its random weights are drawn for the whole batch
        assert alone[0].shape == batch[0].shape
    else:
        np.testing.assert_allclose(batch[0], alone[0], rtol=1e-5, atol=1e-6)


def test_every_registered_attacker_introduces_itself() -> None:
    for name, kind in REGISTRY.items():
        assert kind.name == name
        assert kind.says
        assert not kind.says.endswith(".")
        assert 1 <= kind.fold_dependence <= 2
        assert 1 <= kind.repeats <= 4
    assert {"xgboost", "lightgbm"} <= set(REGISTRY)
    assert not {"xgboost", "lightgbm", *LISTS} & set(PANEL)


def test_members_are_those_who_can() -> None:
    assert members(class_problem()) == list(PANEL)
    assert members(value_problem()) == [name for name in PANEL if name != "paper"]
    assert members(problem_for("bayes")) == ["bayes"]


@pytest.mark.parametrize("names", [["nobody"], ["linear", "bayes"], []])
def test_unknown_attackers_are_refused(names: list[str]) -> None:
    with pytest.raises(BadInput, match=r"use paper, linear|use .*linear"):
        check_attackers(names)


@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_a_booster_that_is_not_installed_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oblivec.attacks.panel.find_spec", lambda library: None)
    check_attackers(PANEL)
    with pytest.raises(BadInput, match=rf"{name} is not installed; pip install oblivec\[boosters\]"):
        check_attackers([name])


def test_balanced_weights_give_every_class_present_the_same_weight() -> None:
    labels = np.array([0] * 6 + [2] * 3 + [3])
    weights = balanced_weights(labels, 5)
    assert weights.mean() == pytest.approx(1)
    sums = np.bincount(labels, weights, minlength=5)
    np.testing.assert_allclose(sums, [10 / 3, 0, 10 / 3, 10 / 3, 0])
