"""What every calibrator must do, as a test class a new one inherits: set `name` and `settings`, nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from sklearn.model_selection import cross_val_predict
from torch import Tensor

from oblivec.calibration import left_out, networks
from oblivec.calibration.base import Calibration, Calibrator, calibrator
from oblivec.calibration.groups import Groups
from oblivec.calibration.telling import Telling
from oblivec.datasets.attributes import Attribute, categorical, continuous
from oblivec.datasets.planted import plant
from oblivec.errors import BadInput
from oblivec.information.target import Target
from oblivec.randomness import torch_rng

SECRET = "label that must not be repeated"


def noise(rows: int, columns: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, columns, generator=torch_rng(seed, "noise"))


def groups_of(labels: Tensor) -> Groups:
    return Groups.by_class(target_of(labels))


def target_of(labels: Tensor) -> Target:
    classes = tuple(str(code) for code in range(int(labels.max()) + 1))
    return Target.of(Attribute("a", "categorical", labels.numpy(), classes))


def coins(n: int, classes: int = 2, seed: int = 0) -> Tensor:
    return torch.randint(0, classes, (n,), generator=torch_rng(seed, "coins"))


def balanced_accuracy(model: Any, U: Tensor, labels: np.ndarray) -> float:
    guess = cross_val_predict(model, U.numpy(), labels, cv=5)
    return float(np.mean([(guess[labels == code] == code).mean() for code in np.unique(labels)]))


def told_by_machines() -> Telling:
    return Telling(left_out.by_machines, left_out.DOUBT)


def told_by_networks() -> Telling:
    return Telling(networks.by_networks, networks.DOUBT)


def spread_on_noise(made: Callable[[], Telling], users: int) -> float:
    """Over forty matrices, the spread of how far a group stands out in standard errors: 1, give or take 0.11."""
    standing = []
    for seed in range(40):
        telling = made()
        telling.round(noise(users, 8, seed), [groups_of(coins(users, 2, seed + 1000))], torch_rng(seed, "tell"))
        standing.append(float(telling.standing[0][0]))
    return float(torch.tensor(standing).std())


def odd_matrices() -> dict[str, tuple[Tensor, Attribute]]:
    """Matrices and attributes that occur and must not break anything."""
    flat = noise(40, 5)
    flat[:, 2] = 3.0
    twin = noise(40, 5)
    twin[:, 4], twin[7] = twin[:, 0], 0.0
    halves = categorical("a", ["x", "y"] * 20)
    return {
        "a class of one user": (noise(40, 5), categorical("a", ["x"] * 20 + ["y"] * 19 + ["z"])),
        "fewer users than dimensions": (noise(6, 12), categorical("a", ["x", "y"] * 3)),
        "two users": (noise(2, 3), categorical("a", ["x", "y"])),
        "a class nobody has": (noise(40, 5), Attribute("a", "categorical", halves.values, ("x", "y", "z"))),
        "a constant column": (flat, halves),
        "a duplicate column and a zero row": (twin, halves),
        "all zero": (torch.zeros(40, 5), halves),
        "one dimension": (noise(40, 1), halves),
        "a constant attribute": (noise(40, 5), categorical("a", ["x"] * 40)),
        "one label": (noise(40, 5), categorical("a", ["x"] + [None] * 39)),
        "continuous": (noise(40, 5), continuous("a", np.linspace(1950, 2010, 40))),
        "continuous with holes": (noise(40, 5), continuous("a", np.where(np.arange(40) % 2, np.nan, np.arange(40)))),
        "continuous and constant": (noise(40, 5), continuous("a", np.full(40, 0.1))),
    }


class CalibratorContract:
    name: ClassVar[str]
    settings: ClassVar[dict[str, Any]]

    @classmethod
    def make(cls, **changes: Any) -> Calibrator:
        return calibrator(cls.name, **(cls.settings | changes))

    @pytest.fixture(scope="class")
    @classmethod
    def problem(cls) -> tuple[Tensor, Attribute]:
        planted = plant("linear", 120, 6, 0.9)
        labels = [None if row % 10 == 0 else f"{SECRET} {code}" for row, code in enumerate(planted.attribute.values)]
        return torch.from_numpy(planted.embeddings), categorical("a", labels)

    @pytest.fixture(scope="class")
    @classmethod
    def made(cls, problem: tuple[Tensor, Attribute]) -> Calibration:
        return cls.make().calibrate(*problem, seed=1)

    def test_it_is_a_whole_calibration(self, problem: tuple[Tensor, Attribute], made: Calibration) -> None:
        U, attribute = problem
        assert (made.attribute, made.method) == (attribute.name, self.name)
        assert made.calibrated.shape == U.shape
        assert made.calibrated.dtype == torch.float32
        assert torch.isfinite(made.calibrated).all()
        assert not torch.equal(made.calibrated, U)

    def test_the_facts_are_json_without_labels(self, made: Calibration) -> None:
        assert SECRET not in json.dumps(made.facts, allow_nan=False)

    def test_the_seed_decides(self, problem: tuple[Tensor, Attribute], made: Calibration) -> None:
        original = problem[0].clone()
        torch.manual_seed(99)  # no method may listen to the global stream
        again = self.make().calibrate(*problem, seed=1)
        assert torch.equal(made.calibrated, again.calibrated)
        assert made.tensors.keys() == again.tensors.keys()
        assert all(torch.equal(tensor, again.tensors[name]) for name, tensor in made.tensors.items())
        assert torch.equal(problem[0], original)

    def test_new_users_get_a_row_each(self, problem: tuple[Tensor, Attribute]) -> None:
        U, attribute = problem
        served = self.make().transform(U, [attribute], noise(7, 6))
        assert served.shape == (7, 6)
        assert torch.isfinite(served).all()

    @pytest.mark.parametrize("oddity", odd_matrices())
    def test_odd_input_is_survived(self, oddity: str) -> None:
        U, attribute = odd_matrices()[oddity]
        calibration = self.make().calibrate(U, attribute)
        assert calibration.calibrated.shape == U.shape
        assert torch.isfinite(calibration.calibrated).all()
        json.dumps(calibration.facts, allow_nan=False)

    @pytest.mark.parametrize("constant", ["a constant attribute", "one label", "continuous and constant"])
    def test_nothing_to_remove_changes_nothing_and_is_said(self, constant: str) -> None:
        U, attribute = odd_matrices()[constant]
        calibration = self.make().calibrate(U, attribute)
        assert torch.equal(calibration.calibrated, U)
        assert calibration.facts["notes"]

    @pytest.mark.parametrize("attribute", [categorical("a", [None] * 40), continuous("a", np.full(40, np.nan))])
    def test_an_attribute_without_labels_is_refused(self, attribute: Attribute) -> None:
        with pytest.raises(BadInput, match="attribute a: every label is missing"):
            self.make().calibrate(noise(40, 5), attribute)

    def test_labels_for_other_users_are_refused(self) -> None:
        with pytest.raises(BadInput, match="attribute a: 3 labels"):
            self.make().calibrate(noise(40, 5), categorical("a", ["x", "y", "x"]))

    def test_an_unknown_setting_is_refused(self) -> None:
        with pytest.raises(BadInput, match=f"^{self.name}: setting speed: .*; the settings are "):
            self.make(speed=3)
