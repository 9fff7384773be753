"""The fast forms of sorting, nearest users and Gram matrices give what torch gives."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from oblivec.calibration.dense import smallest, sort_columns, sorted_columns
from oblivec.randomness import torch_rng

sizes = st.integers(1, 40)


def drawn(n: int, d: int, seed: int, levels: int) -> Tensor:
    """With many equal values where levels are few."""
    return torch.randint(levels, (n, d), generator=torch_rng(seed, "dense")).float() / 8


@given(sizes, sizes, st.integers(0, 99), st.sampled_from([3, 1 << 20]))
@settings(max_examples=50, deadline=None)
def test_columns_are_sorted(n: int, d: int, seed: int, levels: int) -> None:
    X = drawn(n, d, seed, levels)
    values, order = sort_columns(X)
    assert torch.equal(values, X.sort(0).values)
    assert torch.equal(X.gather(0, order), values)
    assert torch.equal(sorted_columns(X), values)


def test_gradients_go_through_sorting() -> None:
    X = drawn(30, 4, 0, 1 << 20).requires_grad_()
    weights = torch.arange(30.0)[:, None]
    (slope,) = torch.autograd.grad((sort_columns(X)[0] * weights).sum(), X)
    assert torch.equal(slope, X.detach().argsort(0).argsort(0).float())


@given(st.integers(1, 30), st.integers(1, 300), st.integers(1, 40), st.integers(0, 99), st.sampled_from([3, 1 << 20]))
@settings(max_examples=100, deadline=None)
def test_the_smallest_values_and_where_they_are(rows: int, n: int, k: int, seed: int, levels: int) -> None:
    distances = drawn(rows, n, seed, levels)
    distances[0, 0] = torch.inf  # as a user's distance to itself
    k = min(k, n)
    values, places = smallest(distances, k)
    assert torch.equal(values, distances.topk(k, largest=False).values)
    assert torch.equal(distances.gather(1, places), values)
    assert all(len(set(row)) == k for row in places.tolist())
