"""Ranking metrics against an oracle that sorts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_matrix

from oblivec.datasets.interactions import LeaveOneOut
from oblivec.metrics import Ranking, factor_scorer, rank_test_items


def oracle_rank(scores: np.ndarray, seen: np.ndarray, test: int) -> int:
    """Sort the unseen items by score, then by number, and look the test item up."""
    unseen = [item for item in range(len(scores)) if not seen[item]]
    return sorted(unseen, key=lambda item: (-scores[item], item)).index(test) + 1


@st.composite
def tied_problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n_users, n_items = draw(st.integers(1, 7)), draw(st.integers(2, 12))
    # Few distinct values, so that ties are the rule; infinities, because a scorer may mask with them.
    values = st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0, np.inf])
    scores = draw(hnp.arrays(np.float32, (n_users, n_items), elements=values))
    test = draw(hnp.arrays(np.int64, n_users, elements=st.integers(-1, n_items - 1)))
    seen = draw(hnp.arrays(np.bool_, (n_users, n_items)))
    seen[np.arange(n_users)[test >= 0], test[test >= 0]] = False
    return scores, seen, test


@settings(max_examples=300, deadline=None)
@given(tied_problems(), st.sampled_from([0.0, 1e-4, 1.0]))
def test_counting_equals_sorting_at_every_memory_budget(
    problem: tuple[np.ndarray, np.ndarray, np.ndarray], budget: float
) -> None:
    scores, seen, test = problem
    split = LeaveOneOut(csr_matrix(seen.astype(np.float32)), test, "file-order")
    ranking = rank_test_items(lambda users: torch.from_numpy(scores)[users], split, memory_budget_mb=budget)
    expected = [oracle_rank(scores[user], seen[user], test[user]) for user in np.flatnonzero(test >= 0)]
    assert ranking.users.tolist() == np.flatnonzero(test >= 0).tolist()
    assert ranking.ranks.tolist() == expected


def test_known_answer() -> None:
    ranking = Ranking(users=np.arange(4), ranks=np.array([1, 3, 10, 11]))
    assert ranking.hit_ratio(10) == 75.0
    assert ranking.hit_ratio(1) == 25.0
    assert ranking.ndcg(10) == pytest.approx(100 * (1 + 1 / 2 + 1 / np.log2(11)) / 4)
    assert ranking.summary(10).keys() == {"hr@10", "ndcg@10"}


@pytest.mark.parametrize("where", ["test item", "another item"])
def test_a_missing_score_never_helps(where: str) -> None:
    scores = torch.tensor([[3.0, 1.0, 2.0, 0.0]])
    split = LeaveOneOut(csr_matrix((1, 4), dtype=np.float32), np.array([2]), "file-order")
    assert rank_test_items(lambda users: scores[users], split).ranks.tolist() == [2]
    scores[0, 2 if where == "test item" else 3] = torch.nan
    worse = rank_test_items(lambda users: scores[users], split).ranks.tolist()
    assert worse == ([4] if where == "test item" else [3])


def test_nobody_to_test_gives_nan_and_no_warning() -> None:
    split = LeaveOneOut(csr_matrix((2, 3), dtype=np.float32), np.array([-1, -1]), "file-order")
    ranking = rank_test_items(lambda users: torch.zeros(len(users), 3), split)
    assert np.isnan(ranking.hit_ratio())
    assert np.isnan(ranking.ndcg())


def test_factors_score_by_dot_product() -> None:
    users, items = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[1.0, 3.0], [4.0, -1.0]])
    assert factor_scorer(users, items)(torch.tensor([1, 0])).tolist() == [[6.0, -2.0], [1.0, 4.0]]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_gpu_ranks_as_the_cpu_does() -> None:
    rng = np.random.default_rng(0)
    scores = torch.from_numpy(rng.integers(0, 50, (200, 300)).astype(np.float32))
    seen = rng.random((200, 300)) < 0.1
    test = rng.integers(0, 300, 200)
    seen[np.arange(200), test] = False
    split = LeaveOneOut(csr_matrix(seen.astype(np.float32)), test, "file-order")
    on_gpu = scores.cuda()
    cpu = rank_test_items(lambda users: scores[users], split)
    gpu = rank_test_items(lambda users: on_gpu[users], split, device="cuda")
    assert np.array_equal(cpu.ranks, gpu.ranks)
