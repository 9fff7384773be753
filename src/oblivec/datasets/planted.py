"""Embeddings that leak an attribute by a known amount: the yardstick for every attacker.

Each kind of leak hides the same quantity of information in a different place, and its Bayes-optimal *balanced*
accuracy (the best mean recall over classes any attacker can reach, however clever) is known in closed form or as a
one-dimensional integral. An attacker that scores above it is broken; a panel that scores far under it is blind.

Class-conditional laws, with C classes and d dimensions, before the random rotation:

=============  =============================================  ==========================================
kind           law of an embedding given its class c          strength
=============  =============================================  ==========================================
linear         N(vertex c of a regular simplex, I)            distance between two class means
low-variance   the same, in directions shrunk a hundredfold   the same, in units of the shrunk deviation
variance-only  N(0, strength^(2c) I), c in {0, 1}             ratio of the standard deviations
interaction    sign(x1 x2) agrees with c in {0, 1}, or not    probability of agreeing
cluster        one of 16 separate Gaussians, 8 leaning to c   probability of a cluster leaning to c
none           N(0, I)                                        without meaning
=============  =============================================  ==========================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.integrate import quad
from scipy.linalg import hadamard, helmert
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import chi2, norm

from oblivec.datasets.attributes import Attribute
from oblivec.errors import BadInput
from oblivec.randomness import numpy_rng

SHRUNK_DEVIATION = 0.01
"""Standard deviation of the leaking directions of `low-variance`; every other direction has 1."""
CLUSTER_RADIUS = 10.0
"""Distance of a cluster's centre from the origin and from its nearest neighbour, in standard deviations; a user is
nearest to a centre other than their own about once in a million."""
STRONGEST = 30.0
"""Upper end of the search for a strength."""


@dataclass(frozen=True)
class Planted:
    """Embeddings (N x d, float32), the attribute planted in them, and the best balanced accuracy there is."""

    embeddings: np.ndarray
    attribute: Attribute
    bayes_accuracy: float


@dataclass(frozen=True)
class Leak:
    """One kind of leak: what an attacker can get at most, and how to draw embeddings given the labels."""

    bayes: Callable[[float, int, int], float]
    """Bayes balanced accuracy of (strength, classes, dimensions)."""
    draw: Callable[[np.ndarray, int, int, float, np.random.Generator], np.ndarray]
    """Embeddings of (labels, classes, dimensions, strength, random generator)."""
    weakest: float
    """The strength at which nothing leaks."""
    strongest: float = STRONGEST
    only_two_classes: bool = True
    rotated: bool = True


def plant(
    kind: str,
    n_users: int,
    dimensions: int,
    bayes_accuracy: float,
    *,
    class_counts: Sequence[float] = (0.5, 0.5),
    seed: int = 0,
    rotate: bool | None = None,
) -> Planted:
    """Embeddings whose leak is of `kind` and allows exactly `bayes_accuracy`, a balanced accuracy.

    `class_counts` are relative class sizes, met exactly up to rounding; balanced accuracy does not depend on them.
    `rotate` turns the whole space at random, so that no coordinate is special; by default every kind but
    `interaction` is rotated. For `none`, whatever is asked, the result is 1 / C.
    """
    leak = _leak(kind)
    shares = np.asarray(class_counts, dtype=np.float64)
    classes = len(shares)
    if classes < 2 or (shares <= 0).any():
        raise BadInput("class_counts: give at least two classes, each with a positive share")
    if leak.only_two_classes and classes != 2:
        raise BadInput(f"a leak of kind {kind} has two classes; {classes} were asked for")
    if kind != "none" and dimensions < (least := _least_dimensions(kind, classes)):
        raise BadInput(f"a leak of kind {kind} with {classes} classes needs at least {least} dimensions")
    strength = strength_for(kind, bayes_accuracy, classes=classes, dimensions=dimensions)
    rng = numpy_rng(seed, "planted", kind, n_users, dimensions)
    labels = rng.permutation(_labels(n_users, shares))
    embeddings = leak.draw(labels, classes, dimensions, strength, rng)
    if leak.rotated if rotate is None else rotate:
        embeddings = embeddings @ random_rotation(dimensions, rng)
    attribute = Attribute(kind, "categorical", labels, tuple(f"class {c}" for c in range(classes)))
    return Planted(embeddings.astype(np.float32), attribute, leak.bayes(strength, classes, dimensions))


def bayes_accuracy(kind: str, strength: float, *, classes: int = 2, dimensions: int = 1) -> float:
    """The best balanced accuracy against a leak of this kind and strength. `dimensions` matters to `variance-only`."""
    return _leak(kind).bayes(strength, classes, dimensions)


def strength_for(kind: str, bayes_accuracy: float, *, classes: int = 2, dimensions: int = 1) -> float:
    """The inverse of `bayes_accuracy`: how strong a leak must be for the best attacker to reach this much."""
    leak = _leak(kind)
    if kind == "none":
        return leak.weakest
    excess = lambda strength: leak.bayes(strength, classes, dimensions) - bayes_accuracy  # noqa: E731
    if abs(excess(leak.weakest)) < 1e-9:
        return leak.weakest
    if abs(excess(leak.strongest)) < 1e-9:
        return leak.strongest
    if not excess(leak.weakest) < 0 < excess(leak.strongest):
        raise BadInput(f"bayes_accuracy: between chance ({1 / classes:.3g}) and 1, not {bayes_accuracy:.6g}")
    return float(brentq(excess, leak.weakest, leak.strongest, xtol=1e-12))  # type: ignore[arg-type]


def random_rotation(dimensions: int, rng: np.random.Generator) -> np.ndarray:
    """A rotation drawn uniformly (Haar), float32."""
    basis, triangle = np.linalg.qr(rng.standard_normal((dimensions, dimensions)))
    return (basis * np.sign(np.diag(triangle))).astype(np.float32)


def simplex(classes: int, distance: float) -> np.ndarray:
    """C class means in C - 1 dimensions, every two of them `distance` apart, centred on the origin."""
    return helmert(classes).T * (distance / np.sqrt(2))


def simplex_accuracy(distance: float, classes: int) -> float:
    """Bayes accuracy of C unit Gaussians at the vertices of a regular simplex: E_z[Phi(z + distance / sqrt 2)^(C-1)].

    For two classes this is Phi(distance / 2).
    """
    if classes == 2:
        return float(ndtr(distance / 2))
    shift = distance / np.sqrt(2)
    return float(quad(lambda z: norm.pdf(z) * ndtr(z + shift) ** (classes - 1), -9, 9, epsabs=1e-12)[0])


def _spread_accuracy(ratio: float, dimensions: int) -> float:
    """N(0, I) against N(0, ratio^2 I): the best rule is a threshold on |x|^2, which is chi-square distributed."""
    if ratio == 1:
        return 0.5
    threshold = dimensions * 2 * np.log(ratio) / (1 - ratio**-2)
    return float((chi2.cdf(threshold, dimensions) + chi2.sf(threshold / ratio**2, dimensions)) / 2)


def _noise(rows: int, dimensions: int, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((rows, dimensions), dtype=np.float32)


def _draw_linear(labels: np.ndarray, classes: int, dimensions: int, strength: float, rng: np.random.Generator):
    embeddings = _noise(len(labels), dimensions, rng)
    embeddings[:, : classes - 1] += simplex(classes, strength).astype(np.float32)[labels]
    return embeddings


def _draw_low_variance(labels: np.ndarray, classes: int, dimensions: int, strength: float, rng: np.random.Generator):
    embeddings = _draw_linear(labels, classes, dimensions, strength, rng)
    embeddings[:, : classes - 1] *= np.float32(SHRUNK_DEVIATION)
    return embeddings


def _draw_variance(labels: np.ndarray, classes: int, dimensions: int, strength: float, rng: np.random.Generator):
    spread = np.where(labels == 1, np.float32(strength), np.float32(1))
    return _noise(len(labels), dimensions, rng) * spread[:, None]


def _draw_interaction(labels: np.ndarray, classes: int, dimensions: int, strength: float, rng: np.random.Generator):
    embeddings = _noise(len(labels), dimensions, rng)
    shown = np.where(rng.random(len(labels)) < strength, labels, 1 - labels)
    first_sign = np.where(embeddings[:, 0] < 0, -1, 1)
    embeddings[:, 1] = np.abs(embeddings[:, 1]) * first_sign * np.where(shown == 1, 1, -1)
    return embeddings


def _draw_cluster(labels: np.ndarray, classes: int, dimensions: int, strength: float, rng: np.random.Generator):
    """Class 0 leans to +-e_i, class 1 to +-h_i, with e and h two orthonormal bases of the same four dimensions.

    Hence both classes have the same mean and the same covariance whatever the strength: no linear and no pairwise
    statistic tells them apart, and only an attacker that resolves the clusters does.
    """
    bases = np.stack([np.eye(4), hadamard(4) / 2])
    shown = np.where(rng.random(len(labels)) < strength, labels, 1 - labels)
    centres = bases[shown, rng.integers(4, size=len(labels))] * rng.choice([-1.0, 1.0], size=len(labels))[:, None]
    embeddings = _noise(len(labels), dimensions, rng)
    embeddings[:, :4] += (CLUSTER_RADIUS * centres).astype(np.float32)
    return embeddings


def _draw_nothing(labels: np.ndarray, classes: int, dimensions: int, strength: float, rng: np.random.Generator):
    return _noise(len(labels), dimensions, rng)


KINDS: dict[str, Leak] = {
    "linear": Leak(lambda s, c, d: simplex_accuracy(s, c), _draw_linear, weakest=0.0, only_two_classes=False),
    "low-variance": Leak(lambda s, c, d: simplex_accuracy(s, c), _draw_low_variance, 0.0, only_two_classes=False),
    "variance-only": Leak(lambda s, c, d: _spread_accuracy(s, d), _draw_variance, weakest=1.0, rotated=False),
    "interaction": Leak(lambda s, c, d: s, _draw_interaction, weakest=0.5, strongest=1.0, rotated=False),
    "cluster": Leak(lambda s, c, d: s, _draw_cluster, weakest=0.5, strongest=1.0),
    "none": Leak(lambda s, c, d: 1 / c, _draw_nothing, weakest=0.0, only_two_classes=False, rotated=False),
}


def _leak(kind: str) -> Leak:
    if kind not in KINDS:
        raise BadInput(f"no leak of kind {kind!r}; there are {', '.join(KINDS)}")
    return KINDS[kind]


def _least_dimensions(kind: str, classes: int) -> int:
    return {"interaction": 2, "cluster": 4, "variance-only": 1}.get(kind, classes - 1)


def _labels(n_users: int, shares: np.ndarray) -> np.ndarray:
    """Labels in class order, each class within one user of its share."""
    ends = np.rint(np.cumsum(shares / shares.sum()) * n_users).astype(np.int64)
    return np.repeat(np.arange(len(shares), dtype=np.int64), np.diff(ends, prepend=0))
