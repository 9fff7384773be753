"""The share of nearest users that an edit leaves nearest."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from oblivec.errors import BadInput
from oblivec.metrics import neighbours
from oblivec.metrics.neighbours import neighbour_overlap


def matrix(n: int = 300, d: int = 8, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


def brute_force(before: np.ndarray, after: np.ndarray, nearest: int) -> float:
    shares = []
    for user in range(len(before)):
        sets = []
        for U in (before.astype(float), after.astype(float)):
            distance = np.linalg.norm(U - U[user], axis=1)
            distance[user] = np.inf
            sets.append(set(np.argsort(distance)[:nearest].tolist()))
        shares.append(len(sets[0] & sets[1]) / nearest)
    return float(np.mean(shares))


def test_it_is_what_a_loop_over_users_finds() -> None:
    before = matrix(60)
    after = before + 0.5 * matrix(60, seed=1)
    assert neighbour_overlap(before, after, nearest=7) == pytest.approx(brute_force(before, after, 7))


def test_unchanged_moved_turned_and_shuffled() -> None:
    U = matrix()
    turn = np.linalg.qr(matrix(8, 8, seed=2))[0]
    assert neighbour_overlap(U, U) == 1
    assert neighbour_overlap(U, torch.from_numpy(3 * U @ turn + 100)) > 0.99
    assert neighbour_overlap(U, U[np.random.default_rng(1).permutation(300)]) == pytest.approx(50 / 299, abs=0.03)


def test_chunks_and_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    U = matrix()
    after = U + matrix(seed=3)
    whole = neighbour_overlap(U, after)
    monkeypatch.setattr(neighbours, "_CHUNK_DISTANCES", 1000)
    assert neighbour_overlap(U, after) == whole
    monkeypatch.setattr(neighbours, "MOST_USERS", 100)
    assert neighbour_overlap(U, after) == neighbour_overlap(U, after) == pytest.approx(whole, abs=0.05)
    assert neighbour_overlap(U, after) != neighbour_overlap(U, after, seed=1)


def test_few_users_and_other_users() -> None:
    assert neighbour_overlap(matrix(3), matrix(3, seed=1)) == 1  # both others are always nearest
    assert np.isnan(neighbour_overlap(matrix(1), matrix(1)))
    with pytest.raises(BadInput, match="3 users before and 4 after"):
        neighbour_overlap(matrix(3), matrix(4))
