"""Two matrices from anywhere as a recommender: scored by dot product, refitted whatever their scale."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from oblivec.datasets.interactions import LeaveOneOut
from oblivec.metrics import rank_test_items
from oblivec.randomness import numpy_rng
from oblivec.recommenders.dot_product import dot_product

N, M, D = 200, 60, 6


@pytest.fixture(scope="module")
def problem() -> tuple[np.ndarray, np.ndarray, LeaveOneOut]:
    """Users, items, and what users like: their best items, the last of them held out."""
    rng = numpy_rng(0, "dot product")
    U, V = (rng.standard_normal((rows, D)).astype(np.float32) for rows in (N, M))
    liked = np.argsort(-(U @ V.T), axis=1)[:, :8]
    liked = rng.permuted(liked, axis=1)
    train = csr_matrix((np.ones(7 * N, np.float32), (np.repeat(np.arange(N), 7), liked[:, :7].ravel())), (N, M))
    train.sort_indices()
    return U, V, LeaveOneOut(train, liked[:, 7], "file-order")


def test_scores_are_dot_products(problem: tuple[np.ndarray, np.ndarray, LeaveOneOut]) -> None:
    U, V, _ = problem
    assert np.allclose(dot_product(U, V).scores(torch.arange(3)), U[:3] @ V.T, atol=1e-5)


def test_a_refit_mends_items_that_fit_no_longer(problem: tuple[np.ndarray, np.ndarray, LeaveOneOut]) -> None:
    U, V, split = problem
    model = dot_product(U, V + numpy_rng(1, "noise").standard_normal(V.shape).astype(np.float32))
    refitted = model.refit_items(split, epochs=20, device="cpu")
    before, after = (rank_test_items(one.scores, split).ndcg() for one in (model, refitted))
    assert after > 1.1 * before
    assert torch.equal(refitted.users, model.users)


def test_the_scale_of_either_matrix_changes_nothing(problem: tuple[np.ndarray, np.ndarray, LeaveOneOut]) -> None:
    U, V, split = problem
    one = dot_product(U, V).refit_items(split, epochs=3, device="cpu").item_matrix()
    other = dot_product(64 * U, V / 256).refit_items(split, epochs=3, device="cpu").item_matrix()
    assert one is not None
    assert other is not None
    assert not np.array_equal(one, V)
    assert np.allclose(256 * other, one, atol=1e-4)


def test_degenerate_matrices_are_survived(problem: tuple[np.ndarray, np.ndarray, LeaveOneOut]) -> None:
    U, V, split = problem
    for model in (dot_product(0 * U, V), dot_product(U, 0 * V)):
        items = model.refit_items(split, epochs=1, device="cpu").item_matrix()
        assert np.isfinite(items).all()  # type: ignore[arg-type]
