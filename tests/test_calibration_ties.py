"""Values that many users share in a column stay such values, and do not spell out who was moved with whom."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesClassifier
from torch import Tensor

from calibrator_contract import balanced_accuracy, coins, noise, target_of
from oblivec.calibration.coordinates import Coordinates
from oblivec.calibration.removal import RemovalConfig, remove
from oblivec.calibration.shared import MANY
from oblivec.calibration.ties import Ties
from oblivec.calibration.unsaying import UnsayingConfig, unsay
from oblivec.randomness import torch_rng

COLUMNS = st.lists(st.tuples(st.integers(-8, 8), st.integers(1, 2 * MANY)), min_size=2, max_size=8)
"""Values of a column and how many users have each."""


def column(counted: list[tuple[int, int]]) -> Tensor:
    values, counts = zip(*counted, strict=True)
    return torch.tensor(values).repeat_interleave(torch.tensor(counts)).float()[:, None] / 4


def apart(U: Tensor, seed: int = 0) -> tuple[Ties, Tensor]:
    ties = Ties.of(U)
    return ties, ties.apart(U, torch_rng(seed, "apart"))


@given(COLUMNS, st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_apart_and_together_again(counted: list[tuple[int, int]], seed: int) -> None:
    U = column(counted)
    ties, parted = apart(U, seed)
    assert torch.allclose(ties.together(parted), U, atol=1e-5)
    order = parted[:, 0].argsort(stable=True)
    assert (U[order, 0].diff() >= 0).all()  # nobody overtakes
    if ties.columns:
        values, counts = U.unique(return_counts=True)
        for value in values[counts > 1]:
            assert len(parted[value == U].unique()) > 1


@given(COLUMNS, st.floats(-3, 3), st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_together_is_monotone_and_whole(counted: list[tuple[int, int]], move: float, seed: int) -> None:
    ties, parted = apart(column(counted), seed)
    places = torch.cat([parted + move, parted - move, parted]).sort(dim=0).values
    assert (ties.together(places).diff(dim=0) >= -1e-5).all()


@given(st.lists(st.integers(MANY, 3 * MANY), min_size=2, max_size=5), st.floats(-5, 5))
@settings(max_examples=40, deadline=None)
def test_codes_stay_codes(counts: list[int], move: float) -> None:
    U = column([(2 * number, count) for number, count in enumerate(counts)])
    ties, parted = apart(U)
    assert torch.isin(ties.together(parted + move), U.unique()).all()


def test_the_middle_of_an_interval_stands_for_it() -> None:
    U = noise(400, 2).clamp_min(0)
    ties, parted = apart(U)
    middle = ties.centred(parted)
    assert torch.equal(ties.together(middle), ties.together(parted))
    assert (middle[:, 0][U[:, 0] == 0].unique()).numel() == 1


def test_a_few_who_are_equal_by_accident_and_constants_are_let_be() -> None:
    U = noise(300, 3)
    U[: MANY - 1, 0] = 0.5
    U[:, 1] = 1.0
    ties, parted = apart(U)
    assert not ties.columns
    assert torch.equal(parted, U)


def test_columns_that_repeat_each_other_go_on_doing_so() -> None:
    U = noise(300, 2).clamp_min(0)[:, [0, 1, 0]]
    _, parted = apart(U)
    assert torch.equal(parted[:, 0], parted[:, 2])
    assert not torch.equal(parted[:, 0], parted[:, 1])


def test_what_users_without_a_history_share_is_no_tie() -> None:
    U = noise(300, 3)
    U[:50] = 0.0
    moving = (U != 0).any(1)
    coordinates, X = Coordinates.of(U, moving, torch_rng(0, "ties"))
    assert not coordinates.ties.columns
    assert torch.allclose(coordinates.decode(X), U, atol=1e-5)


def leaning(kind: str, n: int = 3000, d: int = 8) -> tuple[Tensor, Tensor]:
    labels = coins(n)
    U = noise(n, d) @ torch.randn(d, d, generator=torch_rng(0, "mixed"))
    U[:, :3] += 1.5 * labels[:, None]
    return (U.clamp_min(0) if kind == "non-negative" else U.sign()), labels


@pytest.mark.parametrize("kind", ["non-negative", "codes"])
def test_trees_read_nothing_and_values_stay(kind: str) -> None:
    U, labels = leaning(kind)
    moved = remove(U, [target_of(labels)], RemovalConfig.model_validate({}), 0, "a")
    trees = ExtraTreesClassifier(100, min_samples_leaf=5, random_state=0)
    assert balanced_accuracy(trees, U, labels.numpy()) > 0.6
    assert abs(balanced_accuracy(trees, moved, labels.numpy()) - 0.5) < 0.03  # three standard errors
    if kind == "codes":
        assert torch.isin(moved, U.unique()).all()
    else:
        assert moved.min() == 0
        assert abs(float((moved == 0).float().mean() - (U == 0).float().mean())) < 0.05


@pytest.mark.parametrize("kind", ["non-negative", "codes"])
def test_label_free_too(kind: str) -> None:
    U, labels = leaning(kind)
    moved = unsay(U, [target_of(labels)], UnsayingConfig.model_validate({}), 0, "a")
    trees = ExtraTreesClassifier(100, min_samples_leaf=5, random_state=0)
    assert balanced_accuracy(trees, moved, labels.numpy()) < 0.56
    assert moved.min() == U.min()
