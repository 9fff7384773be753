"""Each kind of leak is exactly as strong as it says: its own Bayes rule reaches the stated accuracy and no more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.metrics import balanced_accuracy_score

from oblivec.datasets.planted import KINDS, bayes_accuracy, plant, simplex, strength_for
from oblivec.errors import BadInput

N = 40_000
TOLERANCE = 0.012  # four standard errors of a balanced accuracy over 20,000 test users, and estimation error


def _held_out(model, planted) -> float:
    x, y = planted.embeddings.astype(np.float64), planted.attribute.values
    half = len(y) // 2
    return float(balanced_accuracy_score(y[half:], model.fit(x[:half], y[:half]).predict(x[half:])))


@pytest.mark.parametrize("kind", ["linear", "low-variance"])
@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.7, 0.3), (5, 3, 2), (1,) * 21])
def test_linear_leaks_give_a_linear_attacker_the_bayes_accuracy(kind, shares):
    wanted = 1.8 / len(shares) if len(shares) > 2 else 0.8
    planted = plant(kind, N, 24, wanted, class_counts=shares, seed=1)
    attacker = LinearDiscriminantAnalysis(priors=np.full(len(shares), 1 / len(shares)))
    assert planted.bayes_accuracy == pytest.approx(wanted)
    assert _held_out(attacker, planted) == pytest.approx(wanted, abs=TOLERANCE)


def test_variance_leak_is_read_from_the_length_alone():
    planted = plant("variance-only", N, 16, 0.7, class_counts=(0.6, 0.4), seed=2)
    x, y = planted.embeddings, planted.attribute.values
    ratio = strength_for("variance-only", 0.7, dimensions=16)
    threshold = 16 * 2 * np.log(ratio) / (1 - ratio**-2)
    assert balanced_accuracy_score(y, (x**2).sum(1) > threshold) == pytest.approx(0.7, abs=TOLERANCE)
    assert _held_out(LinearDiscriminantAnalysis(), planted) < 0.52


def test_interaction_leak_is_the_sign_of_a_product():
    planted = plant("interaction", N, 8, 0.65, seed=3)
    x, y = planted.embeddings, planted.attribute.values
    assert balanced_accuracy_score(y, x[:, 0] * x[:, 1] > 0) == pytest.approx(0.65, abs=TOLERANCE)
    assert _held_out(LinearDiscriminantAnalysis(), planted) < 0.52
    # The coordinates themselves stay standard normal: only their product says anything.
    assert x.mean(0) == pytest.approx(np.zeros(8), abs=0.03)
    assert x.std(0) == pytest.approx(np.ones(8), abs=0.03)


def test_cluster_leak_is_invisible_to_means_and_covariances():
    planted = plant("cluster", N, 16, 0.75, seed=4)
    x, y = planted.embeddings, planted.attribute.values
    assert _held_out(LinearDiscriminantAnalysis(), planted) < 0.52
    assert _held_out(QuadraticDiscriminantAnalysis(), planted) < 0.53
    cluster = KMeans(16, n_init=5, random_state=0).fit_predict(x)  # pyright: ignore[reportArgumentType]
    counts = np.stack([np.bincount(cluster[y == c], minlength=16) for c in (0, 1)])
    guess = counts.argmax(0)[cluster]
    assert balanced_accuracy_score(y, guess) == pytest.approx(0.75, abs=TOLERANCE)


def test_none_leaks_nothing_whatever_is_asked():
    planted = plant("none", 1000, 4, 0.9, class_counts=(1, 1, 2), seed=5)
    assert planted.bayes_accuracy == pytest.approx(1 / 3)
    assert np.bincount(planted.attribute.values).tolist() == [250, 250, 500]


@settings(deadline=None, max_examples=60)
@given(kind=st.sampled_from([k for k in KINDS if k != "none"]), wanted=st.floats(0.5, 0.99), d=st.integers(4, 200))
def test_strength_is_the_inverse_of_the_bayes_accuracy(kind, wanted, d):
    strength = strength_for(kind, wanted, dimensions=d)
    assert bayes_accuracy(kind, strength, dimensions=d) == pytest.approx(wanted, abs=1e-8)


@settings(deadline=None)
@given(st.integers(2, 30), st.floats(0.1, 5))
def test_simplex_is_regular_and_centred(classes, distance):
    vertices = simplex(classes, distance)
    gaps = np.linalg.norm(vertices[:, None] - vertices[None], axis=2)[~np.eye(classes, dtype=bool)]
    assert gaps == pytest.approx(np.full(len(gaps), distance))
    assert vertices.mean(0) == pytest.approx(np.zeros(classes - 1), abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_decides_everything(kind):
    first, same, other = (plant(kind, 50, 6, 0.6, seed=seed) for seed in (7, 7, 8))
    assert first.embeddings.dtype == np.float32
    assert np.array_equal(first.embeddings, same.embeddings)
    assert not np.array_equal(first.embeddings, other.embeddings)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("linear", 10, 4, 0.4), "bayes_accuracy"),
        (("cluster", 10, 3, 0.6), "at least 4 dimensions"),
        (("sideways", 10, 3, 0.6), "no leak of kind"),
    ],
)
def test_impossible_requests_are_refused(arguments, message):
    with pytest.raises(BadInput, match=message):
        plant(*arguments)


def test_kinds_with_two_classes_refuse_more():
    with pytest.raises(BadInput, match="two classes"):
        plant("cluster", 10, 8, 0.6, class_counts=(1, 1, 1))
