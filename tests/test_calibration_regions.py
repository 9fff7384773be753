"""Regions: what is told by where users lie densely, against fits that really leave a user out, and attackers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from calibrator_contract import balanced_accuracy, coins, groups_of, noise, spread_on_noise, target_of
from oblivec.calibration import left_out
from oblivec.calibration.groups import Groups
from oblivec.calibration.regions import RIDGE, Regions, by_regions
from oblivec.calibration.removal import RemovalConfig, remove
from oblivec.calibration.telling import Telling
from oblivec.randomness import torch_rng

N = 3000
ERROR = 0.5 / N**0.5
"""Standard error of the balanced accuracy of coins, for as many users."""


def told_by_regions() -> Telling:
    return Telling(by_regions, left_out.DOUBT)


@given(st.integers(0, 99), st.integers(2, 4))
@settings(max_examples=10, deadline=None)
def test_it_is_what_refitting_gives(seed: int, classes: int) -> None:
    rows, number = noise(120, 3, seed), coins(120, classes, seed)
    number[:3] = -1  # in no group
    shares = torch.full((classes,), 1 / classes)
    regions = Regions.of(rows, 6, torch_rng(seed, "look"))
    values, weights = regions.without_each(number, shares)
    gradients = regions.slopes(weights)
    wanted = torch.nn.functional.one_hot(number.clamp_min(0), classes) - shares
    for user in (5, 7, 50):
        others = (torch.arange(120) != user) & (number >= 0)
        shown = regions.member[others]
        fitted = torch.linalg.solve(shown.T @ shown + RIDGE * torch.eye(6), shown.T @ wanted[others])
        at = rows[user].clone().requires_grad_()
        said = (-regions.per_square * (at - regions.centres).square().sum(1)).softmax(0) @ fitted
        said[number[user]].backward()
        torch.testing.assert_close(values[user], said.detach(), atol=1e-4, rtol=1e-3)
        torch.testing.assert_close(gradients[user], at.grad, atol=1e-3, rtol=1e-3)
    assert not values[:3].any()
    assert not gradients[:3].any()


def test_the_standing_of_noise_is_a_standard_normal() -> None:
    assert 0.75 < spread_on_noise(told_by_regions, 1000) < 1.28  # two and a half standard errors


@given(st.integers(2, 60), st.integers(1, 6), st.integers(1, 5), st.integers(0, 99), st.booleans())
@settings(max_examples=30, deadline=None)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_any_few_users_give_finite_numbers(n: int, d: int, classes: int, seed: int, twins: bool) -> None:
    X = noise(n, d, seed)
    if twins:
        X[: n // 2] = X[0].clone()
    moved = told_by_regions().round(X, [groups_of(coins(n, classes, seed))], torch_rng(seed, "few"))
    assert torch.isfinite(moved).all()


def lumps(n: int = N, d: int = 16) -> tuple[Tensor, Tensor]:
    """Users lie a little more densely around forty places; who is near some of those is more often in one group. Lumps
    are alike on either side of the middle, so that neither means nor spreads tell."""
    rng = torch_rng(0, "lumps")
    half = 0.7 * torch.randn(20, d, generator=rng)
    places, leaning = torch.cat([half, -half]), (torch.arange(20) % 2).repeat(2)
    place = torch.randint(0, 40, (n,), generator=rng)
    told = torch.where(torch.rand(n, generator=rng) < 0.4, leaning[place], coins(n))
    return places[place] + noise(n, d), told


def by_cells(X: Tensor, labels: Tensor) -> float:
    """Points from chance of whoever knows which of 64 cells of a k-means of its own a user is in."""
    cell = KMeans(64, random_state=7).fit_predict(X.numpy())
    attacker = LogisticRegression(C=0.1, class_weight="balanced")
    return balanced_accuracy(attacker, torch.from_numpy(np.eye(64)[cell]), labels.numpy()) - 0.5


def test_what_cells_tell_is_taken_by_small_moves() -> None:
    X, labels = lumps()
    moved, telling, rng = X, told_by_regions(), torch_rng(0, "tell")
    for _ in range(20):
        moved = telling.round(moved, [groups_of(labels)], rng)
        if not telling.loud:
            break
    assert by_cells(X, labels) > 0.06
    assert abs(by_cells(moved, labels)) < 4 * ERROR
    assert float((moved - X).norm() / X.norm()) < 0.2


def test_a_release_has_nothing_left_of_it() -> None:
    X, labels = lumps()
    release = remove(X, [target_of(labels)], RemovalConfig.model_validate({}), 0, "a")
    assert abs(by_cells(release, labels)) < 4 * ERROR


def test_on_noise_hardly_anybody_moves() -> None:
    X, labels = noise(N, 16), coins(N)
    telling, moved, rng = told_by_regions(), X, torch_rng(0, "tell")
    for _ in range(10):
        moved = telling.round(moved, [groups_of(labels)], rng)
    assert float((moved - X).norm() / X.norm()) < 0.02


def test_users_without_a_label_and_rare_classes_stay_where_they_are() -> None:
    X, labels = lumps(900)
    labels[::3], labels[1] = -1, 2
    moved = told_by_regions().round(X, [groups_of(labels)], torch_rng(0, "tell"))
    assert torch.equal(moved[::3], X[::3])
    assert torch.equal(moved[1], X[1])
    assert not torch.equal(moved, X)


def test_several_attributes_are_looked_at_together() -> None:
    X, labels = lumps(900)
    attributes: list[Groups] = [groups_of(labels), groups_of(coins(900, 3, 5))]
    both, one = by_regions(X, attributes, torch_rng(0, "look")), by_regions(X, attributes[:1], torch_rng(0, "look"))
    torch.testing.assert_close(both.values[0], one.values[0])
    torch.testing.assert_close(both.gradient(0), one.gradient(0))
    assert both.values[1].shape == (900, 3)


@pytest.mark.parametrize(("told", "asked"), [("0", 1), ("1101", 3), ("111111", 5)])
def test_regions_are_asked_until_nothing_tells(told: str, asked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(Telling, "loud", property(lambda self: [0] * int(told[len(seen) - 1])))
    monkeypatch.setattr(Telling, "round", lambda self, X, *_: seen.append(X) or X)
    nothing = dict.fromkeys(("clips", "rounds", "searches", "endings", "settlings", "thresholds", "networks"), 0)
    config = RemovalConfig.model_validate(nothing | {"regions": 5})
    remove(noise(600, 8), [target_of(coins(600))], config, 0, "a")
    assert len(seen) == asked
