"""Who is attacked and who trains: even folds, no user tested by an attacker that saw them, no later fold before its
time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oblivec.attacks.sampling import (
    FOLDS,
    FORWARD_REPEATS,
    MANY_USERS,
    REPEATS,
    Sample,
    _rank_within_class,
    _terciles,
    assign_folds,
    draw,
)

LABELS = st.lists(st.integers(0, 4), min_size=1, max_size=200).map(np.array)


@settings(deadline=None)
@given(LABELS, st.integers(2, 7), st.integers(0, 100))
def test_folds_share_out_every_class_and_all_users_evenly(labels: np.ndarray, folds: int, seed: int) -> None:
    fold = assign_folds(labels, folds, np.random.default_rng(seed))
    assert set(fold) <= set(range(folds))
    assert np.ptp(np.bincount(fold, minlength=folds)) <= 1
    for code in np.unique(labels):
        assert np.ptp(np.bincount(fold[labels == code], minlength=folds)) <= 1


def test_folds_are_random_and_repeatable() -> None:
    labels = np.arange(100) % 2
    one, same, other = (assign_folds(labels, 5, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert np.array_equal(one, same)
    assert (one != other).mean() > 0.5


@settings(deadline=None)
@given(LABELS)
def test_ranks_count_each_class_from_zero(labels: np.ndarray) -> None:
    expected = [int((labels[:i] == label).sum()) for i, label in enumerate(labels)]
    assert _rank_within_class(labels).tolist() == expected


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=60))
def test_terciles_are_thirds_in_order(values: list[float]) -> None:
    third = _terciles(np.array(values))
    assert np.ptp(np.bincount(third, minlength=3)) <= 1
    assert all(np.max(np.array(values)[third == k]) <= np.min(np.array(values)[third == k + 1]) for k in (0, 1))


def check_trials(sample: Sample, labels: np.ndarray) -> None:
    everyone = np.arange(len(sample.rows))
    for repeat in sample.repeats:
        tests = [sample.trials[number].test for number in repeat.out_of_fold]
        np.testing.assert_array_equal(np.sort(np.concatenate(tests)), everyone)
        for number in repeat.out_of_fold:
            trial = sample.trials[number]
            assert not set(trial.train) & set(trial.test)
            np.testing.assert_array_equal(np.sort(np.r_[trial.train, trial.test]), everyone)
        seen: set[int] = set()
        for position, number in enumerate(repeat.forward):
            trial = sample.trials[number]
            assert not set(trial.train) & set(trial.test)
            earlier = set(trial.train.tolist())
            if position:  # grows by exactly the fold that was tested before it
                assert earlier == seen
            seen = earlier | set(trial.test.tolist())
            assert all((labels[trial.test] == c).any() and (labels[trial.train] == c).any() for c in np.unique(labels))
        assert not repeat.forward or seen == set(everyone.tolist())
        assert len(repeat.forward) in (0, FOLDS - 1)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(FOLDS, 40), min_size=2, max_size=5), st.sampled_from(["panel", "paper"]), st.integers(0, 50)
)
def test_nobody_is_tested_by_an_attacker_that_saw_them(counts: list[int], protocol, seed: int) -> None:
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    rows = 3 * np.arange(len(labels))
    sample = draw(labels, rows, protocol, seed)
    assert set(sample.rows) <= set(rows)
    check_trials(sample, labels[sample.rows // 3])


def test_a_forward_trial_never_learns_from_a_fold_that_is_still_to_be_tested() -> None:
    labels = np.arange(60) % 3
    sample = draw(labels, np.arange(60), "panel", 0)
    for repeat in sample.repeats[:FORWARD_REPEATS]:
        tested_at = np.full(60, -1)  # the first fold is never tested
        for position, number in enumerate(repeat.forward):
            tested_at[sample.trials[number].test] = position
        for position, number in enumerate(repeat.forward):
            assert (tested_at[sample.trials[number].train] < position).all()


def test_the_panel_uses_everyone_more_than_once() -> None:
    labels = np.repeat([0, 1], [50, 7])
    sample = draw(labels, np.arange(57) + 3, "panel", 1)
    np.testing.assert_array_equal(sample.rows, np.arange(57) + 3)
    assert len(sample.repeats) == REPEATS
    assert [bool(repeat.forward) for repeat in sample.repeats] == [True] * FORWARD_REPEATS + [False] * (
        REPEATS - FORWARD_REPEATS
    )
    assert sample.up_to(1) == sample.trials[: sample.repeats[0].end]
    assert sample.up_to(99) == sample.trials
    divisions = {tuple(sample.trials[repeat.out_of_fold[0]].test.tolist()) for repeat in sample.repeats}
    assert len(divisions) == REPEATS


def test_the_paper_undersamples_once_to_the_smallest_class() -> None:
    labels = np.repeat([0, 1, 2], [50, 7, 20])
    sample = draw(labels, np.arange(77), "paper", 1)
    assert np.bincount(labels[sample.rows]).tolist() == [7, 7, 7]
    assert len(sample.repeats) == 1
    assert np.array_equal(sample.rows, draw(labels, np.arange(77), "paper", 1).rows)
    assert not np.array_equal(sample.rows, draw(labels, np.arange(77), "paper", 2).rows)


def test_values_are_never_undersampled() -> None:
    values = np.random.default_rng(0).standard_normal(40)
    assert len(draw(values, np.arange(40), "paper", 0).rows) == 40


@pytest.mark.parametrize("protocol", ["panel", "paper"])
def test_a_limit_keeps_the_shares_and_every_class(protocol) -> None:
    """Drawing 500 of 50,005 at random would leave a class of five with none, and a fold without it."""
    labels = np.repeat([0, 1, 2], [40_000, 10_000, 5])
    sample = draw(labels, np.arange(len(labels)), protocol, 0, limit=500)
    counts = np.bincount(labels[sample.rows], minlength=3)
    assert len(np.unique(sample.rows)) == len(sample.rows) <= 500
    if protocol == "panel":
        assert counts[2] == 5
        assert abs(counts[0] - 396) <= 8
        assert counts.sum() == 500
    else:
        assert counts.tolist() == [5, 5, 5]
    check_trials(sample, labels[sample.rows])


def test_many_users_are_divided_once() -> None:
    labels = np.arange(MANY_USERS + 1) % 2
    assert len(draw(labels, np.arange(len(labels)), "panel", 0).repeats) == 1
