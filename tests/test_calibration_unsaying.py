"""The label-free edit: scores that never repeat a user's own label, and rows that no longer predict them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from torch import Tensor

from calibrator_contract import noise
from oblivec.calibration import said
from oblivec.calibration.base import calibrator
from oblivec.calibration.left_out import Machine
from oblivec.calibration.said import FOLDS, KINDS, Kind, _fold, _said, scores
from oblivec.calibration.space import Space
from oblivec.calibration.spreads import without_spreads
from oblivec.calibration.unsaying import UnsayingConfig, unsay
from oblivec.combination.base import combiner
from oblivec.datasets.attributes import Attribute, continuous
from oblivec.information.target import Target
from oblivec.randomness import numpy_rng, torch_rng

CONFIG = UnsayingConfig.model_validate({})


def of(values: np.ndarray, classes: int = 2) -> Target:
    return Target.of(Attribute("a", "categorical", values, tuple(map(str, range(classes)))))


def hidden_half(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels with half of them hidden, and who those are."""
    hidden = numpy_rng(1, "hidden").permutation(len(values)) < len(values) // 2
    return np.where(hidden, -1, values), hidden


def told(U: Tensor, values: np.ndarray, users: np.ndarray) -> float:
    """The better of a support vector machine and nearest neighbours, trained on half of the users, on the others."""
    places = np.flatnonzero(users)
    train, test = places[::2], places[1::2]
    rows = ((U - U.mean(0)) / U.std(0).clamp_min(1e-9)).numpy()
    guesses = [machine.fit(rows[train], values[train]).predict(rows[test])
               for machine in (SVC(class_weight="balanced"), KNeighborsClassifier(31))]
    return max(float(np.mean([(guess[values[test] == code] == code).mean() for code in (0, 1)])) for guess in guesses)


@pytest.mark.parametrize("kind", KINDS)
def test_a_score_is_that_of_a_machine_without_the_users_fold(kind: Kind) -> None:
    rows, known, wanted = noise(60, 5), torch.arange(0, 60, 2), noise(30, 2, 3)
    fold = torch.arange(30) % FOLDS
    found = _said(rows, known, wanted, fold, kind, torch_rng(0, "a"))
    changed = wanted.clone()
    changed[fold == 7] = -5.0
    again = _said(rows, known, changed, fold, kind, torch_rng(0, "a"))
    assert torch.allclose(found[known[fold == 7]], again[known[fold == 7]], atol=1e-4)
    assert not torch.allclose(found[known[fold == 8]], again[known[fold == 8]], atol=1e-3)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=200), st.integers(0, 2**20))
@settings(max_examples=30, deadline=None)
def test_folds_have_the_same_share_of_every_class(labels: list[int], seed: int) -> None:
    values = torch.tensor(labels)
    fold = _fold(values, torch_rng(seed, "a"))
    for code in values.unique():
        counts = torch.bincount(fold[values == code], minlength=FOLDS)
        assert counts.max() - counts.min() <= 1


def test_labels_are_not_written_by_leaving_them_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty classes, most of them rare: chance is 5 %. Were users left out one by one, 18 % would be read here, where
    every score that stands out counts."""
    monkeypatch.setattr(said, "CLEAR", 0.0)
    U = noise(3000, 16)
    odds = torch.cat([U[:, :3] * 1.5, torch.zeros(3000, 17)], dim=1) - torch.linspace(0, 4, 20)
    values = torch.multinomial(odds.softmax(1), 1, generator=torch_rng(0, "labels"))[:, 0].numpy()
    release = unsay(U, [of(values, 20)], CONFIG, 0, "a").numpy()
    guess = cross_val_predict(LogisticRegression(class_weight="balanced", max_iter=300), release, values, cv=5)
    recalls = [(guess[values == code] == code).mean() for code in np.unique(values)]
    assert float(np.mean(recalls)) < 0.09


@given(st.integers(8, 40), st.integers(1, 5), st.integers(0, 2**20))
@settings(max_examples=20, deadline=None)
def test_machines_leave_out_every_user_in_turn(users: int, columns: int, seed: int) -> None:
    rows, wanted = noise(users, columns, seed), noise(users, 2, seed + 1)
    machine = Machine.of(rows, ridge=0.1)
    values, gradients = machine.left_out(wanted)
    gradients = list(gradients)
    one, others = users // 2, torch.arange(users) != users // 2
    kernels = machine.kernels.double()
    weights = torch.linalg.solve(
        kernels[others][:, others] + 0.1 * torch.eye(users - 1, dtype=torch.float64), wanted[others].double()
    )
    assert torch.allclose(values[one].double(), kernels[one, others] @ weights, atol=1e-2)
    pull = kernels[one, others, None] * (rows[others] - rows[one]).double()
    for column in range(2):
        expected = 2 * float(machine.sharpness) * (weights[:, column] @ pull)
        assert torch.allclose(gradients[column][one].double(), expected, atol=2e-2 * float(1 + expected.abs().max()))


def test_what_tells_nothing_has_no_score_and_moves_nobody() -> None:
    U = noise(2000, 16)
    target = of((numpy_rng(3, "labels").random(2000) < 0.4).astype(np.int64))
    space = Space.of(U)
    assert scores(space.encode(U), [target], space, torch_rng(0, "a"), torch.arange(2000)).shape[1] == 0
    assert torch.allclose(unsay(U, [target], CONFIG, 0, "a"), U, atol=1e-4)


@pytest.mark.parametrize("leak", ["means", "product"])
def test_users_whose_labels_nobody_had_cannot_be_told(leak: str) -> None:
    """1,000 hidden users are attacked: a standard error is 0.016. As made, three quarters and more are read."""
    U = noise(4000, 6)
    strong = 2.5 * U[:, 0] if leak == "means" else 4 * U[:, 0] * U[:, 1]
    values = (torch.rand(4000, generator=torch_rng(0, "labels")) < torch.sigmoid(strong)).long().numpy()
    shown, hidden = hidden_half(values)
    assert told(U, values, hidden) > 0.72
    release = unsay(U, [of(shown)], CONFIG, 0, "a")
    assert told(release, values, hidden) < 0.56
    assert float((release - U).norm() / U.norm()) < 0.7


def test_a_class_of_one_does_not_hide_the_others() -> None:
    U = noise(4000, 6)
    values = (U[:, 0] + 0.4 * noise(4000, 1, 2)[:, 0] > 0).long().numpy()
    common = np.arange(4000) > 0
    values[~common] = 2
    shown, hidden = hidden_half(values)
    shown[~common] = 2
    assert told(U, values, hidden & common) > 0.8
    assert told(unsay(U, [of(shown, 3)], CONFIG, 0, "a"), values, hidden & common) < 0.56


def test_equal_rows_stay_equal() -> None:
    """Left out of what is said of it, each of them would be told from the others by the one label that is missing."""
    U = noise(1000, 8)
    U[::10] = 0.0
    values = (U[:, 0] + 0.3 * noise(1000, 1, 4)[:, 0] > 0).long().numpy()
    values[::10] = np.arange(100) % 2
    release = unsay(U, [of(values)], CONFIG, 0, "a")
    assert torch.equal(release[::10], U[::10])
    assert not torch.allclose(release[1::10], U[1::10], atol=0.1)


def test_a_continuous_attribute_is_unsaid_too() -> None:
    U = noise(2000, 8)
    values = (U[:, 0] + 0.5 * noise(2000, 1, 5)[:, 0]).numpy()
    known = np.arange(2000) % 2 == 0
    attribute = continuous("a", np.where(known, values, np.nan))
    release = unsay(U, [Target.of(attribute)], CONFIG, 0, "a")
    assert abs(np.corrcoef(U[~known, 0], values[~known])[0, 1]) > 0.85
    assert max(abs(np.corrcoef(column[~known], values[~known])[0, 1]) for column in release.T) < 0.1


def test_users_who_lack_several_labels_are_edited_for_all_of_them_together() -> None:
    U = noise(1800, 12)
    labels = [(U[:, column] + 0.3 * noise(1800, 1, column)[:, 0] > 0).long().numpy() for column in (0, 1)]
    lacking = np.arange(1800) % 3 == 0
    attributes = [Attribute(name, "categorical", np.where(lacking, -1, values), ("x", "y"))
                  for name, values in zip("ab", labels, strict=True)]
    short: dict[str, Any] = {"rounds": 4, "searches": 1, "regions": 0, "settlings": 0, "thresholds": 0, "networks": 0}
    method = calibrator("lego", **short)
    made = [method.calibrate(U, attribute) for attribute in attributes]
    release = combiner("composed", **short).combine(U, made, attributes)
    for values in labels:
        assert told(U, values, lacking) > 0.8
        assert told(release, values, lacking) < 0.6  # 300 users are attacked: three standard errors are 0.09


def test_nobody_leaves_the_radius_when_several_are_unsaid_together() -> None:
    U = noise(600, 8)
    attributes = [Attribute(name, "categorical", (U[:, column] > 0).long().numpy(), ("x", "y"))
                  for name, column in (("a", 0), ("b", 1))]
    method = calibrator("lego", label_free=True, radius=0.1)
    release = combiner("composed").combine(U, [method.calibrate(U, one) for one in attributes], attributes)
    assert not torch.equal(release, U)
    assert bool(((release - U).norm(dim=1) <= 0.1001 * U.norm(dim=1)).all())


def test_the_same_again_is_the_same_to_the_bit() -> None:
    """Where work is done in memory that nobody has cleared, one call in ten or so is not."""
    U = noise(120, 6)
    values = (U[:, 0] + 0.5 * noise(120, 1, 6)[:, 0] > 0).long().numpy()
    first = unsay(U, [of(values)], CONFIG, 0, "a")
    assert not torch.equal(first, U)
    assert all(torch.equal(unsay(U, [of(values)], CONFIG, 0, "a"), first) for _ in range(5))


def test_scores_are_uncorrelated_over_the_users_asked_for() -> None:
    U = noise(900, 6)
    values = (U[:, 0] + 0.5 * U[:, 1] ** 2 > 0.3).long().numpy()
    users, space = torch.arange(0, 900, 2), Space.of(U)
    found = scores(space.encode(U), [of(values)], space, torch_rng(0, "a"), users)
    assert found.shape[0] == 450
    assert torch.allclose(found.T @ found / 450, torch.eye(found.shape[1]), atol=1e-4)
    assert torch.allclose(found.mean(0), torch.zeros(found.shape[1]), atol=1e-4)


def weighted_spread(X: Tensor, score: Tensor) -> Tensor:
    """Per column, by how much its variance goes with the score."""
    return (score[:, None] * (X - X.mean(0)).square()).mean(0)


def test_spreads_that_go_with_a_score_are_evened_and_others_stay() -> None:
    """To what chance gives: the largest of 16 eigenvalues of noise, 2 sqrt(16 / N) and a little more."""
    X, score = noise(4000, 16), noise(4000, 1, 3)
    X[:, 5] *= (1 + 0.5 * score[:, 0].clamp(-1.5, 1.5)).sqrt()
    score = (score - score.mean()) / score.std()
    evened = without_spreads(X, score, torch_rng(0, "a"))
    others = [column for column in range(16) if column != 5]
    largest = 2 * (16 / 4000) ** 0.5
    assert weighted_spread(X, score[:, 0])[5] > 3 * largest
    assert weighted_spread(evened, score[:, 0])[5] < 1.6 * largest
    assert float((evened - X)[:, others].norm() / X.norm()) < 0.03


def test_spreads_of_noise_stay() -> None:
    """Shuffled scores have as large a largest eigenvalue as these: what is beyond it is next to nothing."""
    moved = []
    for seed in range(8):
        X, score = noise(2000, 32, seed), noise(2000, 2, seed + 50)
        moved.append(float((without_spreads(X, score, torch_rng(seed, "a")) - X).norm() / X.norm()))
    assert max(moved) < 0.02
