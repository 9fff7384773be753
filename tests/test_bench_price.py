"""What privacy must cost: the likelihood of the next item, what classes say about it, and the bound made of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from oblivec.bench import price
from oblivec.datasets.attributes import Attribute
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.datasets.synthetic import SyntheticConfig, generate
from oblivec.experiments import base_models
from oblivec.experiments.choice import fit_choice
from oblivec.experiments.group_popularity import GroupPopularity
from quick_method import quick_method as quick_method


def made_up(rng: np.random.Generator, facts: np.ndarray, weights: np.ndarray, seen: np.ndarray) -> LeaveOneOut:
    """Users who take an unseen item as the weights say."""
    values = facts @ weights
    values[seen] = -np.inf
    taken = (values + rng.gumbel(size=values.shape)).argmax(1)
    return LeaveOneOut(csr_matrix(seen.astype(np.float32)), taken, "made up")


def test_planted_weights_are_found_and_the_likelihood_is_that_of_a_softmax() -> None:
    rng = np.random.default_rng(0)
    facts, weights = rng.normal(size=(4000, 30, 2)).astype(np.float32), np.array([1.0, -0.5])
    seen = rng.random((4000, 30)) < 0.3
    split = made_up(rng, facts, weights, seen)
    choice = fit_choice(lambda users: torch.from_numpy(facts)[users], split)
    assert choice.weights == pytest.approx(weights, abs=0.1)  # five standard errors of 0.02
    values = np.where(seen, -np.inf, facts @ choice.weights)
    naive = values[np.arange(4000), split.test_items] - np.log(np.exp(values).sum(1))
    assert choice.nats == pytest.approx(naive, abs=1e-4)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 3))
def test_who_knows_more_is_never_worse_off_and_nothing_known_is_a_fair_die(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    facts = torch.from_numpy(rng.normal(size=(40, 8, count)).astype(np.float32))
    seen = rng.random((40, 8)) < 0.4
    seen[:, 0] = False
    split = LeaveOneOut(csr_matrix(seen.astype(np.float32)), np.where(rng.random(40) < 0.2, -1, 0), "made up")
    if not len(split.tested_users):
        return
    nothing = fit_choice(lambda users: torch.zeros(len(users), 8, 1), split).nats
    assert nothing == pytest.approx(-np.log((~seen).sum(1)[split.tested_users]), abs=1e-5)
    likelihoods = [nothing.mean()] + [
        fit_choice(lambda users, known=known: facts[users][..., : known + 1], split).nats.mean()
        for known in range(count)
    ]
    assert (np.diff(likelihoods) > -1e-5).all()


def leaning(rng: np.random.Generator, users: int, odds: float) -> tuple[LeaveOneOut, Attribute]:
    """Two classes, each `odds` times as likely as the other to take an item of its own half of 40."""
    code = rng.integers(2, size=users)
    own = (np.arange(40)[None, :] // 20 == code[:, None]).astype(np.float32)[..., None]
    seen = rng.random((users, 40)) < np.where(own[..., 0] > 0, 0.2 * odds, 0.2)
    split = made_up(rng, own, np.array([np.log(odds)]), seen)
    return split, Attribute("group", "categorical", code.astype(np.int64), ("a", "b"))


def gain(split: LeaveOneOut, attribute: Attribute) -> np.ndarray:
    nothing = fit_choice(lambda users: torch.zeros(len(users), split.n_items, 1), split).nats
    return fit_choice(GroupPopularity.of(attribute, split), split).nats - nothing


def test_what_a_class_says_about_the_next_item_is_what_was_planted() -> None:
    rng = np.random.default_rng(1)
    split, attribute = leaning(rng, 4000, 2.0)
    own = np.arange(40)[None, :] // 20 == attribute.values[:, None]
    free = ~(split.train.toarray() > 0)
    mine, other = (own & free).sum(1), (~own & free).sum(1)
    best = np.log(np.where(own[np.arange(4000), split.test_items], 2, 1) / (2 * mine + other)) + np.log(mine + other)
    found = gain(split, attribute)
    assert found.mean() == pytest.approx(best.mean(), abs=0.005)
    assert found.mean() > 0.02
    shuffled = Attribute("group", "categorical", rng.permutation(attribute.values), attribute.classes)
    assert abs(gain(split, shuffled).mean()) < 0.002  # two weights of 4,000 choices: 0.00025


def test_nobody_is_told_by_their_own_interactions_and_nothing_is_known_of_the_unlabelled() -> None:
    split, attribute = leaning(np.random.default_rng(2), 200, 2.0)
    values = attribute.values.copy()
    values[:20] = -1
    attribute = Attribute("group", "categorical", values, attribute.classes)
    before = GroupPopularity.of(attribute, split)
    assert not before(torch.arange(20)).any()
    user = torch.tensor([50])
    train = split.train.toarray()
    train[50] = 1 - train[50]
    after = GroupPopularity.of(attribute, LeaveOneOut(csr_matrix(train), split.test_items, "made up"))
    assert torch.equal(before(user), after(user))
    others = torch.nonzero(before.fold != before.fold[50])[:, 0]
    assert not torch.equal(before(others), after(others))


def test_the_price_is_measured_and_shown(
    quick_method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = generate(SyntheticConfig(users=200, items=80, interactions=4000)).dataset
    monkeypatch.setattr(base_models, "data", lambda *_: (world, world.split()))
    options: dict[str, Any] = {
        "models_folder": tmp_path, "resume": tmp_path / "kept", "jobs": 1, "device": "cpu", "method": quick_method,
        "settings": {"combination": {"steps": 0}},
    }
    result = price.run(True, **options)
    (cell,) = result["cells"].values()
    assert list(cell["requirements"]) == ["gender", ", ".join(world.attributes)]
    for row in cell["requirements"].values():
        assert row["floor"][0] == pytest.approx(row["says"][0] - row["beside"][0])
        assert row["paid"][1] > 0
    json.dumps(result, allow_nan=False)
    price.show(result)
    assert "lightgcn/ml-100k/0" in capsys.readouterr().out
    assert price.run(True, **options, enough_seconds=0) == result
