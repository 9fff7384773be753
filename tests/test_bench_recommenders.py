"""The benchmarks of the recommenders, on data small enough to be quick."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from oblivec.bench import kuaisar_scale, lightgcn_speed
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.datasets.synthetic import SyntheticConfig, generate
from oblivec.errors import OblivecError
from oblivec.metrics import rank_test_items
from oblivec.metrics.ranking import factor_scorer
from oblivec.recommenders import recommender


@pytest.fixture(scope="module")
def split() -> LeaveOneOut:
    return generate(SyntheticConfig(users=200, items=150, interactions=4000)).dataset.split()


def test_our_worker_trains_evaluates_and_says_what_it_took(split: LeaveOneOut, tmp_path: Path) -> None:
    lightgcn_speed.write_split(split, tmp_path)
    rng = np.random.default_rng(0)
    users, items = (rng.standard_normal((count, 4), dtype=np.float32) for count in (200, 150))
    np.save(tmp_path / "users.npy", users)
    np.save(tmp_path / "items.npy", items)
    with lightgcn_speed.worker("Oblivec", tmp_path) as ours:
        first, second = ours.ask("epoch"), ours.ask("epoch")
        found, given = ours.ask("evaluate"), ours.ask("evaluate_matrices")
    assert second["loss"] < first["loss"]
    assert found["seconds"] > 0
    assert found["growth_mb"] is None or 0 <= found["growth_mb"] < 500
    expected = rank_test_items(factor_scorer(torch.from_numpy(users), torch.from_numpy(items)), split)
    assert given["hr@10"] == pytest.approx(expected.hit_ratio())


def test_a_worker_that_dies_is_an_error_and_not_a_hang(tmp_path: Path) -> None:
    with pytest.raises(OblivecError, match="died"), lightgcn_speed.worker("Oblivec", tmp_path):
        pass


def test_ratios_are_taken_pair_by_pair() -> None:
    def pair(ours: float, theirs: float) -> lightgcn_speed.Pair:
        quality = {"hr@10": 1.0, "ndcg@10": 1.0, "growth_mb": 5.0}
        return tuple(quality | {"seconds": t, "cpu_seconds": t / 2} for t in (ours, theirs))  # type: ignore[return-value]

    calm, busy = pair(1, 4), pair(10, 40)
    rounds: list[lightgcn_speed.Round] = [
        {"epoch": [one], "evaluation": [one], "evaluation_by_default": [one]} for one in (calm, busy, pair(1, 2))
    ]
    found = lightgcn_speed._summary(rounds, calm)
    assert found["epoch"]["seconds"] == {"oblivec": 1.0, "recbole": 4.0, "ratio": 4.0}
    assert found["reached"]
    assert not lightgcn_speed._summary([{part: [pair(1, 2)] for part in rounds[0]}], calm)["reached"]


def test_an_evaluation_keeps_to_its_time_and_says_how_many_it_tested(split: LeaveOneOut) -> None:
    model = recommender("lightgcn", epochs=1).fit(split, device="cpu")
    everybody, _ = kuaisar_scale.evaluate(model, split, budget_seconds=1e9)
    assert sorted(everybody.users) == sorted(split.tested_users)
    some, would_take = kuaisar_scale.evaluate(model, split, budget_seconds=1e-9)
    assert 0 < len(some.ranks) < len(everybody.ranks)
    assert would_take > 0
    ranks = dict(zip(everybody.users, everybody.ranks, strict=True))
    assert all(ranks[user] == rank for user, rank in zip(some.users, some.ranks, strict=True))


@pytest.mark.slow
def test_every_model_is_measured_in_a_process_of_its_own() -> None:
    result = kuaisar_scale.run(quick=True, threads=1)
    assert list(result["models"]) == ["ncf", "lightgcn", "multvae"]
    assert result["reached"]
    for row in result["models"].values():
        assert row["evaluated_users"] == 300
        assert 0.05 < row["peak_gb"] < 2
