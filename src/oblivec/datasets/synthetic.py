"""A made-up data set of any size, with attributes whose Bayes-optimal inference accuracy is known.

Every user has a latent taste. Each attribute moves the taste in dimensions of its own: given its class, those
dimensions are a unit Gaussian around a vertex of a regular simplex, which fixes the best balanced accuracy any
attacker who sees the taste can have (`planted.simplex_accuracy`). An attacker who sees only interactions, or
embeddings trained on them, sees a noisy function of the taste and by the data-processing inequality can do no better.

A user is shown items drawn by popularity (a power law) and picks those that fit their taste. Work and memory grow with
the number of interactions, never with users times items.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from scipy.special import expit

from oblivec.datasets.attributes import Attribute
from oblivec.datasets.dataset import Dataset
from oblivec.datasets.entry import Entry
from oblivec.datasets.interactions import Interactions
from oblivec.datasets.planted import simplex, simplex_accuracy, strength_for
from oblivec.errors import BadInput
from oblivec.randomness import numpy_rng

FEWEST_PER_USER = 5
CANDIDATES_AT_ONCE = 4_000_000
LICENCE = "Made up by a random generator: nobody is in it and nothing restricts its use."
CITATION = "Oblivec's generator, oblivec.datasets.synthetic."


class PlantedAttribute(BaseModel):
    """One attribute to plant."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    """Column name."""
    shares: tuple[float, ...]
    """Relative class sizes."""
    bayes_accuracy: float = Field(gt=0, lt=1)
    """Balanced accuracy of the best attacker who sees the latent taste."""


class SyntheticConfig(BaseModel):
    """What to make up."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    users: int = Field(default=1200, ge=1)
    """Rows of the user matrix."""
    items: int = Field(default=600, ge=FEWEST_PER_USER)
    """Size of the catalogue; an unpopular item may have no interaction."""
    interactions: int = Field(default=60_000, ge=1)
    """Aimed at; met within a percent unless the catalogue is nearly exhausted by its users."""
    attributes: tuple[PlantedAttribute, ...] = (
        PlantedAttribute(name="gender", shares=(0.7, 0.3), bayes_accuracy=0.85),
        PlantedAttribute(name="age", shares=(0.35, 0.35, 0.3), bayes_accuracy=0.75),
        PlantedAttribute(name="occupation", shares=(4, 3, 2, 1, 1, 1), bayes_accuracy=0.5),
    )
    """Planted in dimensions of their own, hence independent of each other."""
    taste_dimensions: int = Field(default=16, ge=1)
    """Dimensions of the latent taste; the attributes take C - 1 of them each."""
    taste_weight: float = Field(default=2.0, ge=0)
    """How much taste, against chance, decides what a user picks among the items shown."""
    popularity_exponent: float = Field(default=1.0, ge=0)
    """Item of rank r is shown with probability proportional to (r + 10) to minus this."""
    shown_per_pick: int = Field(default=5, ge=2)
    """Items shown for every one picked."""
    seed: int = Field(default=0, ge=0)
    """Decides everything that is drawn."""


@dataclass(frozen=True)
class Synthetic:
    """The data set, the latent tastes behind it (N x k, float32) and what the best attacker reaches per attribute."""

    dataset: Dataset
    tastes: np.ndarray
    bayes_accuracy: dict[str, float]


def generate(config: SyntheticConfig | None = None) -> Synthetic:
    """Make up a data set; the same configuration gives the same one."""
    config = config or SyntheticConfig()
    tastes, attributes, accuracies = _tastes(config)
    users, items = _picks(config, tastes)
    rng = numpy_rng(config.seed, "synthetic", "times")
    # Several picks share a second now and then, as in real logs, so that ties are exercised.
    timestamps = 1_000_000_000 + rng.integers(0, 50, size=len(users)).cumsum() // 20
    interactions = Interactions(users, items, timestamps, np.arange(config.users), np.arange(config.items))
    dataset = Dataset(
        "synthetic", interactions, attributes, notes=("made up: results on it say nothing about real users",),
        licence=LICENCE, citation=CITATION, source=f"seed {config.seed}",
    )
    return Synthetic(dataset, tastes, accuracies)


def large(
    users: int = 25_473, items: int = 284_996, interactions: int = 4_619_183, *, seed: int = 0
) -> Dataset:
    """A data set of the size of KuaiSAR-small after pre-processing, within 2 GB."""
    features = (
        PlantedAttribute(name="onehot_feat1", shares=(1,) * 8, bayes_accuracy=0.3),
        PlantedAttribute(name="onehot_feat2", shares=(1,) * 3, bayes_accuracy=0.6),
    )
    config = SyntheticConfig(
        users=users, items=items, interactions=interactions, attributes=features, seed=seed, shown_per_pick=3,
        popularity_exponent=0.8,
    )
    return generate(config).dataset


@dataclass(frozen=True)
class SyntheticEntry(Entry):
    """The default configuration, for demonstrations and tests."""

    def load(self, path: Path | None, root: Path) -> Dataset:
        if path is not None:
            raise BadInput("synthetic is made up and takes no --path; leave it out")
        return generate().dataset

    def fetch(self, path: Path | None, root: Path) -> str:
        return "synthetic is made up when it is used; there is nothing to fetch"

    def presence(self, root: Path) -> str:
        return "made up when used"


ENTRY = SyntheticEntry(
    name="synthetic",
    title="Made-up users with planted attributes",
    licence=LICENCE,
    citation=CITATION,
    by_hand="it is made up when it is used",
)


def _tastes(config: SyntheticConfig) -> tuple[np.ndarray, dict[str, Attribute], dict[str, float]]:
    needed = sum(len(planted.shares) - 1 for planted in config.attributes)
    if needed > config.taste_dimensions:
        raise BadInput(f"taste_dimensions: the attributes need at least {needed}, not {config.taste_dimensions}")
    rng = numpy_rng(config.seed, "synthetic", "tastes")
    tastes = rng.standard_normal((config.users, config.taste_dimensions), dtype=np.float32)
    attributes, accuracies, first = {}, {}, 0
    for planted in config.attributes:
        classes = len(planted.shares)
        shares = np.asarray(planted.shares) / sum(planted.shares)
        labels = rng.choice(classes, size=config.users, p=shares)
        distance = strength_for("linear", planted.bayes_accuracy, classes=classes)
        tastes[:, first : first + classes - 1] += simplex(classes, distance).astype(np.float32)[labels]
        first += classes - 1
        names = tuple(f"{planted.name} {c}" for c in range(classes))
        attributes[planted.name] = Attribute(planted.name, "categorical", labels.astype(np.int64), names)
        accuracies[planted.name] = simplex_accuracy(distance, classes)
    return tastes, attributes, accuracies


def _picks(config: SyntheticConfig, tastes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Who picked what, user by user: of the items shown to a user, those of highest taste plus Gumbel noise."""
    rng = numpy_rng(config.seed, "synthetic", "picks")
    flavours = rng.standard_normal((config.items, config.taste_dimensions), dtype=np.float32)
    flavours *= np.float32(config.taste_weight / np.sqrt(config.taste_dimensions))
    popularity = (np.arange(config.items) + 10.0) ** -config.popularity_exponent
    shown_until = np.cumsum(popularity / popularity.sum())
    by_rank = rng.permutation(config.items)
    wanted = _activity(config, rng)
    chunk = np.cumsum(wanted) * config.shown_per_pick // CANDIDATES_AT_ONCE
    starts = np.flatnonzero(np.diff(chunk, prepend=-1))
    chunks = []
    for start, stop in zip(starts, [*starts[1:], config.users], strict=True):
        users = np.repeat(np.arange(start, stop), wanted[start:stop] * config.shown_per_pick)
        ranks = np.searchsorted(shown_until, rng.random(len(users)))
        pairs = np.sort(users * config.items + by_rank[np.minimum(ranks, config.items - 1)])
        users, items = np.divmod(pairs[np.diff(pairs, prepend=-1) > 0], config.items)
        liking = np.einsum("ij,ij->i", tastes[users], flavours[items]) + rng.gumbel(size=len(users))
        order = np.argsort(users + expit(-liking) / 2)  # by user, then by liking; one key sorts faster than two
        users, items = users[order], items[order]
        place = np.arange(len(users)) - np.searchsorted(users, users)
        picked = place < wanted[users]
        chunks.append(np.stack([users[picked], items[picked]]))
    users, items = np.concatenate(chunks, axis=1)
    # What a user likes best must not also be what they did first: shuffle within each user.
    order = np.argsort(users + rng.random(len(users)) / 2)
    return users[order], items[order]


def _activity(config: SyntheticConfig, rng: np.random.Generator) -> np.ndarray:
    """Interactions per user: log-normal, no fewer than `FEWEST_PER_USER`, no more than a third of the catalogue."""
    appetite = rng.lognormal(sigma=0.9, size=config.users)
    most = max(FEWEST_PER_USER, config.items // 3)
    counts = np.full(config.users, FEWEST_PER_USER)
    for _ in range(30):  # rescaling what the bounds cut off converges fast
        scale = config.interactions / counts.sum()
        if abs(scale - 1) < 1e-3:
            break
        appetite *= scale if counts.max() > FEWEST_PER_USER else config.interactions / appetite.sum()
        counts = np.clip(np.rint(appetite), FEWEST_PER_USER, most).astype(np.int64)
    return counts
