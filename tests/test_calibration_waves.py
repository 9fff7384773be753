"""Waves along single directions: seen where they are, dealt out, and never written anywhere else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesClassifier
from torch import Tensor

from calibrator_contract import balanced_accuracy, coins, groups_of, noise, target_of
from oblivec.calibration.coordinates import Coordinates
from oblivec.calibration.removal import RemovalConfig, remove
from oblivec.calibration.slices import Slices
from oblivec.calibration.space import Space
from oblivec.calibration.steps import Steps
from oblivec.calibration.waves import deal_out
from oblivec.datasets.foreign import foreign_matrix
from oblivec.engines.local import run_single_threaded
from oblivec.randomness import torch_rng

N = 3000
DEFAULTS = RemovalConfig.model_validate({})
ERROR = 0.5 / N**0.5
"""Standard error of the balanced accuracy of coins, for as many users."""


def wave(users: int = N, columns: int = 6, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Labels that go up and down along column 2."""
    X = noise(users, columns, seed)
    chance = torch.sigmoid(3 * torch.sin(6 * X[:, 2]))
    return X, (torch.rand(users, generator=torch_rng(seed, "wave")) < chance).long()


def by_trees(U: Tensor, labels: Tensor) -> float:
    """Points from chance."""
    trees = ExtraTreesClassifier(200, min_samples_leaf=3, class_weight="balanced", random_state=0)
    return balanced_accuracy(trees, U, labels.numpy()) - 0.5


def test_a_wave_is_dealt_out_and_nothing_else_moves() -> None:
    X, labels = wave()
    dealt = deal_out(X, groups_of(labels), torch_rng(0, "deal"))
    others = [0, 1, 3, 4, 5]
    assert torch.equal(dealt[:, others], X[:, others])
    assert by_trees(X[:, 2:3], labels) > 0.15
    assert abs(by_trees(dealt[:, 2:3], labels)) < 3.5 * ERROR
    assert float((dealt - X).norm() / X[:, 2].norm()) < 0.2


@given(st.integers(0, 99), st.integers(2, 4), st.booleans())
@settings(max_examples=20, deadline=None)
def test_a_column_keeps_its_values_and_a_group_its_order(seed: int, classes: int, fine_only: bool) -> None:
    X, labels = noise(600, 3, seed), coins(600, classes, seed)
    X[:, 0] = torch.where(labels == 0, X[:, 0].round(), X[:, 0])  # in lumps: never at chance
    dealt = deal_out(X, groups_of(labels), torch_rng(seed, "deal"), fine_only=fine_only)
    assert not torch.equal(dealt[:, 0], X[:, 0])
    assert torch.equal(dealt.sort(0)[0], X.sort(0)[0])
    for group in range(classes):
        before, after = X[labels == group, 0].numpy(), dealt[labels == group, 0].numpy()
        in_order = np.lexsort((after, before))  # of users side by side, any order will do
        assert (np.diff(after[in_order]) >= 0).all()


def test_noise_stays_where_it_is() -> None:
    """A column of coins stands out by four standard deviations in one of 1,400 (chi-squared, 31 degrees of freedom)."""
    moved = 0
    for seed in range(40):
        X = noise(1000, 8, seed)
        dealt = deal_out(X, groups_of(coins(1000, seed=seed)), torch_rng(seed, "deal"))
        moved += int((dealt != X).any(0).sum())
    assert moved <= 2


def test_what_is_smooth_is_left_to_others_at_first() -> None:
    X, labels = noise(N, 4), coins(N)
    X[:, 1] += 0.5 * labels
    X[:, 3] *= 1 + 0.3 * labels
    groups = groups_of(labels)
    assert deal_out(X, groups, torch_rng(0, "deal"), fine_only=True) is X
    assert (deal_out(X, groups, torch_rng(0, "deal")) != X).any(0).tolist() == [False, True, False, True]
    X, labels = wave()
    dealt = deal_out(X, groups_of(labels), torch_rng(0, "deal"), fine_only=True)
    assert (dealt != X).any(0).nonzero().tolist() == [[2]]


@pytest.mark.parametrize(("users", "classes"), [(1, 1), (30, 2), (100, 1), (100, 100)])
def test_too_few_users_or_groups_stay(users: int, classes: int) -> None:
    X = noise(users, 2)
    assert deal_out(X, groups_of(torch.arange(users) % classes), torch_rng(0, "deal")) is X


def test_slices_do_not_write_into_narrow_directions() -> None:
    """Rotated as it is, a wave along the widest direction is written into narrow ones, and trees read it there."""
    X = noise(N, 20) * 0.7 ** torch.arange(20)
    chance = torch.sigmoid(3 * torch.sin(3 * X[:, 0]) + 2 * torch.sin(3 * X[:, 1]))
    labels = (torch.rand(N, generator=torch_rng(0, "wave")) < chance).long()
    space = Space.of(X)

    def written(natural: float) -> float:
        scale = space.scales(natural)
        moved = Slices(0.5).round(space.encode(X) * scale, groups_of(labels), torch_rng(0, "slice")) / scale
        return by_trees(moved[:, 4:], labels)

    assert abs(by_trees(X[:, 4:], labels)) < 3.5 * ERROR
    assert written(1.0) > 10 * ERROR
    assert abs(written(DEFAULTS.natural)) < 4 * ERROR


@pytest.mark.parametrize(("natural", "writes"), [(1.0, True), (DEFAULTS.natural, False)])
def test_a_removal_rotates_as_it_is_told(natural: float, writes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, of the slices of a whole removal, where the wave itself is left alone."""
    for step in ("deal_out", "deal_planes"):
        monkeypatch.setattr(f"oblivec.calibration.steps.{step}", lambda Z, *_, **__: Z)
    X = noise(N, 20) * 0.7 ** torch.arange(20)
    chance = torch.sigmoid(3 * torch.sin(3 * X[:, 0]) + 2 * torch.sin(3 * X[:, 1]))
    labels = (torch.rand(N, generator=torch_rng(0, "wave")) < chance).long()
    nothing_else = {"clips": 0, "searches": 0, "regions": 0, "endings": 0, "settlings": 0, "thresholds": 0,
                    "networks": 0}
    config = RemovalConfig.model_validate({"rounds": 3, "natural": natural} | nothing_else)
    written = by_trees(remove(X, [target_of(labels)], config, 0, "a")[:, 4:], labels)
    assert (written > 10 * ERROR) if writes else (abs(written) < 4 * ERROR)


def test_trees_read_nothing_from_a_release() -> None:
    made = foreign_matrix("waves", N, 16)
    X, labels = torch.from_numpy(made.embeddings), torch.from_numpy(made.attributes["two"].values)
    assert by_trees(X, labels) > 0.1
    moved = []
    for seed in range(3):  # how far users go is a matter of who is dealt what: give or take a tenth
        release = remove(X, [target_of(labels)], DEFAULTS, seed, "a")
        assert abs(by_trees(release, labels)) < 4 * ERROR
        moved.append(np.linalg.norm(release - X) / np.linalg.norm(X))
    assert np.mean(moved) < 0.3


def test_attributes_looked_at_side_by_side_are_all_dealt_out_whatever_the_cores() -> None:
    X, labels = wave()
    _, other = wave(seed=1)
    X[:, 4] = wave(seed=1)[0][:, 2]  # the second attribute goes up and down along another column
    targets = [target_of(labels), target_of(other)]

    def once(_: None) -> torch.Tensor:
        coordinates, rows = Coordinates.of(X, torch.ones(N, dtype=torch.bool), torch_rng(0, "ties"))
        work = Steps(coordinates, targets, torch_rng(0, "deal"), 0.5, 0.5)
        return coordinates.decode(work.deal(rows, planes=True))

    alone, beside = (run_single_threaded(once, None, cores=cores) for cores in (1, 3))
    assert torch.equal(alone, beside)
    for attribute in (labels, other):
        assert by_trees(X, attribute) > 0.1
        assert abs(by_trees(alone, attribute)) < 4 * ERROR
