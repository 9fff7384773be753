"""Full-catalogue ranking quality by leave-one-out: where does each user's held-out item stand?

The rank of a test item is found by counting, not by sorting: one pass over the scores, no top-K list, any K afterwards.
Exact, and chunked over users so that memory stays within a budget whatever the catalogue.

**Ties.** Among equal scores the lower item number stands first. An item without a score (NaN) counts as standing before
the test item, and a test item without a score stands last: a diverged model is never flattered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from oblivec.datasets.interactions import LeaveOneOut

Scorer = Callable[[Tensor], Tensor]
"""From B user numbers (int64) to their B x M scores, higher is better, on any device."""

MEMORY_BUDGET_MB = 128
"""Room for one chunk's scores and what is compared with them."""

_CACHE_MB = 8
"""On a CPU a chunk that stays in the cache is several times faster than one that goes through memory."""
_FEWEST_USERS = 64
"""Unless it would have fewer users than this: every chunk reads all item embeddings again."""
_BYTES_PER_SCORE = 4 + 4 + 4  # the score, the comparison, and what the scorer needs beside its result


@dataclass(frozen=True)
class Ranking:
    """The rank of every tested user's test item among the items that user has not seen in training; 1 is best."""

    users: np.ndarray
    ranks: np.ndarray

    def hits(self, k: int = 10) -> np.ndarray:
        """Per tested user, whether the test item is among the first k: what HR@k averages."""
        return (self.ranks <= k).astype(np.float64)

    def gains(self, k: int = 10) -> np.ndarray:
        """Per tested user, 1 / log2(1 + rank) within the first k, else 0: what NDCG@k averages (one relevant item)."""
        return np.where(self.ranks <= k, 1.0 / np.log2(1.0 + self.ranks), 0.0)

    def hit_ratio(self, k: int = 10) -> float:
        """HR@k in percent; NaN when nobody could be tested."""
        return _percent(self.hits(k))

    def ndcg(self, k: int = 10) -> float:
        """NDCG@k in percent; NaN when nobody could be tested."""
        return _percent(self.gains(k))

    def summary(self, k: int = 10) -> dict[str, float]:
        """The two numbers under the names the JSON files use."""
        return {f"hr@{k}": self.hit_ratio(k), f"ndcg@{k}": self.ndcg(k)}


def rank_test_items(
    scorer: Scorer,
    split: LeaveOneOut,
    *,
    device: torch.device | str = "cpu",
    memory_budget_mb: float = MEMORY_BUDGET_MB,
) -> Ranking:
    """Rank every test item against all items its user has not seen in training."""
    users = split.tested_users
    bytes_per_user = _BYTES_PER_SCORE * max(split.n_items, 1)
    chunk = max(1, int(memory_budget_mb * 2**20 / bytes_per_user))
    if torch.device(device).type == "cpu":
        chunk = min(chunk, max(_FEWEST_USERS, _CACHE_MB * 2**20 // bytes_per_user))
    ranks = [_rank_chunk(scorer, split, users[start : start + chunk], device) for start in range(0, len(users), chunk)]
    return Ranking(users, np.concatenate(ranks) if ranks else np.empty(0, dtype=np.int64))


def factor_scorer(users: Tensor, items: Tensor) -> Scorer:
    """Dot products of user and item embeddings."""
    transposed = items.T
    return lambda rows: users[rows] @ transposed


@torch.inference_mode()
def _rank_chunk(scorer: Scorer, split: LeaveOneOut, users: np.ndarray, device: torch.device | str) -> np.ndarray:
    scores = scorer(torch.as_tensor(users, device=device))
    place = scores.device
    test = torch.as_tensor(split.test_items[users], device=place)[:, None]
    goal = scores.gather(1, test)

    # Items the test item beats, seen ones included: those with a lower score, and equals with a higher number.
    # Counted in floats, exact below 2**24 items: booleans would first be copied into integers eight times their size.
    holds = torch.empty(scores.shape, device=place)
    beaten = torch.lt(scores, goal, out=holds).sum(1).long()
    tied = torch.nonzero(torch.le(scores, goal, out=holds).sum(1).long() > beaten + 1).squeeze(1)
    if len(tied):
        numbers = torch.arange(scores.shape[1], device=place)
        beaten[tied] += ((scores[tied] == goal[tied]) & (numbers > test[tied])).sum(1)

    # Take the seen ones out again.
    seen = split.train[users]
    row = torch.as_tensor(np.repeat(np.arange(len(users)), np.diff(seen.indptr)), device=place)
    item = torch.as_tensor(seen.indices.astype(np.int64), device=place)
    score, bar = scores[row, item], goal[row, 0]
    lost = (score < bar) | ((score == bar) & (item > test[row, 0]))
    beaten -= torch.bincount(row, weights=lost.double(), minlength=len(users)).long()
    unseen = split.n_items - np.diff(seen.indptr)
    return unseen - beaten.cpu().numpy()


def _percent(values: np.ndarray) -> float:
    return float(100.0 * values.mean()) if len(values) else float("nan")
