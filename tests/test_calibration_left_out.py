"""Kernel machines without each user: against fits that really leave it out."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from calibrator_contract import coins, groups_of, noise, spread_on_noise, told_by_machines
from oblivec.calibration import left_out
from oblivec.calibration.left_out import Machine
from oblivec.calibration.telling import MEMORY, STEADY, Sight, Telling
from oblivec.engines.local import run_single_threaded
from oblivec.randomness import torch_rng

N, D = 40, 3


def refitted(rows: Tensor, sharpness: Tensor, wanted: Tensor, user: int) -> tuple[Tensor, Tensor]:
    """Values at one user of every group's function, fitted to the others; their gradients there, d x groups."""
    others = torch.arange(len(rows)) != user
    centres, X = rows[others].double(), rows.double()

    def kernels(A: Tensor) -> Tensor:
        return torch.exp(-sharpness.double() * (A[:, None] - centres).square().sum(2))

    weights = torch.linalg.solve(kernels(centres) + left_out.RIDGE * torch.eye(len(centres)), wanted[others].double())
    at = X[user].clone().requires_grad_()
    values = (kernels(at[None]) @ weights)[0]
    gradients = [torch.autograd.grad(value, at, retain_graph=True)[0] for value in values]
    return values.detach(), torch.stack(gradients, 1)


@given(st.integers(0, 99), st.integers(2, 4))
@settings(max_examples=10, deadline=None)
def test_it_is_what_refitting_gives(seed: int, classes: int) -> None:
    rows, number = noise(N, D, seed), coins(N, classes, seed)
    number[:3] = -1  # in no group: their target is zero
    shares = torch.full((classes,), 1 / classes)
    machine = Machine.of(rows)
    values, gradients = machine.without_each(number, shares), machine.slopes(number, shares)
    wanted = (torch.nn.functional.one_hot(number.clamp_min(0), classes) - shares) * (number >= 0)[:, None]
    for user in (0, 5, 17, N - 1):
        value, gradient = refitted(rows, machine.sharpness, wanted, user)
        torch.testing.assert_close(values[user].double(), value, atol=2e-4, rtol=1e-3)
        own = gradient[:, number[user]] if number[user] >= 0 else torch.zeros(D, dtype=torch.float64)
        torch.testing.assert_close(gradients[user].double(), own, atol=5e-3, rtol=5e-3)


def test_what_is_known_by_heart_is_not_seen() -> None:
    """With a kernel on everybody any labels can be learned; of users left out nothing is known."""
    X, labels = noise(2000, 30), coins(2000)
    telling = told_by_machines()
    telling.round(X, [groups_of(labels)], torch_rng(0, "tell"))
    assert abs(float(telling.standing[0][0])) < 3  # standard errors
    machine, signs = Machine.of(X), labels.float() * 2 - 1
    by_heart = machine.kernels @ (machine.inverse @ signs)
    assert float((by_heart.sign() == signs).float().mean()) > 0.95


def test_the_standing_of_noise_is_a_standard_normal() -> None:
    """Without the factor of two, for users who look at each other, the spread would be 1.4."""
    assert 0.75 < spread_on_noise(told_by_machines, 300) < 1.28  # two and a half standard errors


def test_several_machines_share_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """More users than one machine may learn from, and users without a label, who stay where they are."""
    X, labels = noise(900, 5), coins(900)
    X[:, 0] += 2 * labels
    labels[::3] = -1
    sizes: list[int] = []
    whole = Machine.of
    monkeypatch.setattr(Machine, "of", lambda rows, *more: sizes.append(len(rows)) or whole(rows, *more))
    telling = Telling(partial(left_out.by_machines, together=250), left_out.DOUBT)
    moved = telling.round(X, [groups_of(labels)], torch_rng(0, "tell"))
    assert sizes == [200, 200, 200]
    assert torch.equal(moved[::3], X[::3])
    assert float(telling.standing[0][0]) > 5
    assert telling.loud == [0]


def test_machines_that_were_not_kept_are_made_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    X, labels = noise(900, 5), coins(900)
    X[:, 0] += 2 * labels
    sights = [left_out.by_machines(X, [groups_of(labels)], torch_rng(0, "look"), together=250)]
    monkeypatch.setattr(left_out, "KEPT", 1)
    sights += [left_out.by_machines(X, [groups_of(labels)], torch_rng(0, "look"), together=250)]
    assert torch.equal(sights[0].gradient(0), sights[1].gradient(0))
    assert float(sights[0].gradient(0).norm(dim=1).min()) > 0


def test_machines_side_by_side_change_no_bit() -> None:
    X, labels = noise(900, 5), coins(900)

    def once(_: None) -> Tensor:
        telling = Telling(partial(left_out.by_machines, together=250), left_out.DOUBT)
        return telling.round(X, [groups_of(labels)], torch_rng(0, "tell"))

    X[:, 0] += labels
    alone, beside = (run_single_threaded(once, None, cores=cores) for cores in (1, 3))
    assert torch.equal(alone, beside)
    assert not torch.equal(alone, X)


def test_where_nothing_tells_nobody_moves_and_no_gradient_is_asked_for() -> None:
    X, labels = noise(600, 5), coins(600)

    def asked(_: int) -> Tensor:
        raise AssertionError("a gradient was asked for")

    def look(*seen: Any) -> Sight:
        return Sight(left_out.by_machines(*seen).values, asked)

    telling = Telling(look, left_out.DOUBT)
    assert torch.equal(telling.round(X, [groups_of(labels)], torch_rng(0, "tell")), X)
    assert not telling.loud
    X[:, 0] += labels
    told, other = groups_of(labels), groups_of(coins(600, 2, 7))
    both = told_by_machines()
    moved = both.round(X, [other, told], torch_rng(0, "tell"))
    assert both.loud == [1]
    assert torch.equal(moved, told_by_machines().round(X, [told], torch_rng(0, "tell")))
    with pytest.raises(AssertionError, match="asked for"):
        telling.round(X + 5 * labels[:, None], [groups_of(labels)], torch_rng(0, "tell"))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rounds_settle(seed: int) -> None:
    """The users a function leans on move as well: whole Newton steps leave, five rounds on, as much as there was."""
    X, labels = noise(1200, 100, seed) * 0.97 ** torch.arange(100), coins(1200, seed=seed)
    X[:, :8] += 0.3 * (2 * labels[:, None] - 1)
    groups, telling = groups_of(labels), told_by_machines()

    def told() -> float:
        values = left_out.by_machines(X, [groups], torch_rng(0, "look")).values[0][:, 0]
        return float((values[labels == 0].mean() - values[labels == 1].mean()) / values.std())

    before = told()
    for _ in range(5):
        X = telling.round(X, [groups], torch_rng(seed, "tell"))
    assert before > 1
    assert told() < before / 2


def test_a_steady_first_look_counts_as_a_running_mean_does() -> None:
    X, labels = noise(900, 5), coins(900)
    X[:, 0] += labels
    plain, steady = told_by_machines(), replace(told_by_machines(), steady=True)
    moved = [one.round(X, [groups_of(labels)], torch_rng(0, "tell")) - X for one in (plain, steady)]
    torch.testing.assert_close(steady.standing[0], STEADY * plain.standing[0])
    assert float(moved[1].norm()) < float(moved[0].norm())
    spread = [torch.zeros(2000)]
    for number in range(30):
        spread.append(torch.lerp(noise(2000, 1, number)[:, 0], spread[-1], MEMORY))
    assert abs(float(spread[-1].std()) - STEADY) < 0.04  # four standard errors
