"""D2DFR: the blocks add up to the naive double sum, the gradients are autograd's, and planted leaks close."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from baseline_contract import ReleaseBaselineContract, release_baseline
from calibrator_contract import noise
from oblivec.baselines.d2dfr import groups
from oblivec.baselines.mmd import discrepancy, discrepancy_gradient, widest_kernel
from oblivec.baselines.top_order import order_loss, top_lists
from oblivec.datasets.attributes import Attribute, categorical, continuous
from oblivec.datasets.planted import plant
from oblivec.information.target import Target
from oblivec.randomness import numpy_rng


def naive(X: Tensor, members: list[Tensor], anchor: int, widest: Tensor) -> Tensor:
    """The definition: means of the summed kernels over all pairs."""
    squares = (X[:, None] - X[None]).square().sum(2)
    kernel = torch.stack([torch.exp(-squares / (widest / 2**number)) for number in range(5)]).sum(0)
    total = X.new_zeros(())
    for number, rows in enumerate(members):
        if number != anchor:
            home = members[anchor]
            total = total + kernel[rows][:, rows].mean() + kernel[home][:, home].mean()
            total = total - kernel[rows][:, home].mean() - kernel[home][:, rows].mean()
    return total


def accuracy(U: Tensor, attribute: Attribute) -> float:
    """Balanced accuracy of a quadratic discriminant, out of fold: sees means and variances."""
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
    from sklearn.model_selection import cross_val_predict

    codes = attribute.values
    guesses = cross_val_predict(QuadraticDiscriminantAnalysis(reg_param=0.01), U.numpy(), codes, cv=5)
    return float(np.mean([(guesses == code)[codes == code].mean() for code in np.unique(codes)]))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, 15), min_size=2, max_size=4), st.integers(1, 6), st.integers(1, 40), st.integers(0, 999),
)
def test_blocks_equal_the_naive_double_sum(sizes: list[int], dimensions: int, block: int, seed: int) -> None:
    users = sum(sizes) + 3  # some rows belong to nobody
    X = noise(users, dimensions, seed).double() + 2.0
    members = list(torch.from_numpy(numpy_rng(seed).permutation(users))[: sum(sizes)].split(sizes))
    anchor, widest = seed % len(sizes), widest_kernel(X)
    value = discrepancy(X, members, anchor, widest, block)
    gradient = discrepancy_gradient(X, members, anchor, widest, block)
    leaf = X.clone().requires_grad_()
    expected = naive(leaf, members, anchor, widest)
    (slope,) = torch.autograd.grad(expected, leaf)
    torch.testing.assert_close(value, expected.detach(), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(gradient, slope, rtol=1e-8, atol=1e-12)
    assert value > -1e-12


def test_the_middle_kernel_is_as_wide_as_the_mean_squared_distance() -> None:
    X = noise(30, 4).double()
    squares = (X[:, None] - X[None]).square().sum(2)
    torch.testing.assert_close(widest_kernel(X) / 4, squares.sum() / (30 * 29))


def test_equal_samples_have_no_discrepancy_and_no_pull() -> None:
    X = noise(20, 3).double().repeat(2, 1)
    given = X, [torch.arange(20), torch.arange(20, 40)], 0, widest_kernel(X), 7
    assert discrepancy(*given).abs() < 1e-12
    assert discrepancy_gradient(*given).abs().max() < 1e-12


def test_the_order_loss_is_the_hinge_of_neighbours_in_the_list() -> None:
    U, items = noise(9, 4).double(), noise(12, 4, seed=1).double()
    lists = top_lists(U, items, 5)
    assert torch.equal(lists, (U @ items.T).argsort(1, descending=True)[:, :5])
    moved = (U + noise(9, 4, seed=2).double()).requires_grad_()
    scores = (moved @ items.T).gather(1, lists)
    expected = (scores[:, 1:] - scores[:, :-1] + 0.05).clamp_min(0).sum()
    (slope,) = torch.autograd.grad(expected, moved)
    value, gradient = order_loss(moved.detach(), items, lists, 0.05)
    torch.testing.assert_close(value, expected.detach())
    torch.testing.assert_close(gradient, slope)


def test_a_continuous_attribute_is_cut_at_its_quantiles() -> None:
    target = Target.of(continuous("a", np.array([5.0, 1, 2, np.nan, 3, 4, 6, 7, 8])))
    assert [len(rows) for rows in groups(target, 4)] == [2, 2, 2, 2]
    ties = Target.of(continuous("a", np.array([0.0] * 10 + [1.0] * 2)))
    assert sorted(len(rows) for rows in groups(ties, 4)) == [2, 10]


class Largest(TorchDispatchMode):
    """Notes the number of entries of the largest tensor that any operation makes."""

    entries = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        self.entries = max([self.entries, *(one.numel() for one in tree_leaves(made) if isinstance(one, Tensor))])
        return made


def test_memory_is_linear_in_the_users() -> None:
    U, items = noise(1500, 4), noise(30, 4, seed=1)
    with Largest() as largest:
        release_baseline("d2dfr", steps=1, block=64).protect(U, [categorical("a", ["x", "y", "z"] * 500)], items=items)
    assert len(U) * 4 <= largest.entries <= len(U) * 20 * 4  # the top lists, with their items' rows, are the largest


class TestD2DFR(ReleaseBaselineContract):
    name = "d2dfr"
    settings: ClassVar[dict[str, Any]] = {"steps": 20}

    @pytest.mark.parametrize(("kind", "strength"), [("linear", 0.85), ("variance-only", 0.85)])
    def test_a_planted_leak_closes(self, kind: str, strength: float) -> None:
        planted = plant(kind, 300, 4, strength)
        U = torch.from_numpy(planted.embeddings)
        assert accuracy(U, planted.attribute) > 0.78
        protected = release_baseline("d2dfr", steps=300).protect(U, [planted.attribute])
        assert accuracy(protected.release, planted.attribute) < 0.6
        run = protected.facts["attributes"][planted.attribute.name]
        assert run["discrepancy_at_last"] < 0.05 * run["discrepancy_at_first"]

    def test_the_scale_of_the_matrix_changes_nothing_but_the_scale(self) -> None:
        planted = plant("linear", 100, 4, 0.85)
        U = torch.from_numpy(planted.embeddings)
        small, large = (self.make().protect(U * scale, [planted.attribute]).release for scale in (1.0, 64.0))
        assert torch.equal(small * 64, large)  # a power of two: not a bit is lost

    def test_users_without_a_label_stay_where_they_are(self) -> None:
        U = noise(60, 4)
        labels = ["x", "y", None] * 20
        release = self.make().protect(U, [categorical("a", labels)], items=noise(30, 4, seed=1)).release
        assert torch.equal(release[2::3], U[2::3])
        assert (release[::3] != U[::3]).any(1).all()

    def test_attributes_are_removed_one_after_the_other(self) -> None:
        U, first, second = noise(60, 4), categorical("a", ["x", "y"] * 30), categorical("b", ["x", "y", "z"] * 20)
        one_order, other_order = (self.make().protect(U, order) for order in ([first, second], [second, first]))
        alone = self.make().protect(U, [first]).facts["attributes"]
        assert one_order.facts["attributes"]["a"] == alone["a"]
        assert one_order.facts["attributes"]["b"] != other_order.facts["attributes"]["b"]
        assert list(other_order.facts["attributes"]) == ["b", "a"]

    def test_the_regulariser_keeps_the_order_of_the_top_list(self) -> None:
        planted = plant("linear", 200, 4, 0.9)
        U, items = torch.from_numpy(planted.embeddings), noise(50, 4, seed=1)
        lists = top_lists(U, items, 20)
        free, held = (
            release_baseline("d2dfr", steps=150, coefficient=coefficient).protect(U, [planted.attribute], items=items)
            for coefficient in (0.0, 1e-2)
        )
        losses = [float(order_loss(made.release, items, lists, 0.05)[0]) for made in (free, held)]
        assert losses[1] < 0.8 * losses[0]
        assert not held.facts["notes"]

    def test_without_items_the_regulariser_is_left_out_and_that_is_said(self) -> None:
        planted = plant("linear", 60, 4, 0.9)
        U = torch.from_numpy(planted.embeddings)
        alone = self.make().protect(U, [planted.attribute])
        assert alone.facts["notes"] == ["no item matrix: the regulariser that keeps the top lists is left out"]
        unweighted = self.make(coefficient=0).protect(U, [planted.attribute], items=noise(9, 4))
        assert torch.equal(alone.release, unweighted.release)

    def test_the_size_of_a_block_changes_nothing(self) -> None:
        planted = plant("linear", 100, 4, 0.85)
        U = torch.from_numpy(planted.embeddings)
        whole, parts = (self.make(block=block).protect(U, [planted.attribute]).release for block in (2048, 13))
        torch.testing.assert_close(whole, parts, rtol=1e-3, atol=1e-3)

    def test_a_sample_of_users_does_it_too(self) -> None:
        planted = plant("linear", 400, 4, 0.85)
        U = torch.from_numpy(planted.embeddings)
        release = release_baseline("d2dfr", steps=300, sample=50).protect(U, [planted.attribute]).release
        assert accuracy(release, planted.attribute) < 0.65

    def test_the_anchor_is_the_largest_class_and_can_stay(self) -> None:
        U = noise(60, 3)
        attribute = categorical("a", ["x"] * 20 + ["y"] * 30 + ["z"] * 10)
        release = self.make(anchor_stays=True).protect(U, [attribute], items=noise(9, 3)).release
        assert torch.equal(release[20:50], U[20:50])
        assert (release[:20] != U[:20]).any(1).all()
        assert (release[50:] != U[50:]).any(1).all()
