"""The benchmark of the targets: losses are paired, and a target is judged when it is whole."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oblivec.attacks.panel import PANEL
from oblivec.bench import lego_targets
from oblivec.bench.target_summary import show_targets, summarise
from oblivec.cli.app import run
from oblivec.datasets.attributes import continuous
from oblivec.datasets.synthetic import SyntheticConfig, generate
from oblivec.errors import BadInput
from oblivec.experiments import base_models, table1
from oblivec.experiments.base_models import BaseModels
from oblivec.experiments.paired import relative_loss
from oblivec.experiments.releases import Means, ranked, unpack
from oblivec.experiments.running import Options, setup_for
from oblivec.metrics import Ranking
from quick_method import quick_method as quick_method

# --- paired losses ----------------------------------------------------------------------------------------------------


def test_a_loss_of_a_tenth_is_found_with_an_interval_around_it() -> None:
    rng = np.random.default_rng(0)
    before = (rng.random((3, 4000)) < 0.2).astype(float)
    after = before * (rng.random(before.shape) > 0.1)
    found = relative_loss([(before, after), (before, before)])
    low, high = found["ci"]
    assert found["loss_percent"] == pytest.approx(5, abs=1)
    assert low < found["loss_percent"] < high
    assert 0.2 < high - low < 3  # paired: unpaired hits of 12,000 users alone would give a width of 7


def test_no_loss_has_no_width_and_the_seed_decides() -> None:
    before = (np.random.default_rng(1).random((2, 500)) < 0.3).astype(float)
    assert relative_loss([(before, before)]) == {"loss_percent": 0.0, "ci": [0.0, 0.0]}
    after = np.roll(before, 1, axis=1)
    assert relative_loss([(before, after)]) == relative_loss([(before, after)])
    assert relative_loss([(before, after)]) != relative_loss([(before, after)], seed=1)


def test_ranks_survive_packing() -> None:
    ranking = Ranking(np.arange(6), np.array([1, 10, 11, 4000, 5, 2]))
    packed = ranked({"before": ranking})["before"]
    assert packed["ranks"] == "1a0052"
    assert np.array_equal(unpack(packed["ranks"]).gains(), ranking.gains())
    assert packed["hr@10"] == ranking.hit_ratio()


# --- the summary ------------------------------------------------------------------------------------------------------


def fake_cells(points: float = 1.0, neighbours: float = 0.5, lost: int = 0) -> dict[str, dict[str, Any]]:
    """All cells of one model and two base seeds; in the second seed attackers are as far below chance as above in the
    first, except `boosting`, which is always above."""
    found: dict[str, dict[str, Any]] = {}
    before, after = "1" * 100 + "0" * 900, "0" * lost + "1" * (100 - lost) + "0" * 900

    def read(seed: int, names: tuple[str, ...]) -> dict[str, Any]:
        return {name: {"chance": 0.5, "n": 9, "verdict": "at_chance", "p_value": 1.0, "attackers": {
            attacker: 0.5 + points / 100 * (1 if attacker == "boosting" else (-1) ** seed)
            for attacker in (*PANEL, "svm")
        }} for name in names}

    def cell(attacks: dict[str, Any]) -> dict[str, Any]:
        utility = {kind: {"ranks": after if kind in ("after", "refit") else before} for kind in
                   ("before", "after", "control", "refit")}
        return {"attacks": attacks, "utility": utility, "neighbours": neighbours, "cell_seconds": 1.0}

    for seed in range(2):
        three = read(seed, ("gender", "age", "occupation"))
        found[f"release/x/m/{seed}/lego/gender+age+occupation"] = cell({"embeddings": three})
        found[f"release/x/m/{seed}/lego/gender"] = cell({"embeddings": read(seed, ("gender",))})
        found[f"differencing/x/m/{seed}"] = cell({"embeddings": three, "differencing": three, "before": three})
        for form in ("label-free", "label-aware"):
            found[f"unlabelled/x/m/{seed}/{form}"] = cell({"unlabelled": read(seed, ("gender", "age"))})
        found[f"later/x/m/{seed}"] = cell({"embeddings": read(seed, ("gender", "age"))})
        r2 = {"amount": {"chance": 0.0, "attackers": {"linear": points / 100, "svm": 0.9}}}
        found[f"continuous/synthetic/{seed}"] = cell({"embeddings": r2})
    found["change/x/m"] = {"changes": {"add one": 0.5, "drop one": 1.0}, "cell_seconds": 1.0}
    found["training/x/ncf"] = {"seconds": 100.0, "cell_seconds": 1.0}
    found["training/x/lightgcn"] = {"seconds": 60.0, "cell_seconds": 1.0}
    return found


def judged(found: dict[str, dict[str, Any]], expected: list[str] | None = None) -> dict[int, dict[str, Any]]:
    result = summarise(expected or list(found), found, PANEL)
    json.dumps(result, allow_nan=False)
    show_targets(result)
    return {row["target"]: row for row in result["targets"]}


def test_what_is_within_all_limits_reaches_all_targets() -> None:
    assert {row["reached"] for row in judged(fake_cells()).values()} == {True}


def test_each_target_can_be_missed() -> None:
    far = judged(fake_cells(points=5.0))
    assert [number for number, row in far.items() if not row["reached"]] == [1, 3, 5, 7, 9]
    assert far[1]["worst"]["panel"]["gender"] == pytest.approx(5)  # boosting; the others' mean over seeds is chance
    assert far[1]["worst"]["outside"]["gender"] == pytest.approx(0, abs=1e-9)
    assert abs(far[1]["worst_of_any_base_seed"]["age"]) == pytest.approx(5)
    near = judged(fake_cells(points=-2.5))
    assert not near[1]["reached"]  # below chance is no privacy
    assert near[5]["reached"]  # there only above counts
    assert [number for number, row in judged(fake_cells(lost=4)).items() if not row["reached"]] == [2, 3]
    assert [number for number, row in judged(fake_cells(neighbours=0.3)).items() if not row["reached"]] == [8]
    slow = fake_cells()
    slow["change/x/m"]["changes"]["swap one"] = 1.3  # of 60 seconds, not of 100
    assert not judged(slow)[4]["reached"]
    told = fake_cells()
    told["differencing/x/m/0"]["attacks"]["differencing"] = {
        name: row | {"attackers": dict.fromkeys(row["attackers"], 0.99)}
        for name, row in told["differencing/x/m/0"]["attacks"]["differencing"].items()
    }
    assert not judged(told)[6]["reached"]


def test_an_unfinished_target_is_not_judged(capsys: pytest.CaptureFixture[str]) -> None:
    found = fake_cells()
    expected = list(found)
    del found["release/x/m/1/lego/gender"], found["training/x/ncf"]
    rows = judged(found, expected)
    assert [number for number, row in rows.items() if row["reached"] is None] == [3, 4, 8]
    assert "incomplete" in capsys.readouterr().out
    assert {row["reached"] for row in judged({}, expected).values()} == {None}


def test_the_result_has_nobody_in_it() -> None:
    assert '"ranks"' not in json.dumps(summarise(list(fake_cells()), fake_cells(), PANEL))


# --- the whole, small -------------------------------------------------------------------------------------------------


@pytest.fixture
def small_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 made-up users in the place of MovieLens, with the attributes the benchmark asks for."""
    made = generate(SyntheticConfig(users=200, items=80, interactions=4000)).dataset
    years = continuous("age_years", np.random.default_rng(0).normal(40, 10, 200))
    world = replace(made, extra_attributes={"age_years": years})
    split = world.split()
    for module in (base_models, lego_targets):
        monkeypatch.setattr(module, "data", lambda *_: (world, split))
    monkeypatch.setattr(lego_targets, "QUICK_TRAINING", {"epochs": 2, "steps_per_epoch": 5, "dimensions": 8})


def test_every_cell_runs_and_resumes(small_world: None, quick_method: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "models_folder": tmp_path / "models", "resume": tmp_path / "kept", "device": "cpu", "jobs": 1,
        "method": quick_method, "settings": {"combination": {"steps": 0}}, "attackers": ("linear",),
    }
    result = lego_targets.run(True, **given)
    assert all(row["reached"] is not None for row in result["targets"])
    assert all(row["cells"] == row["of"] for row in result["targets"])
    lego_targets.show(result)
    again = lego_targets.run(True, **given, enough_seconds=0)
    assert again["targets"] == result["targets"]
    name = f"release/ml-100k/lightgcn/0/{quick_method}/gender"
    assert result["cells"][name]["attacks"]["embeddings"]["gender"]["attackers"].keys() == {"linear"}
    assert (tmp_path / "models" / "quick" / "ml-100k-lightgcn-0" / "metrics.json").exists()


def test_releases_are_the_cells_of_table_1(tmp_path: Path) -> None:
    """Whichever is run first, the other finds them done: the same line, of the same code."""
    own = lego_targets.list_cells(lego_targets.Setup(Means(jobs=1), BaseModels(tmp_path / "a", {})))
    theirs = table1.cells(setup_for("table1", Options(root=tmp_path / "b")))
    lines = {cell.line(name): cell.sources for cell in theirs for name in cell.results}
    releases = [cell for cell in own if cell.name.startswith("release/")]
    assert len(releases) == 30
    assert all(lines.get(cell.line(cell.name)) == cell.sources for cell in releases)


def test_a_model_of_other_settings_is_refused(small_world: None, tmp_path: Path) -> None:
    BaseModels(tmp_path, {"epochs": 1, "dimensions": 4}, "cpu").get("x", "lightgcn", 0)
    with pytest.raises(BadInput, match="x-lightgcn-0: holds a model with other settings"):
        BaseModels(tmp_path, {"epochs": 2, "dimensions": 4}, "cpu").get("x", "lightgcn", 0)


def test_missing_models_are_trained_once(small_world: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[tuple[str, str, int]] = []
    real = BaseModels._train
    monkeypatch.setattr(BaseModels, "_train", lambda self, which: [trained.append(which), real(self, which)])
    models = BaseModels(tmp_path, {"epochs": 1, "dimensions": 4}, "cpu")
    models.train_missing([("x", "lightgcn", 0), ("x", "lightgcn", 1), ("x", "lightgcn", 0)], jobs=1)
    models.train_missing([("x", "lightgcn", 1), ("x", "lightgcn", 2)], jobs=1)
    assert trained == [("x", "lightgcn", 0), ("x", "lightgcn", 1), ("x", "lightgcn", 2)]
    users = [models.get("x", "lightgcn", seed).user_matrix() for seed in range(2)]
    assert not np.array_equal(users[0], users[1])


def test_where_work_is_done_changes_nothing_kept() -> None:
    assert repr(Means(device="cpu", jobs=2)) == repr(Means(device="cuda", jobs=16))
    assert repr(Means(settings={"radius": 1})) != repr(Means())


def test_an_option_without_use_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "store-speed", "--cells", "a/*"]) == 2
    assert "--cells" in capsys.readouterr().err
