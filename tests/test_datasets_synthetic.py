"""The generator: what it promises about sizes, seeds and the best attacker."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import balanced_accuracy_score

from oblivec.datasets import synthetic
from oblivec.datasets.synthetic import PlantedAttribute, SyntheticConfig
from oblivec.errors import BadInput


def test_the_best_attacker_on_the_taste_reaches_the_stated_accuracy():
    made = synthetic.generate(SyntheticConfig(users=30_000, items=50, interactions=150_000))
    for name, attribute in made.dataset.attributes.items():
        classes = len(attribute.classes)
        attacker = LinearDiscriminantAnalysis(priors=np.full(classes, 1 / classes))
        guess = attacker.fit(made.tastes, attribute.values).predict(made.tastes)
        reached = balanced_accuracy_score(attribute.values, guess)
        assert reached == pytest.approx(made.bayes_accuracy[name], abs=0.015)


def test_sizes_are_met_and_popularity_is_skewed():
    made = synthetic.generate()
    assert made.dataset.statistics().users == 1200
    assert made.dataset.statistics().items == 600
    assert len(made.dataset.interactions) == pytest.approx(60_000, rel=0.01)
    counts = np.sort(np.bincount(made.dataset.interactions.items, minlength=600))[::-1]
    assert counts[:60].sum() > 1.5 * counts[-200:].sum()
    assert np.bincount(made.dataset.interactions.users).min() >= synthetic.FEWEST_PER_USER


def test_interactions_carry_the_attribute():
    made = synthetic.generate()
    train, labels = made.dataset.split().train.toarray(), made.dataset.attributes["gender"].values
    rates = np.stack([train[labels == c].mean(0) for c in (0, 1)])
    shuffled = np.random.default_rng(0).permutation(labels)
    by_chance = np.stack([train[shuffled == c].mean(0) for c in (0, 1)])
    assert np.abs(rates[0] - rates[1]).mean() > 1.5 * np.abs(by_chance[0] - by_chance[1]).mean()


def test_pairs_are_distinct_and_the_seed_decides_everything():
    small = SyntheticConfig(users=50, items=40, interactions=500)
    first, same = (synthetic.generate(small).dataset.interactions for _ in range(2))
    other = synthetic.generate(small.model_copy(update={"seed": 1})).dataset.interactions
    assert np.array_equal(first.items, same.items)
    assert not np.array_equal(first.items[:100], other.items[:100])
    assert len(np.unique(first.users * 40 + first.items)) == len(first)


def test_too_few_dimensions_are_refused():
    config = SyntheticConfig(
        taste_dimensions=2, attributes=(PlantedAttribute(name="a", shares=(1,) * 5, bayes_accuracy=0.5),)
    )
    with pytest.raises(BadInput, match="at least 4"):
        synthetic.generate(config)


@pytest.mark.slow
def test_a_data_set_of_the_size_of_kuaisar_fits_in_two_gigabytes():
    program = (
        "import resource; from oblivec.datasets import synthetic\n"
        "found = synthetic.large().statistics()\n"
        "print(found.users, found.items, found.ratings, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    users, items, ratings, kilobytes = map(int, done.stdout.split())
    assert (users, items) == (25_473, 284_996)
    assert ratings == pytest.approx(4_619_183, rel=0.01)
    assert kilobytes < 2_000_000
