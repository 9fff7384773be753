"""Matrices from elsewhere and the frontier: the benchmarks run, resume, say what they found, and draw it."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oblivec.bench import factorised, foreign_matrices, frontier
from oblivec.bench.frontier_figure import draw_frontier
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.datasets.synthetic import SyntheticConfig, generate
from oblivec.errors import BadInput
from oblivec.experiments import base_models
from quick_method import quick_method as quick_method

PLAIN_MEAN = {"combination": {"steps": 0}}


@pytest.fixture
def split(monkeypatch: pytest.MonkeyPatch) -> LeaveOneOut:
    """Made-up users in the place of MovieLens."""
    world = generate(SyntheticConfig(users=200, items=80, interactions=4000)).dataset
    split = world.split()
    for module in (base_models, foreign_matrices, frontier):
        monkeypatch.setattr(module, "data", lambda *_: (world, split))
    return split


@pytest.fixture
def made_before(split: LeaveOneOut, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an ALS matrix in it, on a machine that may not have implicit."""
    rng = np.random.default_rng(0)

    def without_a_library(*_: Any) -> tuple[np.ndarray, np.ndarray]:
        left, right = (rng.normal(size=(n, 8)).astype(np.float32) for n in (split.n_users, split.n_items))
        return left, right

    with monkeypatch.context() as patch:
        patch.setattr(factorised, "_factorise", without_a_library)
        patch.setattr(factorised, "is_installed", lambda: True)
        factorised.factorised(tmp_path, "als", "ml-100k", split, 0)
    return tmp_path


def test_foreign_matrices_are_measured_and_shown(
    made_before: Path, quick_method: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(foreign_matrices, "is_installed", lambda: True)  # the matrix is there: nothing else is needed
    given: dict[str, Any] = {
        "models_folder": made_before, "resume": made_before / "kept", "jobs": 1, "device": "cpu",
        "method": quick_method, "settings": PLAIN_MEAN, "attackers": ("linear", "neighbours"),
    }
    result = foreign_matrices.run(True, **given)
    assert result["cells"].keys() == {
        "factorised/als/ml-100k/0", "made-up/heavy-tails/0", "made-up/constant-column/0"
    }
    als, tails = result["cells"]["factorised/als/ml-100k/0"], result["cells"]["made-up/heavy-tails/0"]
    assert als["ndcg_lost"]["ci"][0] <= als["ndcg_lost"]["loss_percent"] <= als["ndcg_lost"]["ci"][1]
    assert tails["attributes"]["two"]["before"] > 20
    assert abs(tails["attributes"]["two"]["panel"]) < tails["attributes"]["two"]["before"]
    assert tails["attributes"]["two"]["outside"] is None
    assert 0 < tails["neighbours"] < 1
    json.dumps(result, allow_nan=False)
    foreign_matrices.show(result)
    assert "factorised/als/ml-100k/0" in capsys.readouterr().out
    assert foreign_matrices.run(True, **given, enough_seconds=0) == result


def test_limits_are_two_sided_for_classes_and_one_sided_for_numbers() -> None:
    def figures(chance: float, *scores: float) -> dict[str, Any]:
        read = {"a": {"chance": chance, "n": 9, "verdict": "at_chance",
                      "attackers": dict(zip(("linear", "boosting", "svm"), scores, strict=True))}}
        cell = {"attacks": {"embeddings": read, "before": read}, "neighbours": 0.5, "moved": 0.1, "seconds": {},
                "cell_seconds": 1.0}
        return foreign_matrices._figures(cell)["attributes"]["a"]

    assert figures(0.5, 0.51, 0.515, 0.9)["within"]  # who is outside does not count, but is shown
    assert figures(0.5, 0.51, 0.515, 0.9)["outside"] == pytest.approx(40)
    assert not figures(0.5, 0.51, 0.475, 0.5)["within"]
    assert figures(0.5, 0.51, 0.475, 0.5)["untouched"] == pytest.approx(-2.5)
    assert figures(1 / 21, 1 / 21 + 0.029, 0.04, 0.0)["within"]
    assert figures(0.0, 0.015, -0.4, 0.0)["within"]
    assert not figures(0.0, 0.025, -0.4, 0.0)["within"]


def test_a_matrix_that_cannot_be_made_says_how(
    split: LeaveOneOut, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factorised, "is_installed", lambda: False)
    with pytest.raises(BadInput, match=r"pip install oblivec\[foreign\]"):
        factorised.factorised(tmp_path, "bpr", "ml-100k", split, 0)


def test_a_matrix_of_other_data_is_refused(made_before: Path) -> None:
    other = generate(SyntheticConfig(users=100, items=80, interactions=2000)).dataset.split()
    with pytest.raises(BadInput, match="another version of ml-100k"):
        factorised.factorised(made_before, "als", "ml-100k", other, 0)


@pytest.mark.skipif(find_spec("implicit") is None, reason="needs implicit: pip install oblivec[foreign]")
@pytest.mark.parametrize("library", ["als", "bpr"])
def test_implicit_factorises(library: factorised.Library, split: LeaveOneOut, tmp_path: Path) -> None:
    users, items = factorised.factorised(tmp_path, library, "x", split, 0, factors=7, iterations=3)
    assert len(users) == split.n_users
    assert users.shape[1] == items.shape[1]
    assert np.isfinite(users).all()
    assert ((users == 1).all(0).sum() == 1) == (library == "bpr")  # its column of ones
    (tmp_path / f"implicit-{library}-x-7-0.safetensors").unlink()
    again, _ = factorised.factorised(tmp_path, library, "x", split, 0, factors=7, iterations=3)
    assert np.array_equal(users, again)


def test_non_negative_factors_need_nothing_else(
    split: LeaveOneOut, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factorised, "is_installed", lambda: False)
    users, items = factorised.factorised(tmp_path, "nmf", "x", split, 0, factors=7)
    assert users.shape == (split.n_users, 7)
    assert items.shape == (split.n_items, 7)
    assert users.min() == 0
    assert 0.1 < (users == 0).mean() < 0.9
    (tmp_path / "scikit-learn-nmf-x-7-0.safetensors").unlink()
    assert np.array_equal(users, factorised.factorised(tmp_path, "nmf", "x", split, 0, factors=7)[0])


def test_without_its_folder_kuairand_is_left_out_with_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert foreign_matrices._factorised_cases(False, None) == [
        ("als", "ml-1m"), ("bpr", "ml-1m"), ("nmf", "ml-1m")
    ]
    assert "--path" in capsys.readouterr().err
    assert len(foreign_matrices._factorised_cases(False, Path())) == 6


def test_the_frontier_is_swept_and_drawn(split: LeaveOneOut, quick_method: str, tmp_path: Path) -> None:
    target = tmp_path / "frontier.svg"
    methods = {
        "first": {"method": quick_method, **PLAIN_MEAN},
        "second": {"method": quick_method, "label_free": True, **PLAIN_MEAN},
    }
    given: dict[str, Any] = {
        "models_folder": tmp_path, "resume": tmp_path / "kept", "figure": target, "jobs": 1, "device": "cpu",
        "methods": methods, "attackers": ("linear",),
    }
    result = frontier.run(True, **given)
    assert [(point["method"], point["radius"]) for point in result["points"]] == [
        ("first", "0.1"), ("second", "0.1"), ("first", "default"), ("second", "default")
    ]
    near, far = result["points"][0], result["points"][2]
    assert near["moved"] < far["moved"]
    assert near["neighbours"] > far["neighbours"]
    assert result["original"].keys() == near["worst"].keys()
    frontier.show(result)
    drawn = target.read_text()
    assert drawn.startswith("<?xml")
    assert "<image" not in drawn  # lines, not pixels
    assert frontier.run(True, **given, enough_seconds=0) == result
    assert target.read_text() == drawn


def test_a_figure_of_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"use \.svg, \.pdf, \.png"):
        draw_frontier({}, tmp_path / "frontier.gif")
