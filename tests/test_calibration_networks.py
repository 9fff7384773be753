"""Networks that are asked only about users they were not shown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neural_network import MLPClassifier
from torch import Tensor

from calibrator_contract import balanced_accuracy, coins, groups_of, noise, spread_on_noise, target_of, told_by_networks
from oblivec.calibration import networks
from oblivec.calibration.groups import Groups
from oblivec.calibration.networks import FOLDS, by_networks, deal, draw, train
from oblivec.calibration.removal import RemovalConfig, remove
from oblivec.calibration.telling import Telling
from oblivec.engines.local import run_single_threaded
from oblivec.randomness import torch_rng

ONLY_NETWORKS = dict.fromkeys(("clips", "rounds", "searches", "regions", "endings", "settlings", "thresholds"), 0)


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setattr(networks, "STEPS", 100)
        yield


@given(st.integers(0, 99), st.integers(2, 5))
@settings(max_examples=10, deadline=None)
def test_nobody_is_shown_to_the_network_that_reads_them(seed: int, classes: int) -> None:
    labels = coins(80, classes, seed)
    labels[:2], labels[2:6] = -1, torch.arange(4).remainder(classes)
    rng = torch_rng(seed, "deal")
    folds = deal(groups_of(labels), rng)
    assert torch.equal(torch.cat(folds).sort().values, torch.nonzero(labels >= 0)[:, 0])
    users, drawn = draw(folds, rng)
    codes = torch.tensor([int(labels[members[0]]) for members in folds])
    assert torch.equal(labels[users], codes[drawn])
    for number in range(FOLDS):
        kept_back = torch.cat([members[number::FOLDS] for members in folds])
        assert not torch.isin(users[:, number], kept_back).any()
    shares = torch.bincount(drawn.flatten()) / drawn.numel()
    assert float((shares - 1 / len(folds)).abs().max()) < 0.005  # of 400,000 draws: six standard errors


def test_gradients_are_those_of_the_values() -> None:
    X, groups = noise(60, 3), groups_of(coins(60, 3))
    sight = by_networks(X, [groups], torch_rng(0, "look"))
    values, gradients = sight.values[0], sight.gradient(0)
    rng = torch_rng(0, "look")
    own = torch.Generator().manual_seed(int(torch.randint(2**62, (1,), generator=rng)))
    folds = deal(groups, own)
    inner, inner_bias, outer, outer_bias = train(X, folds, own)
    for group, members in enumerate(folds):
        for number, user in ((place % FOLDS, int(member)) for place, member in enumerate(members)):
            row = X[user].clone().requires_grad_()
            said = ((row @ inner[number] + inner_bias[number]).relu() @ outer[number] + outer_bias[number])[0]
            said[group].backward()
            torch.testing.assert_close(values[user], said.detach())
            torch.testing.assert_close(gradients[user], row.grad)
    torch.testing.assert_close(values.sum(1), torch.zeros(60), atol=1e-5, rtol=0)


@pytest.mark.usefixtures("few_steps")
def test_the_standing_of_noise_is_a_standard_normal() -> None:
    assert 0.75 < spread_on_noise(told_by_networks, 600) < 1.28  # two and a half standard errors


def seen_near_the_middle(n: int = 4000, d: int = 16) -> tuple[Tensor, Tensor]:
    """Who is inside a band along one direction; half of the labels are coins."""
    X, axis = noise(n, d), torch.linalg.qr(noise(d, 1, 5))[0]
    told = ((X @ axis)[:, 0].abs() < 0.67).long()
    return X, torch.where(coins(n, 2, 7) == 0, told, coins(n))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_a_network_reads_is_taken() -> None:
    X, labels = seen_near_the_middle()
    moved = remove(X, [target_of(labels)], RemovalConfig.model_validate(ONLY_NETWORKS), 0, "a")
    before, after = (told_by_networks() for _ in range(2))
    for telling, rows in ((before, X), (after, moved)):
        telling.round(rows, [groups_of(labels)], torch_rng(9, "look"))
    assert float(before.standing[0][0]) > 5
    assert abs(float(after.standing[0][0])) < 3  # a look of its own: standard errors
    assert float((moved - X).norm() / X.norm()) < 0.2
    attacker = MLPClassifier((100,), alpha=1.0, learning_rate_init=1e-2, max_iter=30, random_state=0)
    assert balanced_accuracy(attacker, X, labels.numpy()) > 0.6
    assert abs(balanced_accuracy(attacker, moved, labels.numpy()) - 0.5) < 0.024  # three standard errors


@pytest.mark.usefixtures("few_steps")
def test_users_without_a_label_stay_where_they_are() -> None:
    X, labels = seen_near_the_middle(1000)
    labels[::3] = -1
    moved = told_by_networks().round(X, [groups_of(labels)], torch_rng(0, "tell"))
    assert torch.equal(moved[::3], X[::3])
    assert not torch.equal(moved[1::3], X[1::3])


@pytest.mark.usefixtures("few_steps")
def test_attributes_side_by_side_change_no_bit() -> None:
    X = noise(300, 5)
    attributes: list[Groups] = [groups_of(coins(300, classes, classes)) for classes in (2, 3, 4)]

    def once(_: None) -> list[Tensor]:
        sight = by_networks(X, attributes, torch_rng(0, "look"))
        return [*sight.values, *map(sight.gradient, range(len(attributes)))]

    alone, beside = (run_single_threaded(once, None, cores=cores) for cores in (1, 3))
    assert all(torch.equal(one, other) for one, other in zip(alone, beside, strict=True))


@pytest.mark.parametrize(("told", "asked"), [("00", 2), ("10100", 5), ("11111", 5)])
def test_networks_are_asked_until_nothing_tells_twice(told: str, asked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Tensor] = []
    monkeypatch.setattr(Telling, "loud", property(lambda self: [0] * int(told[len(seen) - 1])))
    monkeypatch.setattr(Telling, "round", lambda self, X, *_: seen.append(X) or X)
    config = RemovalConfig.model_validate(ONLY_NETWORKS | {"networks": 5})
    remove(noise(600, 80), [target_of(coins(600))], config, 0, "a")
    assert [rows.shape[1] for rows in seen] == [64] * asked
