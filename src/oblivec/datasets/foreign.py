"""Made-up user matrices with the faults of those that other libraries leave behind, and attributes that leak from them.

A method that was built on well-behaved matrices meets here what it will meet elsewhere: rows whose length is the
user's activity, columns that are constant or repeat each other, columns of zeros or of few values, users without any
interaction, leaks that no mean shows, fewer users than dimensions, classes of a single user. Nothing here is anybody's
data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from oblivec.datasets.attributes import Attribute, continuous
from oblivec.datasets.planted import plant, random_rotation
from oblivec.errors import BadInput
from oblivec.randomness import numpy_rng

ACTIVITY_TAIL = 1.2
"""Exponent of the Pareto law of activity: the smaller, the heavier the tail. At 1.2 the variance is infinite."""
PLANTED_ACCURACY = 0.75
"""Bayes balanced accuracy of every planted leak."""
CLASS_DISTANCE = 1.0
"""Standard deviation of a class mean's coordinates along each of the few directions that a plain leak uses."""


@dataclass(frozen=True)
class ForeignMatrix:
    """Row i of every attribute belongs to row i of the embeddings (N x d, float32)."""

    embeddings: np.ndarray
    attributes: dict[str, Attribute]


def foreign_matrix(kind: str, n_users: int = 1500, dimensions: int = 32, seed: int = 0) -> ForeignMatrix:
    """A matrix with the fault `kind`, one of `KINDS`."""
    if kind not in KINDS:
        raise BadInput(f"no foreign matrix of kind {kind!r}; there are {', '.join(KINDS)}")
    if n_users < 10 or dimensions < 4:
        raise BadInput("a foreign matrix needs at least 10 users and 4 dimensions")
    embeddings, attributes = KINDS[kind](n_users, dimensions, seed)
    return ForeignMatrix(
        np.ascontiguousarray(embeddings, dtype=np.float32), {attribute.name: attribute for attribute in attributes}
    )


def _plain(n_users: int, dimensions: int, seed: int) -> tuple[np.ndarray, list[Attribute]]:
    """Noise of decaying spread in which two attributes shift the class means: what faults are added to."""
    rng = numpy_rng(seed, "foreign", "plain", n_users, dimensions)
    embeddings = rng.normal(size=(n_users, dimensions)) * np.geomspace(1.0, 0.1, dimensions)
    attributes = []
    for name, shares in (("two", (0.7, 0.3)), ("three", (0.5, 0.3, 0.2))):
        codes = rng.choice(len(shares), size=n_users, p=shares)
        codes[: len(shares)] = np.arange(len(shares))  # every class is there, however few the users
        leaking = rng.permutation(dimensions)[: min(4, dimensions)]
        means = rng.normal(scale=CLASS_DISTANCE, size=(len(shares), len(leaking)))
        embeddings[:, leaking] += means[codes] * embeddings[:, leaking].std(0)
        attributes.append(_classes(name, codes, len(shares)))
    return embeddings @ random_rotation(dimensions, rng), attributes


def _heavy_tails(n_users: int, dimensions: int, seed: int) -> tuple[np.ndarray, list[Attribute]]:
    """Row norms follow a Pareto activity, and one class of `two` is a fifth more active."""
    embeddings, attributes = _plain(n_users, dimensions, seed)
    activity = 1 + numpy_rng(seed, "foreign", "activity", n_users).pareto(ACTIVITY_TAIL, size=n_users)
    activity *= np.where(attributes[0].values == 1, 1.2, 1.0)
    return embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True) * activity[:, None], attributes


def _constant_column(n_users: int, dimensions: int, seed: int) -> tuple[np.ndarray, list[Attribute]]:
    """As BPR with biases has it: a column of ones. Whatever an edit writes there is read by everybody."""
    embeddings, attributes = _heavy_tails(n_users, dimensions, seed)
    embeddings[:, -1] = 1.0
    return embeddings, attributes


def _duplicate_columns(n_users: int, dimensions: int, seed: int) -> tuple[np.ndarray, list[Attribute]]:
    embeddings, attributes = _plain(n_users, dimensions, seed)
    half = dimensions // 2
    embeddings[:, half : 2 * half] = embeddings[:, :half]
    return embeddings, attributes


def _collinear_columns(n_users: int, dimensions: int, seed: int) -> tuple[np.ndarray, list[Attribute]]:
    """A quarter of the columns are sums of the others, all on scales of their own."""
    embeddings, attributes = _plain(n_users, dimensions, seed)
    rng = numpy_rng(seed, "foreign", "collinear", n_users, dimensions)
    free = dimensions - dimensions // 4
    embeddings[:, free:] = embeddings[:, :free] @ rng.normal(size=(free, dimensions - free))
    return embeddings * 10.0 ** rng.uniform(-3, 3, size=dimensions), attributes


def _zero_rows(n_users: int, dimensions: int, seed: int) -> tuple[np.ndarray, list[Attribute]]:
    """A tenth of the users have no interactions, and so no embedding."""
    embeddings, attributes = _heavy_tails(n_users, dimensions, seed)
    embeddings[numpy_rng(seed, "foreign", "zeros", n_users).random(n_users) < 0.1] = 0.0
    return embeddings, attributes


def _non_negative(n_users: int, dimensions: int, seed: int) -> tuple[np.ndarray, list[Attribute]]:
    """As non-negative factors: about half of every column is exactly zero."""
    embeddings, attributes = _plain(n_users, dimensions, seed)
    return np.maximum(embeddings - np.median(embeddings, axis=0), 0), attributes


def _codes(n_users: int, dimensions: int, seed: int) -> tuple[np.ndarray, list[Attribute]]:
    """Binary codes, as hashing leaves them: two values a column."""
    embeddings, attributes = _plain(n_users, dimensions, seed)
    return np.where(embeddings > np.median(embeddings, axis=0), 1.0, -1.0), attributes


def _quantised(n_users: int, dimensions: int, seed: int) -> tuple[np.ndarray, list[Attribute]]:
    """Sixteen steps a column at most, as wide as the column asks for."""
    embeddings, attributes = _plain(n_users, dimensions, seed)
    step = 2 * np.abs(embeddings).max(0) / 15
    return np.round(embeddings / step) * step, attributes


def _wide(n_users: int, dimensions: int, seed: int) -> tuple[np.ndarray, list[Attribute]]:
    """Fewer users than dimensions: half as many."""
    return _plain(max(10, min(n_users, dimensions // 2)), dimensions, seed)


def _rare_classes(n_users: int, dimensions: int, seed: int) -> tuple[np.ndarray, list[Attribute]]:
    """An attribute of many classes beside the plain ones: five have a single user, most fewer than dimensions."""
    embeddings, attributes = _plain(n_users, dimensions, seed)
    rng = numpy_rng(seed, "foreign", "rare", n_users)
    count = 5 + max(3, n_users // (2 * dimensions))
    codes = 5 + rng.zipf(1.5, size=n_users) % (count - 5)
    codes[rng.permutation(n_users)[:5]] = np.arange(5)
    return embeddings, [*attributes[:1], _classes("many", codes, count)]


def _planted(kind: str) -> Callable[[int, int, int], tuple[np.ndarray, list[Attribute]]]:
    def make(n_users: int, dimensions: int, seed: int) -> tuple[np.ndarray, list[Attribute]]:
        planted = plant(kind, n_users, dimensions, PLANTED_ACCURACY, seed=seed)
        return planted.embeddings, [planted.attribute]

    return make


def _waves(n_users: int, dimensions: int, seed: int) -> tuple[np.ndarray, list[Attribute]]:
    """A class goes up and down along the two widest columns, several times over their range: no low moment shows it."""
    rng = numpy_rng(seed, "foreign", "waves", n_users, dimensions)
    embeddings = rng.normal(size=(n_users, dimensions)) * np.geomspace(1.0, 0.05, dimensions)
    embeddings *= np.exp(rng.normal(scale=0.5, size=(n_users, 1)))
    odds = 3 * np.sin(4 * embeddings[:, 0]) + 2 * np.sin(4 * embeddings[:, 1])
    codes = (rng.random(n_users) < 1 / (1 + np.exp(-odds))).astype(np.int64)
    return embeddings, [_classes("two", codes, 2)]


def _continuous(n_users: int, dimensions: int, seed: int) -> tuple[np.ndarray, list[Attribute]]:
    """A number of which one part in three is linear in the embedding, one a square, and one noise."""
    rng = numpy_rng(seed, "foreign", "continuous", n_users, dimensions)
    latent = rng.normal(size=(n_users, dimensions))
    value = latent[:, 0] + (latent[:, 1] ** 2 - 1) / np.sqrt(2) + rng.normal(size=n_users)
    spread = np.geomspace(1.0, 0.2, dimensions)
    return (latent * spread) @ random_rotation(dimensions, rng), [continuous("amount", 40 + 10 * value)]


def _classes(name: str, codes: np.ndarray, count: int) -> Attribute:
    return Attribute(name, "categorical", codes.astype(np.int64), tuple(f"class {c}" for c in range(count)))


KINDS: dict[str, Callable[[int, int, int], tuple[np.ndarray, list[Attribute]]]] = {
    "heavy-tails": _heavy_tails,
    "constant-column": _constant_column,
    "duplicate-columns": _duplicate_columns,
    "collinear-columns": _collinear_columns,
    "zero-rows": _zero_rows,
    "non-negative": _non_negative,
    "codes": _codes,
    "quantised": _quantised,
    "wide": _wide,
    "rare-classes": _rare_classes,
    "interaction": _planted("interaction"),
    "variance-only": _planted("variance-only"),
    "cluster": _planted("cluster"),
    "low-variance": _planted("low-variance"),
    "waves": _waves,
    "continuous": _continuous,
}
