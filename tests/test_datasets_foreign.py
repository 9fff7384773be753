"""Matrices with the faults of other libraries' have those faults, and leak what they are said to leak."""

from __future__ import annotations

import numpy as np
import pytest

from oblivec.datasets.foreign import KINDS, foreign_matrix
from oblivec.errors import BadInput


@pytest.mark.parametrize("kind", KINDS)
def test_rows_labels_and_the_seed(kind: str) -> None:
    made, again = foreign_matrix(kind, 200, 16, seed=3), foreign_matrix(kind, 200, 16, seed=3)
    assert made.embeddings.dtype == np.float32
    assert np.isfinite(made.embeddings).all()
    assert np.array_equal(made.embeddings, again.embeddings)
    assert not np.array_equal(made.embeddings, foreign_matrix(kind, 200, 16, seed=4).embeddings)
    for name, attribute in made.attributes.items():
        assert attribute.name == name
        assert len(attribute.values) == len(made.embeddings)
        assert attribute.missing == 0


def test_each_has_its_fault() -> None:
    made = {kind: foreign_matrix(kind, 600, 16, seed=1) for kind in KINDS}
    rank = {kind: np.linalg.matrix_rank(matrix.embeddings.astype(float), rtol=1e-6) for kind, matrix in made.items()}
    norms = np.linalg.norm(made["heavy-tails"].embeddings, axis=1)
    assert norms.max() > 20 * np.median(norms)
    assert (made["constant-column"].embeddings[:, -1] == 1).all()
    assert rank["duplicate-columns"] == 8
    assert rank["collinear-columns"] <= 12
    zero = (made["zero-rows"].embeddings == 0).all(1)
    assert 30 < zero.sum() < 90
    assert 0.45 < (made["non-negative"].embeddings == 0).mean() < 0.55
    assert made["non-negative"].embeddings.min() == 0
    assert np.unique(made["codes"].embeddings).tolist() == [-1, 1]
    assert max(len(np.unique(column)) for column in made["quantised"].embeddings.T) <= 17
    assert len(made["wide"].embeddings) < made["wide"].embeddings.shape[1]
    assert (made["rare-classes"].attributes["many"].counts == 1).sum() >= 5
    assert made["continuous"].attributes["amount"].is_continuous
    along, up = made["waves"].embeddings[:, 0], made["waves"].attributes["two"].values
    assert up[np.sin(4 * along) > 0].mean() - up[np.sin(4 * along) < 0].mean() > 0.4


@pytest.mark.parametrize("kind", ["heavy-tails", "constant-column", "duplicate-columns", "zero-rows"])
def test_the_plain_leaks_are_linear_in_the_direction_of_a_row(kind: str) -> None:
    """Least squares on unit rows, half of the users held out: well above chance for both attributes."""
    made = foreign_matrix(kind, 2000, 16)
    rows = made.embeddings / np.maximum(np.linalg.norm(made.embeddings, axis=1, keepdims=True), 1e-12)
    rows = np.c_[rows, np.ones(len(rows))]
    for attribute in made.attributes.values():
        target = np.eye(len(attribute.classes))[attribute.values] / attribute.counts
        weights = np.linalg.lstsq(rows[::2], target[::2], rcond=None)[0]
        guess, truth = (rows[1::2] @ weights).argmax(1), attribute.values[1::2]
        accuracy = np.mean([(guess[truth == c] == c).mean() for c in range(len(attribute.classes))])
        assert accuracy > 1 / len(attribute.classes) + 0.1


def test_the_continuous_one_is_one_third_linear() -> None:
    made = foreign_matrix("continuous", 6000, 16)
    value = made.attributes["amount"].values
    x = np.c_[made.embeddings.astype(float), np.ones(len(value))]
    residual = value - x @ np.linalg.lstsq(x, value, rcond=None)[0]
    assert 1 - residual.var() / value.var() == pytest.approx(1 / 3, abs=0.04)


def test_what_cannot_be_made_is_refused() -> None:
    with pytest.raises(BadInput, match="there are heavy-tails"):
        foreign_matrix("nice")
    with pytest.raises(BadInput, match="at least"):
        foreign_matrix("heavy-tails", 5, 16)
