"""What every baseline that edits a user matrix must do, as a test class a new one inherits: set `name`, `settings`."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from calibrator_contract import SECRET, noise, odd_matrices
from oblivec.baselines import Protected, ReleaseBaseline, baseline
from oblivec.datasets.attributes import Attribute, categorical, continuous
from oblivec.datasets.planted import plant
from oblivec.errors import BadInput
from recommender_contract import two_tastes


def release_baseline(name: str, **settings: Any) -> ReleaseBaseline:
    found = baseline(name, **settings)
    assert isinstance(found, ReleaseBaseline)
    return found


class ReleaseBaselineContract:
    name: ClassVar[str]
    settings: ClassVar[dict[str, Any]] = {}
    changes_the_matrix: ClassVar[bool] = True

    @classmethod
    def make(cls, **changes: Any) -> ReleaseBaseline:
        return release_baseline(cls.name, **(cls.settings | changes))

    @pytest.fixture(scope="class")
    @classmethod
    def problem(cls) -> tuple[Tensor, list[Attribute]]:
        planted = plant("linear", 120, 6, 0.9)
        labels = [None if row % 10 == 0 else f"{SECRET} {code}" for row, code in enumerate(planted.attribute.values)]
        other = [None if row % 7 == 0 else "xyz"[row % 3] for row in range(120)]
        return torch.from_numpy(planted.embeddings), [categorical("a", labels), categorical("b", other)]

    @pytest.fixture(scope="class")
    @classmethod
    def made(cls, problem: tuple[Tensor, list[Attribute]]) -> Protected:
        return cls.make().protect(*problem, seed=1)

    def test_a_release_is_a_matrix_like_the_one_given(
        self, problem: tuple[Tensor, list[Attribute]], made: Protected
    ) -> None:
        U, _ = problem
        assert made.release.shape == U.shape
        assert made.release.dtype == torch.float32
        assert torch.isfinite(made.release).all()
        assert torch.equal(made.release, U) != self.changes_the_matrix

    def test_the_facts_are_json_without_labels(self, made: Protected) -> None:
        assert SECRET not in json.dumps(made.facts, allow_nan=False)
        assert isinstance(made.facts["notes"], list)

    def test_the_seed_decides_and_nothing_given_is_changed(
        self, problem: tuple[Tensor, list[Attribute]], made: Protected
    ) -> None:
        U, attributes = problem
        before = U.clone()
        torch.manual_seed(99)  # no method may listen to the global stream
        assert torch.equal(self.make().protect(U, attributes, seed=1).release, made.release)
        assert torch.equal(U, before)

    def test_without_a_requirement_nothing_is_changed(self, problem: tuple[Tensor, list[Attribute]]) -> None:
        assert torch.equal(self.make().protect(problem[0], []).release, problem[0])

    @pytest.mark.parametrize("oddity", odd_matrices())
    def test_odd_input_is_survived(self, oddity: str) -> None:
        U, attribute = odd_matrices()[oddity]
        protected = self.make().protect(U, [attribute], items=noise(9, U.shape[1], seed=2))
        assert protected.release.shape == U.shape
        assert torch.isfinite(protected.release).all()
        json.dumps(protected.facts, allow_nan=False)

    def test_a_single_user_is_survived(self) -> None:
        assert torch.isfinite(self.make().protect(noise(1, 3), [categorical("a", ["x"])]).release).all()

    @pytest.mark.parametrize("attribute", [categorical("a", [None] * 40), continuous("a", np.full(40, np.nan))])
    def test_an_attribute_without_labels_is_refused(self, attribute: Attribute) -> None:
        with pytest.raises(BadInput, match="attribute a: every label is missing"):
            self.make().protect(noise(40, 5), [attribute])

    def test_labels_for_other_users_are_refused(self) -> None:
        with pytest.raises(BadInput, match="attribute a: 3 labels for 40 users"):
            self.make().protect(noise(40, 5), [categorical("a", ["x", "y", "x"])])

    def test_items_of_another_model_are_refused(self) -> None:
        with pytest.raises(BadInput, match="items: have shape"):
            self.make().protect(noise(40, 5), [categorical("a", ["x", "y"] * 20)], items=noise(9, 4))

    def test_a_broken_matrix_is_refused(self) -> None:
        with pytest.raises(BadInput, match="not finite"):
            self.make().protect(noise(40, 5) / 0, [categorical("a", ["x", "y"] * 20)])

    def test_an_unknown_setting_is_refused(self) -> None:
        with pytest.raises(BadInput, match=f"^{self.name}: setting speed: .*; the settings are "):
            self.make(speed=3)

    def test_it_goes_back_into_the_recommender(self) -> None:
        from oblivec.recommenders import recommender

        split, attribute = two_tastes(), categorical("a", ["x", "y"] * 20)
        model = recommender("lightgcn", epochs=1, dimensions=4, steps_per_epoch=2).fit(split, device="cpu")
        applied = self.make().apply(model, split, [attribute], seed=1)
        expected = self.make().protect(model.users, [attribute], items=model.tensors["items"], seed=1)
        assert torch.equal(applied.recommender.users, expected.release)
        assert torch.equal(applied.recommender.tensors["items"], model.tensors["items"])
