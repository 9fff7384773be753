"""The paper's convex combination, as printed and tuned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from calibrator_contract import noise
from oblivec.calibration.base import Calibration
from oblivec.combination.base import REGISTRY, combiner
from oblivec.combination.convex import Convex, ConvexConfig, _Weights
from oblivec.datasets.attributes import Attribute, categorical, continuous
from oblivec.errors import BadInput
from oblivec.randomness import torch_rng

NAMES = ["convex", "convex-tuned"]


def two_leaks(rows: int = 200) -> tuple[Tensor, list[Attribute], list[Calibration]]:
    """Column 0 gives away `a`, column 1 `b`; each calibration blanks its own column. `b` hides three times as much."""
    rng = torch_rng(0, "two leaks")
    U = torch.randn(rows, 4, generator=rng)
    labels = torch.randint(2, (2, rows), generator=rng)
    U[:, 0] += labels[0]
    U[:, 1] += 3 * labels[1]
    attributes = [Attribute(name, "categorical", labels[i].numpy(), ("x", "y")) for i, name in enumerate("ab")]
    calibrations = []
    for column, name in enumerate("ab"):
        blank = U.clone()
        blank[:, column] = 0
        calibrations.append(Calibration(name, "test", blank))
    return U, attributes, calibrations


def weights(name: str, seed: int = 0, **changes: Any) -> Tensor:
    method = combiner(name, **changes)
    assert isinstance(method, Convex)
    _, attributes, calibrations = two_leaks()
    return method.weights(calibrations, attributes, seed=seed)


@pytest.mark.parametrize("name", NAMES)
def test_no_requirement_gives_the_matrix_back_bit_for_bit(name: str) -> None:
    U = noise(9, 3)
    assert combiner(name).combine(U, [], []) is U


@pytest.mark.parametrize("name", NAMES)
def test_one_attribute_gives_its_calibration(name: str) -> None:
    U, attributes, calibrations = two_leaks()
    assert torch.equal(combiner(name).combine(U, calibrations[:1], attributes[:1]), calibrations[0].calibrated)


@settings(deadline=None, max_examples=8)
@given(st.sampled_from(["softmax", "logits"]), st.sampled_from(["sgd", "adam"]), st.integers(0, 99))
def test_the_weights_are_on_the_simplex(projection: str, optimiser: str, seed: int) -> None:
    alpha = weights("convex", seed, projection=projection, optimiser=optimiser, steps=2, learning_rate=5.0)
    assert (alpha >= 0).all()
    assert float(alpha.sum()) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_the_release_is_the_weighted_sum(name: str) -> None:
    U, attributes, calibrations = two_leaks()
    alpha = weights(name, seed=3, steps=5)
    release = combiner(name, steps=5).combine(U, calibrations, attributes, seed=3)
    torch.testing.assert_close(release, alpha[0] * calibrations[0].calibrated + alpha[1] * calibrations[1].calibrated)
    assert torch.equal(release, combiner(name, steps=5).combine(U, calibrations, attributes, seed=3))


def test_without_steps_it_is_the_mean() -> None:
    assert weights("convex", steps=0).tolist() == weights("convex-tuned", steps=0).tolist() == [0.5, 0.5]


def test_logits_find_the_larger_leak() -> None:
    alpha = weights("convex-tuned", steps=30)
    assert alpha[1] > 0.6


def test_as_printed_the_weights_stay_equal() -> None:
    """However different the leaks are: at the printed step size softmax undoes every step."""
    assert weights("convex", steps=50).tolist() == pytest.approx([0.5, 0.5], abs=0.01)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=6))
def test_softmax_as_printed_drifts_to_equal_weights(start: list[float]) -> None:
    """Without any gradient, from any weights: it is a contraction, not a projection."""
    alpha = _Weights(len(start), ConvexConfig.model_validate({}), torch.device("cpu"))
    alpha._moving.copy_(torch.tensor(start) / sum(start))
    for _ in range(40):
        alpha.descend(torch.zeros(len(start)))
    assert alpha.value.tolist() == pytest.approx([1 / len(start)] * len(start), abs=1e-4)


def test_the_gradient_of_the_logits_is_that_of_softmax() -> None:
    config = ConvexConfig.model_validate({"projection": "logits", "learning_rate": 0.5})
    alpha = _Weights(3, config, torch.device("cpu"))
    logits = torch.zeros(3, requires_grad=True)
    for step in range(4):
        gradient = torch.tensor([1.0, -2.0, 0.5]) * (step + 1)
        alpha.descend(gradient)
        (slope,) = torch.autograd.grad(logits.softmax(dim=0) @ gradient, logits)
        logits = (logits - 0.5 * slope).detach().requires_grad_()
    torch.testing.assert_close(alpha.value, logits.detach().softmax(dim=0))


@pytest.mark.parametrize("name", NAMES)
def test_users_nobody_moved_stay_where_they_are(name: str) -> None:
    U, attributes, calibrations = two_leaks()
    hidden = np.arange(len(U)) % 4 == 0
    partly = [Attribute(a.name, a.kind, np.where(hidden, -1, a.values), a.classes) for a in attributes]
    for calibration in calibrations:
        calibration.calibrated[hidden] = U[hidden]
    release = combiner(name, steps=5).combine(U, calibrations, partly)
    assert torch.equal(release[hidden], U[hidden])
    assert not torch.equal(release[~hidden], U[~hidden])


@pytest.mark.parametrize("name", NAMES)
def test_odd_attributes_are_survived(name: str) -> None:
    U = noise(12, 20)
    attributes = [
        categorical("constant", ["x"] * 12), categorical("rare", ["x"] * 11 + ["y"]),
        continuous("value", np.linspace(0, 1, 12)), categorical("absent", [None] * 12),
    ]
    calibrations = [Calibration(a.name, "test", noise(12, 20, seed)) for seed, a in enumerate(attributes)]
    method = combiner(name, steps=3, batch_size=5)
    assert torch.isfinite(method.combine(U, calibrations, attributes)).all()
    constant = method.combine(U, calibrations[:1] * 2, attributes[:1] * 2)
    torch.testing.assert_close(constant, calibrations[0].calibrated)


def test_a_missing_attribute_is_refused() -> None:
    U, attributes, calibrations = two_leaks()
    with pytest.raises(BadInput, match="2 calibrations with 1 attributes"):
        combiner("convex").combine(U, calibrations, attributes[:1])


def test_unknown_names_and_settings_are_refused() -> None:
    with pytest.raises(BadInput, match=r"^combination 'concave': unknown; use one of .*convex, convex-tuned"):
        combiner("concave")
    with pytest.raises(BadInput, match=r"^convex: setting colour: .*; the settings are steps, "):
        combiner("convex", colour=1)
    assert all(kind.name == name for name, kind in REGISTRY.items())
