"""`lego`: what it must do on data whose truth is known, and what must never happen to it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from torch import Tensor

from calibrator_contract import CalibratorContract, noise
from oblivec.calibration.base import calibrator
from oblivec.calibration.clipping import clip_covariances, clip_means
from oblivec.calibration.groups import Groups, mean_basis
from oblivec.calibration.removal import RemovalConfig, remove
from oblivec.calibration.space import Space
from oblivec.combination.base import combiner
from oblivec.datasets.attributes import Attribute, categorical, continuous
from oblivec.datasets.planted import plant
from oblivec.engines.local import run_single_threaded
from oblivec.information.target import Target
from oblivec.randomness import torch_rng


class TestLego(CalibratorContract):
    name = "lego"
    settings: ClassVar[dict[str, Any]] = {"rounds": 6}


class TestLabelFree(CalibratorContract):
    name = "lego"
    settings: ClassVar[dict[str, Any]] = {"label_free": True}


def read(U: Tensor, labels: np.ndarray) -> float:
    """Balanced accuracy of logistic regression on unit-variance columns, five folds."""
    scaled = (U - U.mean(0)) / U.std(0).clamp_min(1e-9)
    guess = cross_val_predict(LogisticRegression(class_weight="balanced", max_iter=500), scaled.numpy(), labels, cv=5)
    return float(np.mean([(guess[labels == code] == code).mean() for code in np.unique(labels)]))


@given(
    st.integers(2, 60), st.integers(1, 8), st.integers(0, 2**20),
    st.sampled_from(["plain", "constant", "twin", "zero", "long"]),
)
@settings(max_examples=40, deadline=None)
def test_there_and_back_changes_nothing(rows: int, columns: int, seed: int, oddity: str) -> None:
    U = noise(rows, columns, seed)
    if oddity == "constant":
        U[:, 0] = 3.0
    elif oddity == "twin":
        U[:, -1] = U[:, 0]
    elif oddity == "zero":
        U[0] = 0.0
    elif oddity == "long":
        U[0] *= 1000.0
    space = Space.of(U)
    back = space.decode(space.encode(U))
    # A row without a direction comes back as short as rows get, not as zero.
    tolerance = 2e-3 * float(U.norm(dim=1).max().clamp_min(1.0))
    assert torch.allclose(back, U, atol=tolerance)


def test_a_constant_column_stays_constant_among_rows_of_any_length() -> None:
    planted = plant("linear", 600, 8, 0.9)
    U = torch.from_numpy(planted.embeddings) * (1 / (1 - torch.rand(600, 1, generator=torch_rng(0, "tail"))) ** 0.9)
    U = torch.cat([U, torch.full((600, 1), 0.7)], dim=1)
    release = calibrator("lego", rounds=4).calibrate(U, planted.attribute).calibrated
    assert float((release[:, -1] - 0.7).abs().max()) < 1e-4


def test_noise_is_left_alone() -> None:
    """On labels that say nothing, next to nothing moves, and repeating does not add up."""
    U, labels = noise(3000, 16), torch.randint(0, 3, (3000,), generator=torch_rng(1, "labels"))
    target = Target.of(Attribute("a", "categorical", labels.numpy(), ("x", "y", "z")))
    moved = (remove(U, [target], RemovalConfig.model_validate({"rounds": 60}), 0, "a") - U).norm() / U.norm()
    assert float(moved) < 0.05


@pytest.mark.parametrize("kind", ["linear", "low-variance"])
def test_a_planted_leak_goes_and_its_opposite_does_not_come(kind: str) -> None:
    """Two-sided, three standard errors of a balanced accuracy. Nobody sees what chance may leave of the means in a
    narrow direction: all of it left there, the others would be too even, and read 5 points below."""
    planted = plant(kind, 3000, 16, 0.8)
    labels = planted.attribute.values
    U = torch.from_numpy(planted.embeddings)
    assert read(U, labels) > 0.65
    release = calibrator("lego", rounds=20).calibrate(U, planted.attribute).calibrated
    assert abs(read(release, labels) - 0.5) < 0.027


def test_means_come_to_chance_and_not_to_zero() -> None:
    """Whitened groups of n users that say nothing have means of squared length d / n on average."""
    generator = torch_rng(0, "means")
    labels = torch.randint(0, 2, (4000,), generator=generator)
    X = noise(4000, 32)
    X[:, 0] += 2.0 * labels
    X = (X - X.mean(0)) / X.std(0)
    target = Target.of(Attribute("a", "categorical", labels.numpy(), ("x", "y")))
    groups = Groups.by_class(target)
    clipped = clip_means(X, groups, mean_basis(target, groups), torch.eye(X.shape[1]), torch_rng(0, "clip"))
    chi_square = float((mean_basis(target, groups).T @ clipped[groups.rows]).square().sum())
    assert 16 < chi_square < 60  # 32 on average


def test_covariances_come_within_what_random_groups_show() -> None:
    labels = torch.randint(0, 2, (4000,), generator=torch_rng(0, "labels"))
    X = noise(4000, 8)
    X[labels == 1, :2] *= 2.0
    groups = Groups.by_class(Target.of(Attribute("a", "categorical", labels.numpy(), ("x", "y"))))
    clipped = clip_covariances(X, groups, torch_rng(0, "clip"))
    first, second = (torch.cov(clipped[rows].T).diagonal()[:2].mean() for rows in groups.members)
    assert abs(float(first / second) - 1) < 0.2


def test_users_who_come_later_are_protected() -> None:
    planted = plant("linear", 3000, 8, 0.85)
    known, unseen = np.arange(1500), np.arange(1500, 3000)
    everybody = torch.from_numpy(planted.embeddings)
    served = calibrator("lego").transform(everybody[known], [planted.attribute.take(known)], everybody[unseen])
    assert read(everybody[unseen], planted.attribute.values[unseen]) > 0.8
    assert abs(read(served, planted.attribute.values[unseen]) - 0.5) < 0.06


def test_users_of_the_matrix_are_no_new_users() -> None:
    """Taken for new ones, they would be edited by scores that had learned their labels."""
    planted = plant("linear", 1500, 8, 0.85)
    U, serve = torch.from_numpy(planted.embeddings), calibrator("lego").transform
    served = serve(U, [planted.attribute], U)
    assert torch.equal(serve(U, [planted.attribute], U[::2]), served[::2])
    assert abs(read(served, planted.attribute.values) - 0.5) < 0.045


def test_users_without_a_label_are_edited_label_free() -> None:
    planted = plant("linear", 1500, 8, 0.85)
    values = planted.attribute.values.copy()
    values[::3] = -1
    attribute = Attribute("a", "categorical", values, planted.attribute.classes)
    U = torch.from_numpy(planted.embeddings)
    made = calibrator("lego", rounds=5).calibrate(U, attribute)
    label_free = calibrator("lego", label_free=True).calibrate(U, attribute)
    assert torch.allclose(made.calibrated[::3], label_free.calibrated[::3], atol=1e-3)
    assert not torch.allclose(made.calibrated, label_free.calibrated, atol=1e-3)
    assert "without a label" in made.facts["notes"][-1]
    assert read(made.calibrated[::3], planted.attribute.values[::3]) < 0.56  # 500 users: three standard errors are 0.07


def test_nobody_leaves_the_radius() -> None:
    planted = plant("linear", 800, 8, 0.9)
    U, items = torch.from_numpy(planted.embeddings), noise(50, 8)
    for radius_in, seen in (("rows", U), ("scores", U @ items.T)):
        release = calibrator("lego", rounds=5, radius=0.1, radius_in=radius_in).calibrate(
            U, planted.attribute, items=items
        ).calibrated
        change = release - U if radius_in == "rows" else (release - U) @ items.T
        assert bool((change.norm(dim=1) <= 0.1001 * seen.norm(dim=1)).all())


def test_a_continuous_attribute_goes_without_bins() -> None:
    """What may stay along one direction is the largest singular value that chance gives eight functions of the
    attribute in eight dimensions, about 5.5: a correlation of 5.5 / sqrt(3000) = 0.10, give or take 0.02."""
    U = noise(3000, 8)
    values = (U[:, 0] + 0.5 * U[:, 1] ** 2 + 0.7 * noise(3000, 1, 5)[:, 0]).numpy()
    release = calibrator("lego", rounds=30).calibrate(U, continuous("a", values)).calibrated
    assert abs(np.corrcoef(release[:, 0], values)[0, 1]) < 0.15
    assert abs(np.corrcoef(release[:, 1] ** 2, values)[0, 1]) < 0.15


class TestComposed:
    def test_all_required_attributes_are_at_chance(self) -> None:
        first, second = plant("linear", 3000, 8, 0.8, seed=1), plant("linear", 3000, 8, 0.8, seed=2)
        U = torch.from_numpy(np.concatenate([first.embeddings, second.embeddings], axis=1))
        attributes = [
            Attribute(name, "categorical", planted.attribute.values, planted.attribute.classes)
            for name, planted in (("a", first), ("b", second))
        ]
        method = calibrator("lego", rounds=10)
        made = [method.calibrate(U, attribute) for attribute in attributes]
        release = combiner("composed", rounds=10).combine(U, made, attributes)
        for attribute in attributes:
            assert abs(read(release, attribute.values) - 0.5) < 0.056

    def test_one_calibration_is_the_release_and_none_is_the_matrix(self) -> None:
        U, attribute = noise(60, 4), categorical("a", ["x", "y"] * 30)
        made = calibrator("lego", rounds=2).calibrate(U, attribute)
        assert torch.equal(combiner("composed").combine(U, [made], [attribute]), made.calibrated)
        assert torch.equal(combiner("composed").combine(U, [], []), U)

    def test_the_radius_holds_for_the_release_and_users_without_a_label_are_moved_for_it(self) -> None:
        first, second = plant("linear", 600, 4, 0.9, seed=1), plant("linear", 600, 4, 0.8, seed=2)
        U = torch.from_numpy(np.concatenate([first.embeddings, second.embeddings], axis=1))
        holes = second.attribute.values.copy()
        holes[::2] = -1
        attributes = [
            Attribute("a", "categorical", first.attribute.values, first.attribute.classes),
            Attribute("b", "categorical", holes, second.attribute.classes),
        ]
        for radius in (None, 0.05):
            method = calibrator("lego", rounds=2, radius=radius)
            made = [method.calibrate(U, attribute) for attribute in attributes]
            release = combiner("composed", rounds=2).combine(U, made, attributes)
            if radius is None:
                # Erased for those without the label: the rows they are served no longer show it.
                assert read(release[::2, 4:], second.attribute.values[::2]) < 0.65
            else:
                assert bool(((release - U).norm(dim=1) <= 1.001 * radius * U.norm(dim=1)).all())


def test_the_number_of_cores_changes_no_bit() -> None:
    planted = plant("cluster", 1500, 8, 0.8)
    U, targets = torch.from_numpy(planted.embeddings), [Target.of(planted.attribute)]
    few = RemovalConfig.model_validate({"rounds": 2, "searches": 2, "endings": 1})
    once, again = (
        run_single_threaded(lambda _: remove(U, targets, few, 0, "secret"), None, cores=cores) for cores in (1, 3)
    )
    assert torch.equal(once, again)
    assert not torch.equal(once, U)


def hanging_together(n: int = 3000) -> tuple[Tensor, list[Attribute]]:
    """Two attributes that lean on each other and on directions that are not at right angles."""
    first = torch.randint(0, 2, (n,), generator=torch_rng(0, "first"))
    second = torch.where(torch.rand(n, generator=torch_rng(0, "second")) < 0.6, first, 1 - first)
    U = noise(n, 8, 2)
    U[:, 0] += 1.6 * first
    U[:, :2] += 1.2 * second[:, None]
    return U, [categorical(name, one.tolist()) for name, one in (("first", first), ("second", second))]


def test_users_who_come_later_are_protected_for_all_attributes_together() -> None:
    U, attributes = hanging_together(6000)
    known, unseen = np.arange(3000), np.arange(3000, 6000)
    served = calibrator("lego").transform(U[known], [one.take(known) for one in attributes], U[unseen])
    for attribute in attributes:
        assert read(U[unseen], attribute.values[unseen]) > 0.7
        assert read(served, attribute.values[unseen]) < 0.55


def test_users_without_any_label_are_moved_for_all_attributes() -> None:
    U, attributes = hanging_together()
    rows = np.arange(len(U))
    hidden = rows % 2 == 0
    shown = [attribute.take(np.where(hidden, -1, rows)) for attribute in attributes]
    method = calibrator("lego", rounds=1, searches=0, endings=0)
    made = [method.calibrate(U, attribute) for attribute in shown]
    release = combiner("composed", rounds=1, searches=0, endings=0).combine(U, made, shown)
    for attribute in attributes:
        assert read(release[hidden], attribute.values[hidden]) < 0.57
