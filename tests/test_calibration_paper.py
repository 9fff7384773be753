"""The paper's calibration, as printed and tuned."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor

from calibrator_contract import CalibratorContract, noise
from oblivec.calibration import alternating
from oblivec.calibration.ball import Ball, project
from oblivec.calibration.base import REGISTRY, Calibrator, calibrator
from oblivec.combination import convex
from oblivec.datasets.attributes import MISSING, Attribute, categorical, continuous
from oblivec.datasets.planted import plant
from oblivec.errors import BadInput
from oblivec.information import variational
from oblivec.randomness import torch_rng

QUICK: dict[str, Any] = {"steps": 5}


class TestPaper(CalibratorContract):
    name = "paper"
    settings = QUICK


class TestPaperTuned(CalibratorContract):
    name = "paper-tuned"
    settings = QUICK


def attack(U: Tensor, attribute: Attribute) -> float:
    """Out-of-fold balanced accuracy of logistic regression, or R2 of ridge regression."""
    if attribute.is_continuous:
        predicted = cross_val_predict(Ridge(), U.numpy(), attribute.values)
        return float(1 - np.mean((predicted - attribute.values) ** 2) / attribute.values.var())
    predicted = cross_val_predict(LogisticRegression(), U.numpy(), attribute.values)
    return float(balanced_accuracy_score(attribute.values, predicted))


# --- the constraint, Equation (projection) ----------------------------------------------------------------------------


@settings(deadline=None, max_examples=50)
@given(st.sampled_from(["matrix", "row", "relative-row"]), st.floats(0, 3), st.integers(1, 20), st.integers(0, 999))
def test_projection_is_the_nearest_point_of_the_ball(ball: Ball, radius: float, rows: int, seed: int) -> None:
    U0, U = torch.randn(2, rows, 3, generator=torch_rng(seed), dtype=torch.float64)
    projected = U.clone()
    project(projected, U0, ball, radius)
    lengths, moved = (U - U0).norm(dim=1), (projected - U0).norm(dim=1)
    if ball == "matrix":
        lengths, moved, limits = lengths.norm(), moved.norm(), torch.tensor(radius * rows, dtype=torch.float64)
    else:
        limits = U0.norm(dim=1) * radius if ball == "relative-row" else torch.full_like(lengths, radius)
    torch.testing.assert_close(moved, lengths.minimum(limits))
    again = projected.clone()
    project(again, U0, ball, radius)
    torch.testing.assert_close(again, projected)
    # The direction is kept: what was moved is a multiple, between 0 and 1, of what was to be moved.
    torch.testing.assert_close((projected - U0) * lengths[..., None], (U - U0) * moved[..., None])


def test_inside_the_ball_nothing_moves_not_even_by_rounding() -> None:
    U0, U = noise(30, 4), noise(30, 4, seed=1)
    for ball in ("matrix", "row", "relative-row"):
        kept = U.clone()
        project(kept, U0, ball, float("inf"))
        project(kept, U0, ball, 1e6)
        assert torch.equal(kept, U)


@pytest.mark.parametrize("name", ["paper", "paper-tuned"])
@pytest.mark.parametrize("ball", ["matrix", "row", "relative-row"])
@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_a_calibration_stays_in_its_ball(name: str, ball: Ball, optimiser: str) -> None:
    planted = plant("linear", 80, 4, 0.9)
    U = torch.from_numpy(planted.embeddings)
    method = calibrator(
        name, steps=15, ball=ball, radius=1e-3, optimiser=optimiser, learning_rate=0.1, per_user_gradient=True
    )
    change = (method.calibrate(U, planted.attribute).calibrated - U).norm(dim=1)
    if ball == "matrix":
        change, limit = change.norm(), torch.tensor(80 * 1e-3)
    else:
        limit = U.norm(dim=1) * 1e-3 if ball == "relative-row" else torch.tensor(1e-3)
    assert (change <= limit + 1e-6).all()
    assert (change >= limit / 2).any(), "the constraint is to bind here"


# --- what it does -----------------------------------------------------------------------------------------------------


def test_the_paper_settings_are_the_printed_ones() -> None:
    config = REGISTRY["paper"]().config.model_dump()
    q = config.pop("q")
    assert config == {
        "steps": 2000, "batch_size": None, "optimiser": "adam", "learning_rate": 1e-3, "per_user_gradient": False,
        "ball": "matrix", "radius": 0.5,
    }
    assert (q["width"], q["layers"], q["learning_rate"], q["steps"], q["standardise"]) == (100, 2, 1e-4, 1, False)


@pytest.mark.parametrize("radius", [0.5, 1e-5])
def test_it_is_algorithm_1_line_by_line(radius: float) -> None:
    """A transcription without any of our shortcuts: the double sum, one optimiser each, Equation (projection)."""
    planted = plant("linear", 30, 4, 0.9)
    U0, labels = torch.from_numpy(planted.embeddings), torch.from_numpy(planted.attribute.values)
    q = variational.Categorical(4, 2, variational.VariationalConfig.model_validate({}), torch_rng(5, "q", "linear"))
    U = U0.clone().requires_grad_()
    learn, move = torch.optim.Adam(q.parameters(), lr=1e-4), torch.optim.Adam([U], lr=1e-3)
    estimate = torch.zeros(())
    for _ in range(6):
        learn.zero_grad()
        (-q.network(U.detach()).log_softmax(dim=1)[range(30), labels].mean()).backward()  # line 6
        learn.step()
        log_q = q.network(U).log_softmax(dim=1)
        pairs = [log_q[i, labels[i]] - log_q[i, labels[j]] for i in range(30) for j in range(30)]
        estimate = torch.stack(pairs).sum() / 30**2
        move.zero_grad()
        estimate.backward()  # line 7
        move.step()  # line 8
        with torch.no_grad():
            distance = (U - U0).norm()
            if distance > radius * 30:
                U.copy_(U0 + radius * 30 / distance * (U - U0))  # line 9
    made = calibrator("paper", steps=6, radius=radius).calibrate(U0, planted.attribute, seed=5)
    torch.testing.assert_close(made.calibrated - U0, U.detach() - U0, atol=2e-6, rtol=1e-2)
    assert made.facts["vclub_at_last"] == pytest.approx(float(estimate.detach()), abs=2e-6)


def test_every_setting_says_what_it_is() -> None:
    """Attribute docstrings are not kept at run time, so this reads the source."""
    for config in (alternating.AlternatingConfig, convex.ConvexConfig, variational.VariationalConfig):
        (kind,) = ast.parse(inspect.getsource(config)).body
        assert isinstance(kind, ast.ClassDef)
        body = kind.body
        for field, after in zip(body, [*body[1:], None], strict=True):
            if isinstance(field, ast.AnnAssign):
                assert isinstance(after, ast.Expr), f"{config}: {ast.unparse(field.target)}"


def test_some_of_qs_settings_can_be_changed() -> None:
    method = calibrator("paper-tuned", q={"steps": 3})
    assert method.config.model_dump()["q"] == REGISTRY["paper-tuned"]().config.model_dump()["q"] | {"steps": 3}
    with pytest.raises(BadInput, match=r"^paper: setting q\.colour: "):
        calibrator("paper", q={"colour": 3})


def test_an_unknown_method_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match=r"^method 'papper': unknown; use one of .*paper, paper-tuned"):
        calibrator("papper")


def test_the_tuned_method_removes_a_linear_leak() -> None:
    """To chance, seen from both sides. On fewer users q learns the sample by heart, and attackers end below chance."""
    planted = plant("linear", 1500, 6, 0.8)
    U = torch.from_numpy(planted.embeddings)
    made = calibrator("paper-tuned", steps=40, radius=0.5).calibrate(U, planted.attribute)
    assert attack(U, planted.attribute) > 0.77
    assert abs(attack(made.calibrated, planted.attribute) - 0.5) < 0.06
    assert made.facts["vclub_at_last"] < made.facts["vclub_at_first"] / 4
    assert 0 < made.facts["moved"] < 0.5


def test_the_tuned_method_removes_a_continuous_leak() -> None:
    U = noise(1000, 8)
    values = U[:, 0].numpy() * 10 + 40 + np.random.default_rng(0).normal(0, 5, 1000)
    attribute = continuous("age", values)
    made = calibrator("paper-tuned", steps=40, radius=0.5).calibrate(U, attribute)
    assert attack(U, attribute) > 0.7
    assert attack(made.calibrated, attribute) < 0.05


def test_the_printed_method_writes_labels_down() -> None:
    """What makes it a yardstick and not a tool: the embeddings outrun q, and an attacker reads more than before.

    A matrix ten times smaller than N(0, I) stands in for ten times more steps.
    """
    planted = plant("linear", 400, 8, 0.8)
    U = torch.from_numpy(planted.embeddings) / 10
    made = calibrator("paper", steps=200).calibrate(U, planted.attribute)
    nearest = KNeighborsClassifier()
    before, after = (
        balanced_accuracy_score(
            planted.attribute.values, cross_val_predict(nearest, matrix.numpy(), planted.attribute.values)
        )
        for matrix in (U, made.calibrated)
    )
    assert after > before + 0.1


@pytest.mark.parametrize("name", ["paper", "paper-tuned"])
@pytest.mark.parametrize("batch_size", [None, 48])
def test_users_without_a_label_stay_where_they_are(name: str, batch_size: int | None) -> None:
    planted = plant("linear", 100, 4, 0.9)
    U = torch.from_numpy(planted.embeddings)
    hidden = np.arange(100) % 3 == 0
    partly = Attribute("a", "categorical", np.where(hidden, MISSING, planted.attribute.values), ("x", "y"))
    method = calibrator(name, steps=8, batch_size=batch_size)
    made = method.calibrate(U, partly)
    assert torch.equal(made.calibrated[hidden], U[hidden])
    assert (made.calibrated[~hidden] != U[~hidden]).any(dim=1).all()
    # ... and have no say: the same users without them end in the same place.
    alone = method.calibrate(U[~hidden], partly.take(np.flatnonzero(~hidden)))
    assert torch.equal(alone.calibrated, made.calibrated[~hidden])
    assert torch.equal(method.transform(U[~hidden], [partly], U[hidden]), U[hidden])


def test_the_tuned_method_knows_no_scale() -> None:
    planted = plant("linear", 100, 4, 0.9)
    U = torch.from_numpy(planted.embeddings)
    method = calibrator("paper-tuned", steps=3)
    small, large = (method.calibrate(matrix, planted.attribute).calibrated for matrix in (U, U * 1024))
    torch.testing.assert_close(large / 1024, small, atol=1e-4, rtol=1e-4)


def test_the_tuned_method_writes_nothing_into_a_constant_column() -> None:
    planted = plant("linear", 100, 4, 0.9)
    U = torch.from_numpy(planted.embeddings)
    U[:, 1] = 0.5
    made = calibrator("paper-tuned", steps=20).calibrate(U, planted.attribute)
    assert (made.calibrated[:, 1] == 0.5).all()


def test_rare_classes_are_noted_without_saying_which() -> None:
    attribute = categorical("a", ["common"] * 30 + ["rare"] * 3)
    made = calibrator("paper", steps=1).calibrate(noise(33, 5), attribute)
    assert made.facts["notes"] == ["1 of 2 classes have fewer users than dimensions"]


def test_every_registered_method_is_a_calibrator_of_its_name() -> None:
    for name, kind in REGISTRY.items():
        assert kind.name == name
        assert issubclass(kind, Calibrator)
