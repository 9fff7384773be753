"""Planes: what two directions tell only together is seen, dealt out, and nothing else is touched."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from calibrator_contract import coins, groups_of, noise, target_of
from oblivec.calibration.planes import SIGNIFICANT, deal_planes, plane_standing
from oblivec.calibration.removal import RemovalConfig, remove
from oblivec.randomness import torch_rng

N = 3000
ERROR = 0.5 / N**0.5
"""Standard error of the share of coins, for as many users."""


def exclusive_or(users: int = N, columns: int = 8, seed: int = 0, strength: float = 0.75) -> tuple[Tensor, Tensor]:
    """Labels that are the product of the signs of columns 2 and 5, so often as `strength` says."""
    X = noise(users, columns, seed)
    told = torch.rand(users, generator=torch_rng(seed, "told")) < strength
    return X, ((X[:, 2] * X[:, 5] > 0) == told).long()


def by_signs(X: Tensor, labels: Tensor, first: int = 2, second: int = 5) -> float:
    """Points from chance of whoever guesses by quadrants."""
    return float((((X[:, first] > 0) == (X[:, second] > 0)) == (labels == 1)).float().mean() - 0.5)


def test_an_exclusive_or_is_dealt_out_and_nothing_else_moves() -> None:
    X, labels = exclusive_or()
    dealt = deal_planes(X, groups_of(labels), torch_rng(0, "deal"))
    others = [0, 1, 3, 4, 6, 7]
    assert torch.equal(dealt[:, others], X[:, others])
    assert by_signs(X, labels) > 0.2
    assert abs(by_signs(dealt, labels)) < 3.5 * ERROR
    assert float(plane_standing(dealt, groups_of(labels)).max()) < SIGNIFICANT
    # Dealt out without regard to where users were, the plane would move by the root of two of its size.
    assert float((dealt - X).norm() / X[:, [2, 5]].norm()) < 0.6


@given(st.integers(0, 99), st.integers(2, 4))
@settings(max_examples=15, deadline=None)
def test_a_plane_keeps_its_places(seed: int, classes: int) -> None:
    X, labels = noise(2400, 4, seed), coins(2400, classes, seed)
    X[:, 1] = torch.where(labels == 0, X[:, 0].sign() * X[:, 1].abs(), X[:, 1])
    dealt = deal_planes(X, groups_of(labels), torch_rng(seed, "deal"))
    assert not torch.equal(dealt, X)
    places = [sorted(map(tuple, one[:, :2].tolist())) for one in (X, dealt)]
    assert places[0] == places[1]


def test_noise_stays_where_it_is() -> None:
    for seed in range(20):
        X = noise(1500, 16, seed)
        assert deal_planes(X, groups_of(coins(1500, 3, seed)), torch_rng(seed, "deal")) is X


def test_equal_values_are_no_sign_of_a_group() -> None:
    X, labels = noise(N, 6), coins(N)
    X[:, 1], X[:, 4] = X[:, 1].round(), 0.0
    assert deal_planes(X, groups_of(labels), torch_rng(0, "deal")) is X


def test_one_group_is_not_told_from_anybody() -> None:
    X = noise(N, 6)
    assert deal_planes(X, groups_of(torch.zeros(N, dtype=torch.long)), torch_rng(0, "deal")) is X


@pytest.mark.parametrize("kind", ["means", "spreads", "covariances"])
def test_what_is_smooth_is_left_to_clipping(kind: str) -> None:
    X, labels = noise(N, 6), coins(N)
    if kind == "means":
        X[:, [1, 4]] += 0.4 * labels[:, None]
    elif kind == "spreads":
        X[:, [1, 4]] *= 1 + 0.15 * labels[:, None]
    else:
        X[:, 4] += 0.3 * labels * X[:, 1]
    assert deal_planes(X, groups_of(labels), torch_rng(0, "deal")) is X


def test_too_few_users_for_a_plane_are_left_alone() -> None:
    X, labels = exclusive_or(300, strength=1.0)
    assert deal_planes(X, groups_of(labels), torch_rng(0, "deal")) is X


@pytest.mark.parametrize("turned", [False, True])
def test_a_removal_leaves_no_exclusive_or(turned: bool) -> None:
    """Neither along two columns nor along two principal directions."""
    X, labels = exclusive_or()
    X = X * torch.linspace(2, 0.5, X.shape[1])
    turn = torch.linalg.qr(noise(8, 8, 4))[0] if turned else torch.eye(8)
    config = RemovalConfig.model_validate({"settlings": 0, "thresholds": 0, "networks": 0})
    release = remove(X @ turn, [target_of(labels)], config, 0, "a") @ turn.T
    assert abs(by_signs(release - release.mean(0), labels)) < 4 * ERROR
