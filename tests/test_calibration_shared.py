"""Users who share a row stay together: parted by group, their places would spell out their labels."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesClassifier

from calibrator_contract import balanced_accuracy, coins, noise, target_of
from oblivec.calibration.base import calibrator
from oblivec.calibration.removal import RemovalConfig, remove
from oblivec.calibration.shared import FEW, MANY, same_rows, shared_rows, without
from oblivec.datasets.attributes import categorical


@given(st.lists(st.integers(1, 2 * MANY), min_size=1, max_size=6), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_only_rows_of_many_are_shared(counts: list[int], seed: int) -> None:
    rows = noise(len(counts), 3, seed).repeat_interleave(torch.tensor(counts), dim=0)
    expected = torch.tensor([count >= MANY for count in counts for _ in range(count)])
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    assert torch.equal(shared_rows(rows[order]), expected[order])


def test_rows_are_found_again() -> None:
    U = noise(50, 3)
    assert same_rows(U, torch.cat([U[[7, 3, 7]], U[:2] + 1e-3])).tolist() == [7, 3, 7, -1, -1]
    assert same_rows(U[:0], U[:2]).tolist() == [-1, -1]


def test_where_many_rows_are_they_are_no_users_without_a_history() -> None:
    U = noise(FEW + 1, 3).repeat_interleave(MANY, dim=0)
    assert shared_rows(U[MANY:]).all()
    assert not shared_rows(U).any()


def test_zeros_of_either_sign_are_the_same_row() -> None:
    U = torch.zeros(MANY, 4)
    U[::2] = -0.0
    assert shared_rows(U).all()


def test_their_labels_take_no_part() -> None:
    target = target_of(torch.tensor([0, 1, -1, 1, 0]))
    left = without(target, torch.tensor([True, False, True, False, False]))
    assert left.rows.tolist() == [1, 3, 4]
    assert left.labels.tolist() == [1, 1, 0]
    assert left.n_classes == target.n_classes


def test_they_stay_where_they_are_and_tell_nothing() -> None:
    X, labels = noise(3000, 6), coins(3000, 2)
    X[:, 0] += labels
    X[::6] = 0.0
    brief = RemovalConfig.model_validate({"rounds": 4, "searches": 2, "networks": 2})
    moved = remove(X, [target_of(labels)], brief, 0, "a")
    assert torch.equal(moved[::6], X[::6])
    trees = ExtraTreesClassifier(50, min_samples_leaf=5, random_state=0)
    assert balanced_accuracy(trees, X, labels.numpy()) > 0.6
    assert abs(balanced_accuracy(trees, moved, labels.numpy()) - 0.5) < 0.03  # three standard errors


def test_where_nobody_else_is_left_nothing_moves() -> None:
    X, labels = torch.zeros(60, 3), coins(60)
    X[30:] = 1.0
    assert torch.equal(remove(X, [target_of(labels)], RemovalConfig.model_validate({}), 0, "a"), X)


def test_it_is_said() -> None:
    U = noise(200, 4)
    U[:30] = 0.0
    attribute = categorical("a", coins(200).tolist())
    made = calibrator("lego", rounds=1, searches=1, networks=1).calibrate(U, attribute)
    assert any(note.startswith("30 users have the same row as many others") for note in made.facts["notes"])
