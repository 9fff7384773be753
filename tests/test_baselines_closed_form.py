"""The baselines without a loop: nothing, noise, LEACE, a random matrix with the same moments. Known answers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from baseline_contract import ReleaseBaselineContract, release_baseline
from calibrator_contract import noise
from oblivec.baselines import REGISTRY, ReleaseBaseline, baseline
from oblivec.datasets.attributes import Attribute, categorical, continuous
from oblivec.errors import BadInput
from oblivec.randomness import numpy_rng


class TestOriginal(ReleaseBaselineContract):
    name = "original"
    changes_the_matrix = False


class TestDP(ReleaseBaselineContract):
    name = "dp"

    @pytest.mark.parametrize("scale", [0.25, 1.0, 3.0])
    def test_the_noise_is_as_large_as_it_says(self, scale: float) -> None:
        U = noise(4000, 8) * 0.1 + 5.0  # the offset is no signal
        protected = release_baseline("dp", scale=scale).protect(U, [categorical("a", ["x", "y"] * 2000)])
        added = protected.release - U
        deviation = protected.facts["noise_deviation"]
        assert deviation == pytest.approx(scale * 0.1, rel=0.02)
        np.testing.assert_allclose(added.std(0).numpy(), deviation, rtol=0.05)
        assert added.mean().abs() < 4 * deviation / (4000 * 8) ** 0.5
        correlations = torch.corrcoef(added.T) - torch.eye(8)
        assert correlations.abs().max() < 0.08
        assert added.square().sum(1).std() > 0  # every user their own

    def test_an_absolute_scale_does_not_follow_the_matrix(self) -> None:
        attribute = categorical("a", ["x", "y"] * 500)
        protected = release_baseline("dp", scale=0.3, relative=False).protect(noise(1000, 8) * 7, [attribute])
        assert protected.facts["noise_deviation"] == 0.3

    def test_no_noise_is_no_change(self) -> None:
        U = noise(40, 5)
        assert torch.equal(release_baseline("dp", scale=0).protect(U, [categorical("a", ["x", "y"] * 20)]).release, U)

    def test_another_seed_is_other_noise(self) -> None:
        U, attribute = noise(40, 5), categorical("a", ["x", "y"] * 20)
        one, other = (release_baseline("dp").protect(U, [attribute], seed=seed).release for seed in (0, 1))
        assert not torch.equal(one, other)


class TestRandomMoments(ReleaseBaselineContract):
    name = "random-moments"

    @settings(max_examples=15, deadline=None)
    @given(st.integers(2, 60), st.integers(1, 12), st.integers(0, 99))
    def test_mean_and_covariance_are_kept_exactly(self, users: int, dimensions: int, seed: int) -> None:
        U = noise(users, dimensions, seed) @ noise(dimensions, dimensions, seed + 1) + 3.0
        attribute = categorical("a", ["x"] * (users - 1) + ["y"])
        release = release_baseline("random-moments").protect(U, [attribute], seed=seed).release.double().numpy()
        before = U.double().numpy()
        np.testing.assert_allclose(release.mean(0), before.mean(0), rtol=1e-4, atol=1e-4)
        scale = np.abs(np.cov(before.T)).max()
        np.testing.assert_allclose(np.cov(release.T), np.cov(before.T), rtol=1e-4, atol=1e-4 * scale)

    def test_a_row_knows_nothing_of_its_user(self) -> None:
        U = noise(5000, 3)
        release = release_baseline("random-moments").protect(U, [categorical("a", ["x", "y"] * 2500)]).release
        assert torch.corrcoef(torch.cat([U, release], 1).T)[:3, 3:].abs().max() < 0.06


def labelled(users: int, classes: int, missing: float, rng: np.random.Generator) -> Attribute:
    labels = [None if rng.random() < missing else f"class {rng.integers(classes)}" for _ in range(users)]
    return categorical("a", ["class 0", *labels[1:]])


class TestLeace(ReleaseBaselineContract):
    name = "leace"

    @settings(max_examples=25, deadline=None)
    @given(st.integers(30, 120), st.integers(1, 4), st.floats(0, 0.6), st.integers(0, 999))
    def test_class_means_are_equal_afterwards(self, users: int, classes: int, missing: float, seed: int) -> None:
        rng = numpy_rng(seed)
        attributes = [labelled(users, classes, missing, rng), labelled(users, 2, missing, rng)]
        U = noise(users, 8, seed)
        U[:, :classes] += torch.eye(classes)[torch.from_numpy(attributes[0].values.clip(0))] * 3
        U = torch.cat([U, U[:, :1] - U[:, 1:2], torch.full((users, 1), 2.0)], 1)  # collinear and constant columns
        release = release_baseline("leace").protect(U, attributes).release
        for attribute in attributes:
            means = [
                release[torch.from_numpy(attribute.values == code)].double().mean(0)
                for code in range(len(attribute.classes)) if (attribute.values == code).any()
            ]
            for mean in means:
                torch.testing.assert_close(mean, means[0], rtol=0, atol=2e-6)

    def test_no_linear_predictor_beats_the_constant_one_in_sample(self) -> None:
        rng = numpy_rng(0)
        codes = np.stack([rng.integers(3, size=300), rng.integers(2, size=300)])
        values = rng.normal(size=300)
        U = noise(300, 10)
        U[:, 0] += torch.from_numpy(codes[0]).float()
        U[:, 1] += torch.from_numpy(codes[1] + values).float() * 2
        attributes = [categorical("a", codes[0]), categorical("b", codes[1]), continuous("c", values)]
        release = release_baseline("leace").protect(U, attributes).release.double().numpy()
        wanted = np.column_stack([np.eye(3)[codes[0]], codes[1], values])
        for matrix, explained in ((U.double().numpy(), True), (release, False)):
            design = np.column_stack([np.ones(300), matrix])
            fitted = design @ np.linalg.lstsq(design, wanted, rcond=1e-6)[0]
            share = 1 - (wanted - fitted).var(0) / wanted.var(0)
            assert (share.max() > 0.3) if explained else (share.max() < 1e-8)

    def test_it_moves_no_more_than_it_must(self) -> None:
        """For two classes apart by s the least-squares eraser is x - s (s' C^-1 (x - mean)) / (s' C^-1 s)."""
        codes = numpy_rng(1).integers(2, size=400)
        U = noise(400, 4) * torch.tensor([0.1, 1.0, 5.0, 1.0])
        U[:, 0] += torch.from_numpy(codes).float() * 2
        U[:, 1] += U[:, 0]
        release = release_baseline("leace").protect(U, [categorical("a", codes)]).release
        X = U.double().numpy()
        apart = X[codes == 1].mean(0) - X[codes == 0].mean(0)
        weights = np.linalg.solve(np.cov(X.T), apart)
        expected = X - np.outer((X - X.mean(0)) @ weights / (apart @ weights), apart)
        np.testing.assert_allclose(release.numpy(), expected, rtol=1e-5, atol=1e-5)

    def test_users_without_a_label_are_served_too(self) -> None:
        codes = numpy_rng(2).integers(2, size=400)
        U = noise(400, 4)
        U[:, 0] += torch.from_numpy(codes).float() * 4
        known = [code if row < 200 else None for row, code in enumerate(codes)]
        release = release_baseline("leace").protect(U, [categorical("a", known)]).release[200:]
        apart = release[codes[200:] == 1].mean(0) - release[codes[200:] == 0].mean(0)
        assert apart.norm() < 0.5

    @pytest.mark.parametrize("labels", [["x"] * 40, ["x"] + [None] * 39])
    def test_one_class_leaves_nothing_to_erase(self, labels: list[str | None]) -> None:
        U = noise(40, 5)
        protected = release_baseline("leace").protect(U, [categorical("a", labels)])
        assert torch.equal(protected.release, U)
        assert protected.facts["notes"]

    def test_more_classes_than_dimensions_leave_one_row_for_all(self) -> None:
        protected = release_baseline("leace").protect(noise(60, 3), [categorical("a", [row % 10 for row in range(60)])])
        assert protected.release.std(0).max() < 1e-6
        assert "every direction" in protected.facts["notes"][0]


def test_baselines_are_found_by_name() -> None:
    assert {"original", "dp", "d2dfr", "advx", "leace", "random-moments"} <= set(REGISTRY)
    assert not isinstance(baseline("advx"), ReleaseBaseline)
    with pytest.raises(BadInput, match="baseline 'magic': unknown; use one of advx, "):
        baseline("magic")
