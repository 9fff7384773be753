"""What trees split at is at chance too, and ranks lead back to where they came from."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier
from torch import Tensor

from calibrator_contract import balanced_accuracy, coins, noise, spread_on_noise, target_of
from oblivec.calibration import left_out
from oblivec.calibration.removal import RemovalConfig, remove
from oblivec.calibration.telling import Telling
from oblivec.calibration.thresholds import STEPS, Ranks, by_thresholds, columns_apart
from oblivec.randomness import torch_rng


def told_by_thresholds() -> Telling:
    return Telling(by_thresholds, left_out.DOUBT)


@given(st.integers(20, 300), st.integers(1, 5), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_ranks_and_back(users: int, columns: int, seed: int) -> None:
    values = noise(users, columns, seed) ** 3
    ranks = Ranks.of(values)
    encoded = ranks.encode(values)
    assert torch.allclose(ranks.decode(encoded), values, atol=1e-4)
    assert encoded.min() == pytest.approx(0, abs=1e-3)
    assert encoded.max() == pytest.approx(STEPS, abs=1e-3)
    outside = torch.cat([values - 5, values + 5])
    assert torch.allclose(ranks.decode(ranks.encode(outside)), outside, atol=1e-3)


def test_columns_are_ranked_where_they_are_apart() -> None:
    X = noise(500, 4)
    X[:, 1] = 3.0
    assert columns_apart(X, 0.1).tolist() == [0, 2, 3]
    X[:, 2] = X[:, 0] + 0.01 * X[:, 3]
    assert not len(columns_apart(X, 0.1))
    assert not len(columns_apart(X[:, 1:2], 0.1))


def test_on_noise_nothing_stands_out() -> None:
    assert spread_on_noise(told_by_thresholds, 400) < 1.33  # three standard errors above 1


def corners(n: int = 3000) -> tuple[Tensor, Tensor]:
    """Three columns of which no two tell: a group has an even number of them above the middle more often."""
    X = noise(n, 4)
    odd = (X[:, :3] > 0).sum(1) % 2
    told = torch.rand(n, generator=torch_rng(0, "told")) < 0.8
    return X, torch.where(told, odd, coins(n, 2, 3))


def test_what_three_thresholds_tell_together_is_taken() -> None:
    X, labels = corners()
    trees = HistGradientBoostingClassifier(random_state=0)
    moved = remove(X, [target_of(labels)], RemovalConfig.model_validate({}), 0, "a")
    assert balanced_accuracy(trees, X, labels.numpy()) > 0.75
    assert abs(balanced_accuracy(trees, moved, labels.numpy()) - 0.5) < 0.03  # three standard errors
