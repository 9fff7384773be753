"""AdvX: gradient reversal has the right sign, every recommender takes the pressure, and what is readable is less so."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from calibrator_contract import SECRET, noise
from oblivec.baselines import Applied, baseline
from oblivec.baselines.adversaries import Group, Reversal
from oblivec.baselines.advx import AdvX
from oblivec.datasets.attributes import Attribute, categorical, continuous
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.errors import BadInput
from oblivec.metrics import rank_test_items
from oblivec.randomness import numpy_rng
from oblivec.recommenders import recommender
from oblivec.recommenders.dot_product import dot_product
from recommender_contract import two_tastes

TINY: dict[str, dict[str, Any]] = {
    "ncf": {"epochs": 2, "dimensions": 4, "steps_per_epoch": 5},
    "lightgcn": {"epochs": 2, "dimensions": 4, "steps_per_epoch": 5},
    "multvae": {"epochs": 2, "dimensions": 4, "hidden": 8, "steps_per_epoch": 5},
}
HALVES = categorical("a", ["x", "y"] * 20)


class ReversalLayer(torch.autograd.Function):
    """The layer as it is usually written: the identity forwards, minus the scale backwards."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        return rows.clone()

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        return slopes[0] * -ctx.scale, None


def group(attribute: Attribute, dimensions: int = 3, **changes: Any) -> Group:
    settings: dict[str, Any] = {"adversaries": 2, "hidden": 5, "dropout": 0.0, "seed": 0} | changes
    return Group(attribute, dimensions, device=torch.device("cpu"), **settings)


def reversal(attributes: list[Attribute], scale: float = 1.0, learning_rate: float = 1e-2) -> Reversal:
    return Reversal(lambda width: [group(one, width) for one in attributes], scale, learning_rate, 0.0)


@pytest.mark.parametrize("attribute", [HALVES, continuous("b", np.arange(40.0))])
def test_the_pressure_is_that_of_a_gradient_reversal_layer(attribute: Attribute) -> None:
    rows, users = noise(40, 3), torch.arange(40)
    pressure = reversal([attribute], scale=7.0)(users, rows)
    leaf = rows.clone().requires_grad_()
    group(attribute).loss(users, ReversalLayer.apply(leaf, 7.0)).backward()  # type: ignore[arg-type]
    assert leaf.grad is not None
    torch.testing.assert_close(pressure, leaf.grad)


def test_going_down_the_pressure_makes_the_adversaries_worse_and_they_themselves_get_better() -> None:
    rows, users = noise(40, 3), torch.arange(40)
    rows[::2] += 1.0
    frozen = reversal([HALVES], learning_rate=1e-12)
    pressure = frozen(users, rows)
    frozen(users, rows - 0.1 * pressure / pressure.norm())
    assert frozen.losses[1] > frozen.losses[0]
    learning = reversal([HALVES], learning_rate=1e-2)
    for _ in range(50):
        learning(users, rows)
    first, last = learning.mean_losses()
    assert last < 0.9 * first


def test_attributes_add_up() -> None:
    rows, users, other = noise(40, 3), torch.arange(40), categorical("b", ["x"] * 10 + ["y", "z"] * 15)
    both = reversal([HALVES, other])(users, rows)
    apart = [reversal([one])(users, rows) for one in (HALVES, other)]
    torch.testing.assert_close(both, apart[0] + apart[1])


def test_users_without_a_label_feel_nothing() -> None:
    attribute = categorical("a", ["x", "y", None, None] * 10)
    pressure = reversal([attribute])(torch.arange(40), noise(40, 3))
    assert (pressure[2::4] == 0).all()
    assert (pressure[3::4] == 0).all()
    assert (pressure[::4] != 0).any()
    nobody = reversal([attribute])(torch.tensor([2, 3, 6]), noise(3, 3))
    assert (nobody == 0).all()


def test_a_constant_attribute_puts_no_pressure() -> None:
    assert (reversal([categorical("a", ["x"] * 40)])(torch.arange(40), noise(40, 3)) == 0).all()


def test_every_class_weighs_the_same() -> None:
    """Copies of the users of one class do not change the loss."""
    few, many = categorical("a", ["x", "y"]), categorical("a", ["x", "y", "y", "y"])
    rows = noise(2, 3)
    copied = rows[[0, 1, 1, 1]]
    torch.testing.assert_close(
        group(few).loss(torch.arange(2), rows), group(many).loss(torch.arange(4), copied)
    )


@pytest.mark.parametrize("model", TINY)
def test_pressure_enters_every_training_step(model: str) -> None:
    """A constant push to the left moves the users there, and nobody told the model why."""
    seen: list[tuple[int, int]] = []

    def push(users: Tensor, rows: Tensor) -> Tensor:
        assert not rows.requires_grad
        seen.append((len(users), rows.shape[1]))
        return torch.full_like(rows, 100.0)

    split = two_tastes()
    plain, pushed = (
        recommender(model, **TINY[model]).fit(split, device="cpu", pressure=pressure) for pressure in (None, push)
    )
    assert len(seen) >= 10
    assert {width for _, width in seen} == {plain.users.shape[1]}
    assert (pushed.users.mean(0) < plain.users.mean(0)).all()


def test_the_written_out_gradient_of_lightgcn_includes_the_pressure() -> None:
    trainer: Any = recommender("lightgcn", dimensions=4)._trainer(two_tastes(), 0, torch.device("cpu"))
    batch = torch.tensor([0, 1, 1]), torch.tensor([0, 15, 15]), torch.tensor([[11], [3], [4]])
    push = noise(3, 4)
    _, plain = trainer.loss_and_gradient(*batch)
    trainer.pressure = lambda users, rows: push
    _, pushed = trainer.loss_and_gradient(*batch)
    leaf = trainer.table.clone().requires_grad_()
    adjacency = trainer.graph._adjacency.to_dense()
    final = torch.stack([torch.linalg.matrix_power(adjacency, layer) @ leaf for layer in range(4)]).mean(0)
    (slope,) = torch.autograd.grad((final[batch[0]] * push).sum(), leaf)
    torch.testing.assert_close(pushed - plain, slope)


@pytest.mark.parametrize("model", TINY)
@pytest.mark.parametrize("without", ["attributes", "scale"])
def test_without_attributes_or_scale_it_is_plain_training(model: str, without: str) -> None:
    split, unfitted = two_tastes(), recommender(model, **TINY[model])
    plain = recommender(model, **TINY[model]).fit(split, seed=3, device="cpu")
    advx = baseline("advx", **({"gradient_scale": 0} if without == "scale" else {}))
    applied = advx.apply(unfitted, split, [] if without == "attributes" else [HALVES], seed=3)
    assert all(torch.equal(applied.recommender.tensors[name], plain.tensors[name]) for name in plain.tensors)
    assert not unfitted.tensors


@pytest.mark.parametrize("model", TINY)
def test_the_seed_decides_and_the_facts_hold_no_label(model: str) -> None:
    attribute = categorical("a", [f"{SECRET} {row % 2}" if row % 5 else None for row in range(40)])

    def train(seed: int) -> Applied:
        return baseline("advx").apply(recommender(model, **TINY[model]), two_tastes(), [attribute], seed=seed)

    one, same, other = train(0), train(0), train(1)
    assert torch.equal(one.recommender.users, same.recommender.users)
    assert not torch.equal(one.recommender.users, other.recommender.users)
    assert SECRET not in json.dumps(one.facts, allow_nan=False)
    assert one.facts["gradient_scale"] == (600 if model == "multvae" else 1)


def test_labels_for_other_users_are_refused() -> None:
    with pytest.raises(BadInput, match="attribute a: 2 labels for 40 users"):
        baseline("advx").apply(recommender("ncf"), two_tastes(), [categorical("a", ["x", "y"])])


def test_matrices_from_elsewhere_cannot_be_trained() -> None:
    pair = dot_product(noise(40, 3).numpy(), noise(20, 3).numpy())
    with pytest.raises(BadInput, match="advx: trains the recommender itself"):
        baseline("advx").apply(pair, two_tastes(), [HALVES])


def test_the_scale_can_be_set() -> None:
    assert AdvX.configure(gradient_scale=3).scale_for("multvae") == 3
    assert AdvX().scale_for("multvae") == 600


def taste_and_trait(users: int = 200) -> tuple[LeaveOneOut, Attribute]:
    """Two tastes over 20 items, and a trait that is seen in 12 further items and has nothing to do with the taste."""
    rng = numpy_rng(0)
    traits = rng.integers(2, size=users)
    liked = np.zeros((users, 32), dtype=np.float32)
    test = np.empty(users, dtype=np.int64)
    for user, trait in enumerate(traits):
        first = 10 * (user % 2)
        chosen = first + rng.permutation(10)[:8]
        liked[user, chosen[1:]] = 1
        test[user] = chosen[0]
        liked[user, 20 + 6 * trait + rng.permutation(6)[:2]] = 1
    return LeaveOneOut(csr_matrix(liked), test, "file-order"), categorical("trait", traits)


def readable(U: np.ndarray, attribute: Attribute) -> float:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    attacker = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
    return float(cross_val_score(attacker, U, attribute.values, cv=5, scoring="balanced_accuracy").mean())


@pytest.mark.parametrize(
    ("model", "scale", "settings"),
    [
        ("ncf", 1, {"epochs": 12, "dimensions": 8, "steps_per_epoch": 25, "learning_rate": 0.01, "candidates": 1}),
        ("lightgcn", 1, {"epochs": 40, "dimensions": 8, "steps_per_epoch": 20, "learning_rate": 0.01, "candidates": 1}),
        ("multvae", 20, {"epochs": 40, "dimensions": 8, "hidden": 32, "steps_per_epoch": 8, "learning_rate": 0.005}),
    ],
)
def test_a_trait_is_less_readable_and_the_taste_still_there(model: str, scale: float, settings: dict[str, Any]) -> None:
    split, trait = taste_and_trait()
    plain, protected = (
        baseline("advx", gradient_scale=strength, learning_rate=1e-2)
        .apply(recommender(model, **settings), split, [trait]).recommender
        for strength in (0.0, scale)
    )
    assert readable(plain.user_matrix(), trait) > 0.95
    assert readable(protected.user_matrix(), trait) < 0.87
    hits = [rank_test_items(one.scores, split).hit_ratio(3) for one in (plain, protected)]
    assert hits[1] > hits[0] - 15
