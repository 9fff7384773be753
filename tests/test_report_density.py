"""The two-dimensional view: it shows what is there, nothing that is not, and nobody in particular."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oblivec.audit.charts import class_maps
from oblivec.audit.density import CHUNK, density_view, separating_plane
from oblivec.audit.result import SMALLEST_CELL, DensityView
from oblivec.datasets.attributes import MISSING, Attribute, categorical, continuous
from oblivec.randomness import numpy_rng


def coloured(view: DensityView, is_continuous: bool = False) -> float:
    """Share of the cells of all maps that are drawn as more or less common."""
    maps = class_maps(view, is_continuous)
    assert maps is not None
    return sum(one.more + one.less for one in maps.maps) / sum(len(one.squares) for one in maps.maps)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_noise_looks_like_noise_though_the_plane_was_chosen_to_separate(n_classes: int, seed: int) -> None:
    rng = numpy_rng(seed, "noise")
    U = rng.normal(size=(2000, 64))
    view = density_view(U, categorical("a", rng.integers(n_classes, size=2000)), seed)
    assert coloured(view) < 0.1


@pytest.mark.parametrize("n_classes", [2, 4])
def test_leak_hidden_in_a_narrow_direction_is_seen(n_classes: int) -> None:
    rng = numpy_rng(0, "leak")
    labels = rng.integers(n_classes, size=6000)
    U = rng.normal(size=(6000, 32))
    U[:, 7] = 0.001 * (U[:, 7] + 2 * labels)
    U = U @ np.linalg.qr(rng.normal(size=(32, 32)))[0]
    assert coloured(density_view(U, categorical("a", labels), 0)) > 0.4


def test_continuous_attribute_is_cut_in_thirds_from_low_to_high() -> None:
    rng = numpy_rng(0, "thirds")
    U = rng.normal(size=(6000, 8))
    values = U[:, 2] + 0.3 * rng.normal(size=6000)
    values[:300] = np.nan
    view = density_view(U, continuous("a", values), 0)
    drawn = view.cells.sum(axis=(1, 2))
    assert view.cells.shape[0] == 3
    assert drawn.min() > 0.25 * drawn.sum()
    columns = np.arange(view.cells.shape[2])
    centres = (view.cells.sum(axis=1) * columns).sum(axis=1) / drawn
    assert centres[0] < centres[1] < centres[2]


def test_classes_go_from_largest_to_smallest_and_missing_labels_are_left_out() -> None:
    rng = numpy_rng(0, "sizes")
    values = rng.choice([MISSING, 0, 1, 2], p=[0.2, 0.1, 0.5, 0.2], size=20_000)
    view = density_view(rng.normal(size=(20_000, 4)), Attribute("a", "categorical", values, ("x", "y", "z", "none")), 0)
    drawn = view.cells.sum(axis=(1, 2))
    assert len(drawn) == 3
    assert drawn[0] > drawn[1] > drawn[2]
    labelled = int((values != MISSING).sum())
    assert 0.7 * labelled / 2 < drawn.sum() <= labelled / 2 + 1


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(0, 400), d=st.integers(1, 5), n_classes=st.integers(1, 6), seed=st.integers(0, 5),
    constant=st.booleans(), is_continuous=st.booleans(),
)
def test_any_small_matrix_gives_a_view_without_small_cells(
    n: int, d: int, n_classes: int, seed: int, constant: bool, is_continuous: bool
) -> None:
    rng = numpy_rng(seed, n, d)
    U = np.ones((n, d)) if constant else rng.normal(size=(n, d))
    labels = rng.integers(n_classes, size=n)
    attribute = continuous("a", labels.astype(float)) if is_continuous else categorical("a", labels)
    totals = density_view(U, attribute, seed).cells.sum(axis=0)
    assert ((totals == 0) | (totals >= SMALLEST_CELL)).all()
    assert totals.sum() <= n - n // 2
    assert totals.shape[0] in (1, round(totals.shape[1] * 2 / 3))


def test_same_seed_same_view_whatever_the_type() -> None:
    rng = numpy_rng(0, "same")
    U = rng.normal(size=(3000, 8)).astype(np.float32)
    attribute = categorical("a", rng.integers(3, size=3000))
    first, again = density_view(U, attribute, 5), density_view(U.astype(np.float64), attribute, 5)
    assert (first.cells == again.cells).all()
    assert (first.cells != density_view(U, attribute, 6).cells).any()


def test_plane_in_chunks_is_the_plane_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = numpy_rng(0, "chunks")
    U, codes, users = rng.normal(size=(1000, 6)), rng.integers(3, size=1000), np.arange(1000)
    assert CHUNK > 1000
    whole = separating_plane(U, users, codes, 3)
    monkeypatch.setattr("oblivec.audit.density.CHUNK", 64)
    assert np.allclose(whole, separating_plane(U, users, codes, 3))


def test_second_axis_of_two_classes_is_uncorrelated_with_the_first() -> None:
    rng = numpy_rng(0, "axes")
    U = rng.normal(size=(4000, 6)) @ rng.normal(size=(6, 6))
    codes = rng.integers(2, size=4000)
    U[:, 0] += codes
    points = U @ separating_plane(U, np.arange(4000), codes, 2)
    centred = points - np.stack([points[codes == c].mean(axis=0) for c in (0, 1)])[codes]
    first, second = centred.T
    assert abs(first @ second) < 0.05 * np.linalg.norm(first) * np.linalg.norm(second)
