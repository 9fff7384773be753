"""vCLUB in closed form against the double sum of the paper, its label-free form, and the network q."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from oblivec.datasets.attributes import Attribute, continuous
from oblivec.information import estimator as estimator_module
from oblivec.information.batches import Batches
from oblivec.information.estimator import Estimator
from oblivec.information.target import Target
from oblivec.information.variational import Categorical, Gaussian, VariationalConfig, variational
from oblivec.information.vclub import (
    class_shares,
    gaussian_vclub,
    label_free_gaussian_vclub,
    label_free_vclub,
    mixture_moments,
    moments,
    vclub,
)
from oblivec.randomness import torch_rng

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 40)
relaxed = settings(deadline=None, max_examples=50)


def config(**settings: object) -> VariationalConfig:
    return VariationalConfig.model_validate(settings)


def log_posteriors(rows: int, classes: int, seed: int, sharpness: float = 2.0) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, classes, generator=rng, dtype=torch.float64) * sharpness
    return logits.log_softmax(dim=1), torch.randint(classes, (rows,), generator=rng)


def gaussians(rows: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Means, variances and values."""
    rng = torch.Generator().manual_seed(seed)
    mean, log_variance, values = torch.randn(3, rows, generator=rng, dtype=torch.float64)
    return mean, log_variance.exp(), 3 * values + 1


def log_normal(value: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    return torch.distributions.Normal(mean, variance.sqrt()).log_prob(value)


def attribute(labels: list[int], classes: int) -> Attribute:
    return Attribute("a", "categorical", np.array(labels, dtype=np.int64), tuple(map(str, range(classes))))


# --- the estimate -----------------------------------------------------------------------------------------------------


@relaxed
@given(sizes, st.integers(1, 6), seeds)
def test_the_closed_form_is_the_double_sum(rows: int, classes: int, seed: int) -> None:
    log_q, labels = log_posteriors(rows, classes, seed)
    naive = sum(
        float(log_q[i, labels[i]] - log_q[i, labels[j]]) for i in range(rows) for j in range(rows)
    ) / rows**2
    assert float(vclub(log_q, labels)) == pytest.approx(naive, abs=1e-6)


@relaxed
@given(sizes, seeds)
def test_the_gaussian_closed_form_is_the_double_sum(rows: int, seed: int) -> None:
    mean, variance, values = gaussians(rows, seed)
    own = log_normal(values, mean, variance)
    everybody = log_normal(values[None, :], mean[:, None], variance[:, None])
    naive = float((own[:, None] - everybody).mean())
    assert float(gaussian_vclub(mean, variance, values)) == pytest.approx(naive, rel=1e-9, abs=1e-9)


@relaxed
@given(sizes, st.integers(1, 6), seeds)
def test_the_label_free_form_averages_both_labels_over_q(rows: int, classes: int, seed: int) -> None:
    log_q, _ = log_posteriors(rows, classes, seed)
    q = log_q.exp()
    naive = float(torch.einsum("ic,ic->", q, log_q) / rows - torch.einsum("jc,ic->", q, log_q) / rows**2)
    assert float(label_free_vclub(log_q)) == pytest.approx(naive, abs=1e-9)


@relaxed
@given(sizes, st.integers(1, 6), seeds, st.floats(0, 20))
def test_the_label_free_form_is_never_negative(rows: int, classes: int, seed: int, sharpness: float) -> None:
    log_q, _ = log_posteriors(rows, classes, seed, sharpness)
    assert float(label_free_vclub(log_q)) >= -1e-12


@relaxed
@given(sizes, seeds)
def test_the_gaussian_label_free_form_is_a_sum_of_divergences(rows: int, seed: int) -> None:
    """Against the double sum with E over a ~ N(m, v) of log N(a; mean, variance) written out; and never negative."""
    mean, variance, _ = gaussians(rows, seed)

    def expected_log(of_mean: Tensor, of_variance: Tensor) -> Tensor:
        square = (of_mean - mean[:, None]) ** 2 + of_variance
        return -0.5 * ((2 * math.pi * variance[:, None]).log() + square / variance[:, None])

    own = expected_log(mean[:, None], variance[:, None]).squeeze(1)
    naive = float((own[:, None] - expected_log(mean[None, :], variance[None, :])).mean())
    found = float(label_free_gaussian_vclub(mean, variance))
    assert found == pytest.approx(naive, rel=1e-9, abs=1e-9)
    assert found >= -1e-12


def test_the_sampled_form_has_no_floor_and_the_label_free_one_has() -> None:
    """A confident q that is wrong about everyone: the trap the paper's algorithm falls into."""
    labels = torch.tensor([0, 1] * 5)
    log_q = torch.tensor([[0.0, 30.0], [30.0, 0.0]] * 5).log_softmax(dim=1)
    assert float(vclub(log_q, labels)) == pytest.approx(-15)
    assert float(label_free_vclub(log_q)) > 0


def test_knowing_nothing_is_zero() -> None:
    log_q = torch.tensor([0.2, 0.3, 0.5]).log().expand(12, 3)
    assert float(vclub(log_q, torch.arange(12) % 3)) == pytest.approx(0, abs=1e-6)
    assert float(label_free_vclub(log_q)) == pytest.approx(0, abs=1e-6)
    same = torch.full((12,), 0.7)
    assert float(gaussian_vclub(same, same, torch.arange(12.0))) == pytest.approx(0, abs=1e-4)
    assert float(label_free_gaussian_vclub(same, same)) == pytest.approx(0, abs=1e-6)


@relaxed
@given(st.integers(2, 40), seeds, st.data())
def test_parts_add_up_to_the_whole(rows: int, seed: int, data: st.DataObject) -> None:
    """With the marginal of the whole sample, the estimate is a mean over users and can be summed in parts."""
    cut = data.draw(st.integers(1, rows - 1))
    log_q, labels = log_posteriors(rows, 4, seed)
    mean, variance, values = gaussians(rows, seed)
    shares, of_values, of_q = class_shares(labels, 4), moments(values), mixture_moments(mean, variance)
    expected = [
        vclub(log_q, labels), gaussian_vclub(mean, variance, values), label_free_vclub(log_q),
        label_free_gaussian_vclub(mean, variance),
    ]
    halves = [
        torch.stack([
            vclub(log_q[s], labels[s], shares), gaussian_vclub(mean[s], variance[s], values[s], of_values),
            label_free_vclub(log_q[s], log_q.exp().mean(dim=0)),
            label_free_gaussian_vclub(mean[s], variance[s], of_q),
        ]) * weight
        for s, weight in ((slice(cut), cut / rows), (slice(cut, None), 1 - cut / rows))
    ]
    torch.testing.assert_close(halves[0] + halves[1], torch.stack(expected), atol=1e-6, rtol=1e-6)


# --- the target -------------------------------------------------------------------------------------------------------


def test_users_without_a_label_take_no_part() -> None:
    target = Target.of(attribute([1, -1, 0, 1, -1], 3))
    assert target.rows.tolist() == [0, 2, 3]
    assert target.labels.tolist() == [1, 0, 1]
    assert target.n_classes == 3
    assert target.class_sizes.tolist() == [1, 2]
    years = Target.of(continuous("year", np.array([1990.0, np.nan, 2010.0])))
    assert years.rows.tolist() == [0, 2]
    assert years.labels.tolist() == [-1, 1]
    assert years.n_classes == 0
    assert years.class_sizes.tolist() == []


@pytest.mark.parametrize("values", [np.array([5.0, np.nan, 5.0]), np.array([np.nan]), np.array([1e9, 1e9])])
def test_a_constant_value_is_seen_as_such(values: np.ndarray) -> None:
    target = Target.of(continuous("year", values))
    assert target.is_constant
    assert torch.isfinite(target.labels).all()
    assert not Target.of(attribute([1, 0], 2)).is_constant
    assert Target.of(attribute([1, -1, 1], 2)).is_constant


# --- the network ------------------------------------------------------------------------------------------------------


def test_the_network_is_the_papers() -> None:
    q = Categorical(32, 21, config(), torch_rng(0))
    shapes = [tuple(p.shape) for p in q.parameters()]
    assert shapes == [(100, 32), (100,), (100, 100), (100,), (21, 100), (21,)]
    assert torch.allclose(q.log_q(torch.randn(5, 32, generator=torch_rng(1))).exp().sum(dim=1), torch.ones(5))


def test_a_network_comes_from_its_seed_and_leaves_the_global_stream_alone() -> None:
    before = torch.get_rng_state()
    one, two, other = (Categorical(3, 2, config(), torch_rng(seed)) for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    x = torch.ones(1, 3)
    assert torch.equal(one(x), two(x))
    assert not torch.equal(one(x), other(x))


def test_the_gaussian_head_is_a_normal_distribution() -> None:
    q = Gaussian(3, config(), torch_rng(0))
    x, values = torch.randn(7, 3, generator=torch_rng(1)), torch.randn(7, generator=torch_rng(2))
    with torch.no_grad():
        expected = log_normal(values, *q.mean_and_variance(x)).mean()
        torch.testing.assert_close(q.log_likelihood(x, values), expected)
        q.network[-1].bias.fill_(1e6)  # type: ignore[union-attr]
        assert torch.isfinite(q.mean_and_variance(x)[1]).all()


@relaxed
@given(st.floats(1e-3, 1e3), st.floats(-100, 100))
def test_a_standardised_network_sees_no_scale(scale: float, offset: float) -> None:
    x = torch.randn(50, 4, generator=torch_rng(0), dtype=torch.float64)
    target = Target.of(attribute([0, 1] * 25, 2))
    outputs = []
    for matrix in (x, x * scale + offset * scale):
        q = variational(4, target, config(), torch_rng(3)).double()
        q.standardise_by(matrix)
        outputs.append(q(matrix))
    torch.testing.assert_close(outputs[0], outputs[1], atol=1e-6, rtol=1e-6)


def test_a_constant_column_is_not_looked_at() -> None:
    x = torch.randn(50, 3, generator=torch_rng(0))
    x[:, 1] = 7.0
    q = Categorical(3, 2, config(), torch_rng(0))
    q.standardise_by(x)
    moved = x.clone()
    moved[:, 1] += 1
    assert torch.equal(q(x), q(moved))
    assert q.column_variance[1] == 0
    torch.testing.assert_close(q.column_variance[[0, 2]], x[:, [0, 2]].var(dim=0, correction=0))


# --- the estimator ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["categorical", "continuous"])
def test_a_sample_in_parts_gives_the_same_steps(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(101, 4, generator=torch_rng(0))
    signal = x[:, 0].numpy()
    target = Target.of(continuous("a", signal) if kind == "continuous" else attribute(list(signal > 0), 2))
    whole = Estimator(x, target, config(learning_rate=1e-2), 0)
    whole_likelihood = [whole.follow(x, target.labels) for _ in range(5)]
    estimate, gradient = whole.push(x, target.labels)
    monkeypatch.setattr(estimator_module, "PART", 17)
    parts = Estimator(x, target, config(learning_rate=1e-2), 0)
    torch.testing.assert_close([parts.follow(x, target.labels) for _ in range(5)], whole_likelihood)
    torch.testing.assert_close(parts.push(x, target.labels), (estimate, gradient), atol=1e-6, rtol=1e-3)
    inputs = x.clone().requires_grad_()
    (direct,) = torch.autograd.grad(whole.q.vclub(inputs, target.labels), inputs)
    torch.testing.assert_close(gradient, direct)


def test_q_learns_to_read_what_is_there() -> None:
    x = torch.randn(200, 3, generator=torch_rng(0))
    target = Target.of(continuous("a", (x[:, 0] * 2).numpy()))
    q = Estimator(x, target, config(learning_rate=1e-2, steps=200), 0)
    before, after = q.follow(x, target.labels), q.follow(x, target.labels)
    assert float(after) > float(before)
    assert float(after) > 0.5  # guessing from the marginal gives -1.42
    assert float(q.push(x, target.labels)[0]) > 1
    with torch.no_grad():
        assert float(q.q.label_free_vclub(x)) > 1


def test_batches_are_samples_without_replacement() -> None:
    assert Batches(5, None, torch_rng(0)).draw() == Batches(5, 9, torch_rng(0)).draw() == slice(None)
    batches = Batches(30, 10, torch_rng(0))
    first, second = batches.draw(), batches.draw()
    assert isinstance(first, Tensor)
    assert isinstance(second, Tensor)
    assert len(first) == len(first.unique()) == 10
    assert not torch.equal(first, second)
