"""The steps of `remove`, one by one: each brings its own kind of leak to chance, and leaves noise alone."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from torch import Tensor

from calibrator_contract import (
    balanced_accuracy,
    coins,
    groups_of,
    noise,
    target_of,
    told_by_machines,
    told_by_networks,
)
from oblivec.calibration import left_out, neighbourhoods
from oblivec.calibration.axes import Axes
from oblivec.calibration.cells import even_cells, even_planes
from oblivec.calibration.clipping import clip_covariances, clip_means, clip_pairs, clip_variances
from oblivec.calibration.geometry import Geometry
from oblivec.calibration.groups import Groups, mean_basis
from oblivec.calibration.neighbourhoods import FIRST_LENGTH, Memory, neighbourhood_round
from oblivec.calibration.removal import LOUD_NEIGHBOURS, RemovalConfig, remove
from oblivec.calibration.space import Space
from oblivec.calibration.telling import Telling
from oblivec.datasets.planted import plant
from oblivec.information.target import Target
from oblivec.randomness import torch_rng

NOTHING = dict.fromkeys(
    ("clips", "rounds", "searches", "regions", "endings", "settlings", "thresholds", "networks"), 0
)
"""Settings of a removal in which no step is made."""

# --- neighbourhoods -------------------------------------------------------------------------------------------------


def as_it_is(X: Tensor) -> list[Geometry]:
    return [Geometry(torch.eye(X.shape[1]), torch.eye(X.shape[1]))]


def parted(X: Tensor, groups: Groups, rng: torch.Generator, rounds: int = 1) -> Tensor:
    memory = Memory()
    for _ in range(rounds):
        X, _ = neighbourhood_round(X, as_it_is(X), [groups], rng, memory)
    return X


def standing(X: Tensor, labels: Tensor, seed: int = 0) -> float:
    return neighbourhood_round(X, as_it_is(X), [groups_of(labels)], torch_rng(seed, "round"), Memory())[1]


def same_group_share(X: Tensor, labels: Tensor, nearest: int = 10) -> float:
    index = torch.cdist(X, X).fill_diagonal_(float("inf")).topk(nearest, largest=False).indices
    return float((labels[index] == labels[:, None]).float().mean())


def tuned_to_neighbours(n: int = 1200, d: int = 3) -> tuple[Tensor, Tensor]:
    """A wave too short for means and covariances: users side by side share a group, over the whole matrix nothing."""
    X = noise(n, d)
    likely = torch.sigmoid(3 * torch.sin(4 * X[:, 0]))
    return X, (torch.rand(n, generator=torch_rng(0, "wave")) < likely).long()


def test_neighbours_no_longer_share_a_group() -> None:
    X, labels = tuned_to_neighbours()
    before = same_group_share(X, labels)
    moved = parted(X, groups_of(labels), torch_rng(0, "round"), rounds=6)
    assert before > 0.545
    for nearest in (10, 20, 50):  # nor is a surplus among the closest paid for by a deficit among those behind them
        share = same_group_share(moved, labels, nearest)
        assert abs(share - 0.5) < 0.025  # three standard errors at 1,200 users are 2.3 points
    assert float((moved - X).norm() / X.norm()) < 0.3


def test_a_round_says_how_far_neighbourhoods_stood_out() -> None:
    """About 1 where nothing does; the wave is told from that at 1,200 users."""
    X, labels = tuned_to_neighbours()
    mixed = labels[torch.randperm(len(labels), generator=torch_rng(0, "mixed"))]
    assert standing(X, mixed) < 2.5
    assert standing(X, labels) > LOUD_NEIGHBOURS


@pytest.mark.parametrize("seed", range(4))
def test_a_few_users_near_to_everybody_do_not_hide_neighbourhoods(seed: int) -> None:
    """Sixty weak clusters, each leaning to a group; short rows are everybody's neighbours. Whose group those are in
    moves a group's share, by chance, further than the leaning does: against chance alone it stood out by 0.4 to 1.6."""
    centres, favoured = noise(60, 32, seed), coins(60, 2, seed)
    cluster = coins(3000, 60, seed + 100)
    lengths = torch.exp(0.35 * noise(3000, 1, seed + 200))
    X = (0.35 * centres[cluster] + noise(3000, 32, seed + 300)) * lengths
    labels = torch.where(noise(3000, 1, seed + 400)[:, 0] < 0.84, favoured[cluster], coins(3000, 2, seed + 500))
    mixed = labels[torch.randperm(len(labels), generator=torch_rng(seed, "mixed"))]
    assert standing(X, labels, seed) > 4
    assert standing(X, mixed, seed) < 3.4  # one in a hundred of Student's t with eight degrees of freedom


def test_steps_get_as_long_as_those_before_were_worth() -> None:
    memory, surplus = Memory(), torch.full((2, 4), 3.0)
    assert memory.length_of(0, surplus) == FIRST_LENGTH
    assert memory.length_of(0, -surplus) == FIRST_LENGTH / 2  # went twice as far as it should have
    assert memory.length_of(0, -surplus / 5) == FIRST_LENGTH / 2 * 1.25  # a fifth was left: a little further
    assert memory.length_of(0, surplus) == FIRST_LENGTH / 2 * 1.25  # what was too little to be seen says nothing
    assert memory.length_of(0, surplus[:1]) == FIRST_LENGTH / 2 * 1.25  # nor do other groups
    assert memory.length_of(1, surplus) == FIRST_LENGTH  # nor another attribute


def test_two_attributes_in_two_geometries_come_to_rest_together() -> None:
    """Two waves along one direction, and columns of very different widths: steps that each see one attribute in one
    geometry push each other back and forth."""
    X, labels = tuned_to_neighbours(3000, 4)
    odds = torch.sigmoid(2 * torch.sin(3 * X[:, 0] + X[:, 1]))
    other = groups_of((torch.rand(3000, generator=torch_rng(1, "wave")) < odds).long())
    widths, memory, rng = torch.tensor([1.0, 0.1, 0.5, 2.0]), Memory(), torch_rng(0, "round")
    geometries = [*as_it_is(X), Geometry(torch.diag(widths), torch.diag(1 / widths))]
    heard = []
    for _ in range(12):
        X, loud = neighbourhood_round(X, geometries, [groups_of(labels), other], rng, memory)
        heard.append(loud)
    assert heard[0] > 4
    assert max(heard[-3:]) < LOUD_NEIGHBOURS + 1


def test_groups_keep_their_means_while_neighbours_part() -> None:
    X, labels = tuned_to_neighbours()
    moved = parted(X, groups_of(labels), torch_rng(0, "round"))
    assert not torch.equal(moved, X)
    for code in (0, 1):
        assert torch.allclose(moved[labels == code].mean(0), X[labels == code].mean(0), atol=1e-5)


def test_users_without_a_label_stay_and_do_not_count() -> None:
    X, labels = tuned_to_neighbours()
    labels[::2] = -1
    moved = parted(X, groups_of(labels), torch_rng(0, "round"))
    assert torch.equal(moved[::2], X[::2])
    assert not torch.equal(moved[1::2], X[1::2])


def test_of_very_many_groups_the_largest_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    X, labels = tuned_to_neighbours()
    small = torch.arange(1200) % 20 == 0
    labels[small] = 2 + torch.arange(int(small.sum())) // 10
    monkeypatch.setattr(neighbourhoods, "MOST_GROUPS", 2)
    moved = parted(X, groups_of(labels), torch_rng(0, "round"))
    assert torch.equal(moved[small], X[small])
    assert not torch.equal(moved[~small], X[~small])


def test_references_may_be_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    X, labels = tuned_to_neighbours(3000)
    monkeypatch.setattr(neighbourhoods, "REFERENCES", 1000)
    moved = parted(X, groups_of(labels), torch_rng(0, "round"), rounds=6)
    assert same_group_share(moved, labels) < same_group_share(X, labels) - 0.02


@given(st.integers(2, 60), st.integers(1, 6), st.integers(1, 5), st.integers(0, 99), st.booleans())
@example(42, 1, 4, 36, True)  # more than half of the users at no distance from each other
@settings(max_examples=30, deadline=None)
def test_any_few_users_give_finite_numbers(n: int, d: int, classes: int, seed: int, twins: bool) -> None:
    X = noise(n, d, seed)
    if twins:
        X[: n // 2] = X[0].clone()
    groups, rng = groups_of(coins(n, classes, seed)), torch_rng(seed, "few")
    for moved in (
        parted(X, groups, rng), Axes.of(X, groups, rng).round(X, 0.5),
        told_by_machines().round(X, [groups], rng), told_by_networks().round(X, [groups], rng),
        even_cells(X, groups, rng), even_planes(X, groups, rng),
        clip_variances(X, groups), clip_pairs(X, groups), clip_covariances(X, groups, rng),
    ):
        assert moved.shape == X.shape
        assert torch.isfinite(moved).all()


# --- axes that tell -------------------------------------------------------------------------------------------------


def skewed_along_one_axis(n: int = 3000, d: int = 32) -> tuple[Tensor, Tensor]:
    """Two groups with the same mean and variance everywhere; along one oblique axis they lean apart."""
    X, labels = noise(n, d), coins(n)
    axis = torch.nn.functional.normalize(noise(1, d, 5)[0], dim=0)
    along = X @ axis
    lean = torch.where(labels == 1, 0.4, -0.4)
    skewed = (along + lean * (along.square() - 1)) / (1 + 2 * lean.square()).sqrt()
    return X + (skewed - along)[:, None] * axis, labels


def test_a_shape_along_one_axis_is_found_among_many() -> None:
    X, labels = skewed_along_one_axis()
    trees = ExtraTreesClassifier(200, min_samples_leaf=20, random_state=0)
    axis = torch.nn.functional.normalize(noise(1, 32, 5)[0], dim=0)
    moved, rng = X, torch_rng(0, "tell")
    for _ in range(5):
        moved = Axes.of(moved, groups_of(labels), rng).round(moved, 0.5)
    before, after = (balanced_accuracy(trees, (U @ axis)[:, None], labels.numpy()) for U in (X, moved))
    assert before > 0.7
    assert abs(after - 0.5) < (before - 0.5) / 3  # the edge of a fold has more orders than five
    assert float((moved - X).norm() / X.norm()) < 0.1


def test_axes_found_by_chance_move_nobody() -> None:
    """In 32 dimensions some axis always looks telling to the half it was sought on."""
    X, labels = noise(1500, 32), coins(1500)
    moved, rng = X, torch_rng(0, "tell")
    for _ in range(20):
        moved = Axes.of(moved, groups_of(labels), rng).round(moved, 0.5)
    assert float((moved - X).norm() / X.norm()) < 0.03


@pytest.mark.parametrize(("told", "settled"), [("0", 1), ("110", 3), ("1111", 4)])
def test_users_settle_until_neither_kind_of_machine_tells(
    told: str, settled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(Telling, "loud", property(lambda self: [0] * int(told[len(seen) // 2 - 1])))
    monkeypatch.setattr(Telling, "round", lambda self, X, *_: seen.append(X.shape[1]) or X)
    remove(noise(600, 80), [target_of(coins(600))], RemovalConfig.model_validate(NOTHING | {"settlings": 4}), 0, "a")
    assert seen == [64, 80] * settled


def test_what_was_overdone_is_given_back() -> None:
    """Users moved away from where they look like their own group: a machine takes them for members of the other."""
    X, labels = noise(1500, 6), coins(1500)
    slope = left_out.by_machines(X, [groups_of(labels)], torch_rng(0, "look")).gradient(0)
    X = X - 0.1 * slope / slope.norm(dim=1, keepdim=True)

    def standing(rows: Tensor) -> float:
        telling = told_by_machines()
        telling.round(rows, [groups_of(labels)], torch_rng(0, "tell"))
        return float(telling.standing[0][0])

    settled = remove(X, [target_of(labels)], RemovalConfig.model_validate(NOTHING | {"settlings": 8}), 0, "a")
    assert standing(X) < -4  # standard errors
    assert abs(standing(settled)) < 2.5
    assert float((settled - X).norm() / X.norm()) < 0.1


def test_a_rare_class_does_not_stop_the_search_for_axes() -> None:
    X, labels = skewed_along_one_axis()
    labels[:2] = 2
    moved = Axes.of(X, groups_of(labels), torch_rng(0, "tell")).round(X, 0.5)
    assert torch.equal(moved[:2], X[:2])
    assert float((moved - X).norm() / X.norm()) > 0.01


def test_the_whole_method_finds_that_axis() -> None:
    X, labels = skewed_along_one_axis()
    network = MLPClassifier((100,), alpha=1.0, max_iter=200, random_state=0)
    release = remove(X, [target_of(labels)], RemovalConfig.model_validate({}), 0, "a")
    before, after = (_quietly(network, U, labels) for U in (X, release))
    assert before > 0.62
    assert abs(after - 0.5) < (before - 0.5) / 3


def _quietly(model: Any, X: Tensor, labels: Tensor) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return balanced_accuracy(model, X, labels.numpy())


# --- functions that tell --------------------------------------------------------------------------------------------


def told_by_three_together(n: int = 3000, d: int = 8) -> tuple[Tensor, Tensor]:
    """The sign of the product of three oblique directions tells the group, four times out of five: no axis does, and no
    pair of directions."""
    X, axes = noise(n, d), torch.linalg.qr(noise(d, 3, 5))[0]
    told = ((X @ axes).prod(1) > 0).long()
    return X, torch.where(coins(n, 5, 7) == 0, 1 - told, told)


def test_a_function_of_many_directions_is_found() -> None:
    X, labels = told_by_three_together()
    machine = SVC(class_weight="balanced")
    telling, moved, rng = told_by_machines(), X, torch_rng(0, "tell")
    for _ in range(15):
        moved = telling.round(moved, [groups_of(labels)], rng)
    before, after = (balanced_accuracy(machine, U, labels.numpy()) for U in (X, moved))
    assert before > 0.58
    assert abs(after - 0.5) < (before - 0.5) / 3
    assert float((moved - X).norm() / X.norm()) < 0.2


def test_the_search_falls_quiet_when_nothing_is_left() -> None:
    X, labels = told_by_three_together()
    telling, rng, searches = told_by_machines(), torch_rng(0, "tell"), 0
    while (telling.loud or not searches) and searches < 15:
        X, searches = telling.round(X, [groups_of(labels)], rng), searches + 1
    assert 2 <= searches < 15
    assert balanced_accuracy(SVC(class_weight="balanced"), X, labels.numpy()) < 0.54


@pytest.mark.parametrize(
    ("told", "searched"), [("000000000", 1), ("111111111", 9), ("110011111", 4), ("111101111", 5)]
)
def test_searches_end_where_nothing_tells_right_after_clipping(
    told: str, searched: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Tensor] = []
    monkeypatch.setattr(Telling, "loud", property(lambda self: [0] * int(told[len(seen) - 1])))
    monkeypatch.setattr(Telling, "round", lambda self, X, *_: seen.append(X) or X)
    searches_only = RemovalConfig.model_validate(NOTHING | {"clips": 2, "searches": 9})
    remove(noise(600, 8), [target_of(coins(600))], searches_only, 0, "a")
    assert len(seen) == searched


def test_a_rare_class_does_not_stop_the_search_for_the_others() -> None:
    X, labels = told_by_three_together()
    labels[:2] = 2
    moved = told_by_machines().round(X, [groups_of(labels)], torch_rng(0, "tell"))
    assert torch.equal(moved[:2], X[:2])
    assert float((moved - X).norm() / X.norm()) > 0.005


def test_functions_found_by_chance_move_nobody() -> None:
    """A kernel machine always tells the users apart that it was fitted on."""
    X, labels = noise(1500, 32), coins(1500)
    telling, moved, rng = told_by_machines(), X, torch_rng(0, "tell")
    for _ in range(20):
        moved = telling.round(moved, [groups_of(labels)], rng)
    assert float((moved - X).norm() / X.norm()) < 0.02


# --- cells and planes -----------------------------------------------------------------------------------------------


def test_clusters_that_lean_are_evened() -> None:
    planted = plant("cluster", 3000, 8, 0.8)
    labels = torch.from_numpy(planted.attribute.values)
    X = torch.from_numpy(planted.embeddings)
    evened = even_cells(X, groups_of(labels), torch_rng(0, "cells"))
    forest = ExtraTreesClassifier(50, min_samples_leaf=5, random_state=0)
    assert balanced_accuracy(forest, X, planted.attribute.values) > 0.75
    # Chance leaves the 31 x 1 table sqrt(31 / 3000) / 2 = 5 points of its leaning, in the clusters' own directions.
    assert abs(balanced_accuracy(forest, evened, planted.attribute.values) - 0.5) < 0.08


def test_clusters_that_do_not_lean_stay() -> None:
    X = torch.from_numpy(plant("cluster", 2000, 8, 0.8).embeddings)
    labels = coins(2000, 3)
    assert torch.equal(even_cells(X, groups_of(labels), torch_rng(0, "cells")), X)
    assert torch.equal(even_planes(X, groups_of(labels), torch_rng(0, "cells")), X)


def test_quadrants_of_two_columns_are_evened() -> None:
    planted = plant("interaction", 4000, 8, 0.8)
    labels = torch.from_numpy(planted.attribute.values)
    X = torch.from_numpy(planted.embeddings)

    def leaning(X: Tensor) -> float:
        signs = (X[:, 0] * X[:, 1]).sign()
        return abs(float(signs[labels == 0].mean() - signs[labels == 1].mean()))

    evened, rng = X, torch_rng(0, "planes")
    for _ in range(3):
        evened = even_planes(evened, groups_of(labels), rng)
    assert leaning(X) > 0.5
    assert leaning(evened) < leaning(X) / 2
    assert torch.equal(evened[:, 2:], X[:, 2:])  # nobody moves out of the plane


# --- clipping -------------------------------------------------------------------------------------------------------


def test_a_group_a_little_wider_everywhere_is_seen() -> None:
    labels = coins(4000)
    X = noise(4000, 100)
    X[labels == 1] *= 1.05
    clipped = clip_variances(X, groups_of(labels))
    first, second = (float(clipped[labels == code].var(0).mean()) for code in (0, 1))
    # A standard error of a mean variance of 2,000 x 100 normals is sqrt(2 / 200,000) = 0.3 %; one of each may stay.
    assert abs(second / first - 1) < 0.015
    assert float(X[labels == 1].var(0).mean() / X[labels == 0].var(0).mean()) > 1.08


def test_a_single_pair_of_columns_is_taken_out_whole() -> None:
    labels = coins(4000)
    X = noise(4000, 30)
    X[:, 1] = torch.where(labels == 1, 0.4, 0.0) * X[:, 0] + X[:, 1]
    clipped = clip_pairs(X, groups_of(labels))
    before, after = (float(torch.corrcoef(one[labels == 1].T)[0, 1] - torch.corrcoef(one[labels == 0].T)[0, 1])
                     for one in (X, clipped))
    assert before > 0.3
    assert abs(after) < 0.1


def test_differences_shorter_than_chance_are_made_up() -> None:
    """The trap: groups made exactly equal. Afterwards they differ as random groups do."""
    labels, X = coins(4000), noise(4000, 20)
    groups, rng = groups_of(labels), torch_rng(0, "trap")
    basis = mean_basis(target_of(labels), groups)
    tenth = X.clone()
    tenth[groups.rows] -= 0.9 * basis @ (basis.T @ X[groups.rows])  # nearly equal, with a direction of their own
    for _ in range(8):
        tenth = clip_means(tenth, groups, basis, torch.eye(tenth.shape[1]), rng)
    energy = float((basis.T @ tenth[groups.rows]).square().sum())
    assert 12 < energy < 28  # 20 on average


@given(st.integers(30, 200), st.integers(2, 8), st.integers(0, 99), st.booleans())
@settings(max_examples=20, deadline=None)
def test_columns_are_the_matrix_with_unit_variance(n: int, d: int, seed: int, collinear: bool) -> None:
    U = noise(n, d, seed) * torch.logspace(-1, 1, d)
    if collinear:
        U[:, -1] = 2 * U[:, 0]
    space = Space.of(U)
    assume(not space.typical)  # not taken apart
    seen = space.encode(U) @ space.columns
    assert torch.allclose(seen, (U - U.mean(0)) / U.std(0, correction=0), atol=2e-2)


# --- all of them together ---------------------------------------------------------------------------------------------


def test_nothing_is_written_between_columns_that_hang_together() -> None:
    """Twenty-four columns of eight factors and a little noise; groups differ in how factors go together."""
    labels, factors = coins(1500), noise(1500, 8)
    factors[:, 1] += torch.where(labels == 1, 0.8, -0.8) * factors[:, 0]
    U = factors @ noise(8, 24, 1) + 0.02 * noise(1500, 24, 2)
    release = remove(U, [target_of(labels)], RemovalConfig.model_validate({"rounds": 5}), 0, "a")
    narrow = torch.linalg.eigh(torch.cov(U.T))[1][:, :16]  # where there is only noise
    assert float((release @ narrow).var() / (U @ narrow).var()) < 10  # 300 were columns moved one by one


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "d"), [("cluster", 64), ("cluster", 8), ("interaction", 8), ("variance-only", 8)])
@pytest.mark.parametrize("seed", [0, 1])
def test_leaks_without_a_direction_come_to_chance(kind: str, d: int, seed: int) -> None:
    """For a forest and for nearest neighbours: three standard errors at 3,000 users are 2.7 points, and what chance
    leaves the cells in their own directions adds 5."""
    planted = plant(kind, 3000, d, 0.75, seed=seed)
    labels = planted.attribute.values
    U, target = torch.from_numpy(planted.embeddings), Target.of(planted.attribute)
    release = remove(U, [target], RemovalConfig.model_validate({}), seed, "a")
    for model in (ExtraTreesClassifier(100, min_samples_leaf=5, random_state=0), KNeighborsClassifier(40)):
        assert abs(balanced_accuracy(model, release, labels) - 0.5) < 0.077
