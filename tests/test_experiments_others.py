"""`oblivec reproduce` efficiency, epsilon, ablation, correlated and bound: each runs, resumes, and can fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from oblivec.attacks.panel import PANEL
from oblivec.baselines import mmd
from oblivec.calibration.alternating import AlternatingConfig
from oblivec.calibration.paper_tuned import PaperTunedConfig
from oblivec.cli.app import run
from oblivec.datasets.attributes import categorical
from oblivec.datasets.planted import plant
from oblivec.datasets.synthetic import SyntheticConfig, generate
from oblivec.errors import BadInput
from oblivec.experiments import (
    ablation,
    base_models,
    bound,
    cells,
    correlated,
    drawing,
    efficiency,
    efficiency_tables,
    end_to_end,
    epsilon,
    measuring,
    running,
    timing,
)
from oblivec.experiments.drawing import page
from oblivec.experiments.efficiency import best_order, requirements
from oblivec.experiments.end_to_end import solve, told
from oblivec.experiments.registry import experiment
from oblivec.experiments.running import Options, setup_for
from oblivec.experiments.summaries import mean_and_spread, over_seeds, row, shown, worst_attacker
from oblivec.experiments.timing import d2dfr_flops, scaled
from oblivec.information.target import Target

OTHERS = ("efficiency", "epsilon", "ablation", "correlated", "bound")


# --- rows -------------------------------------------------------------------------------------------------------------


def release(bacc: float, ndcg: float, points: dict[str, float] | None = None) -> dict[str, Any]:
    """A measured release with two attributes; `points` above chance of single attackers on the first."""
    attackers = {name: 0.5 + (points or {}).get(name, 0.0) / 100 for name in (*PANEL, "svm")}
    read = {"chance": 0.5, "n": 100, "attackers": attackers}
    return {
        "paper": {name: {"bacc": bacc, "micro_f1": bacc, "n": 100} for name in ("gender", "occupation")},
        "attacks": {"embeddings": {"gender": read, "occupation": read | {"attackers": dict.fromkeys(PANEL, 0.5)}}},
        "utility": {"before": {"hr@10": 10.0, "ndcg@10": 5.0}, "after": {"hr@10": 9.0, "ndcg@10": ndcg}},
        "settings": {}, "seconds": {}, "facts": {},
    }


def test_a_row_has_means_over_seeds_and_the_worst_attacker_of_the_panel() -> None:
    made = row([release(0.6, 4.0, {"linear": 3, "forest": -9, "svm": 40}),
                release(0.7, 4.5, {"linear": 5, "forest": 1})])
    assert made["bacc"] == {"mean": 65.0, "spread": pytest.approx(7.0711)}
    assert made["ndcg@10_lost"] == {"mean": 15.0, "spread": pytest.approx(7.0711)}
    # means over seeds first: forest -4, linear +4; svm is beside the panel
    assert made["worst"]["gender"]["attacker"] in ("linear", "forest")
    assert abs(made["worst"]["gender"]["points"]) == pytest.approx(4)
    assert made["worst_points"] == pytest.approx(2)
    assert made["chance"] == 50.0


def test_below_chance_counts_as_far_as_above() -> None:
    read = {"chance": 0.5, "attackers": {"linear": 0.52, "forest": 0.41}}
    assert worst_attacker([read]) == {"attacker": "forest", "points": -9.0, "bacc": 41.0}


def test_cells_of_several_seeds_come_together() -> None:
    found = {"release/x/m/0/lego/a": {"n": 1}, "release/x/m/1/lego/a": {"n": 2}, "bound/x/m/0/paper": {"n": 3}}
    assert over_seeds(found, "release") == {("x", "m", "lego", "a"): [{"n": 1}, {"n": 2}]}
    assert mean_and_spread([2.0]) == {"mean": 2.0, "spread": None}
    assert shown({"mean": 2.0, "spread": None}) == "2.00"
    assert shown(None) == "-"


# --- the clock --------------------------------------------------------------------------------------------------------


def test_a_run_is_scaled_up_from_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    now, ran = [0.0], []

    def work(steps: int) -> None:
        ran.append(steps)
        now[0] += 3.0 + 0.25 * steps

    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    found = scaled(work, 2, 10, 500)
    assert found["seconds"] == pytest.approx(3.0 + 0.25 * 500)
    assert ran == [2, 2, 10]
    ran.clear()
    assert scaled(work, 2, 10, 5)["seconds"] == pytest.approx(4.25)
    assert ran == [5]


def test_what_is_too_short_for_the_clock_is_run_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    now, ran = [0.0], []

    def work(steps: int) -> None:
        ran.append(steps)
        now[0] += 0.02 * steps

    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    assert scaled(work, 2, 10, 500)["seconds"] == pytest.approx(10)
    assert ran == [2, 2, 10, 2, 40]


def test_the_products_of_d2dfr_are_counted_as_it_visits_pairs() -> None:
    members = [torch.arange(5), torch.arange(5, 8)]
    pairs = 0
    for _, here, _, there, _ in mmd._blocks(members, 0, 1):
        pairs += (here.stop - here.start) * (there.stop - there.start)
    assert d2dfr_flops([5, 3], 4) == pairs * (2 * 6 + 4 * 5)


def test_stored_intermediate_matrices_are_used_in_the_best_order() -> None:
    stored = {(), ("a",), ("a", "b"), ("c",), ("c", "b")}
    assert best_order("abc", stored) == (("a", "b", "c"), 2)
    assert best_order("bc", stored) == (("c", "b"), 2)
    assert best_order("bd", stored)[1] == 0


def test_changes_follow_each_other() -> None:
    assert requirements("gao") == {
        "1": ("g",), "2": ("g", "a"), "3": ("g", "a", "o"),
        "increase": ("g", "a", "o"), "decrease": ("a", "o"), "alter": ("g", "o"),
    }
    assert requirements("fg")["alter"] == ("f",)
    removals = {name: {"seconds": seconds} for name, seconds in (("g", 1.0), ("a", 2.0), ("o", 4.0))}
    asked = requirements("gao")
    scratch = efficiency._sequential(removals, asked)["seconds"]
    assert scratch == {"1": 1, "2": 3, "3": 7, "increase": 7, "decrease": 6, "alter": 5}
    kept = efficiency._with_stored(removals, asked, 100)
    # increase: only the last; decrease: the first must go, so all anew; alter: from gender, which is stored
    assert kept["seconds"] == {"1": 1, "2": 3, "3": 7, "increase": 4, "decrease": 6, "alter": 4}
    assert kept["bytes"]["increase"] == 300


def timed_cell(lego: float) -> dict[str, Any]:
    asked = requirements(["g", "a"])
    run_of = {"seconds": 100.0, "steps": 20, "steps_run": 2, "threads": 1}
    return {
        "cores": 2, "users": 9, "dimensions": 4, "requirements": {what: list(names) for what, names in asked.items()},
        "original": run_of, "advx": {"1": run_of, "2": run_of},
        "d2dfr": {"seconds": dict.fromkeys(asked, 20.0), "product_rate": {"square": 1e9, "narrow": 5e8},
                  "removals": {name: {"seconds": 10.0, "flops": 2e9, "steps": 500, "steps_run": 12} for name in "ga"}},
        "d2dfr-stored": {"seconds": dict.fromkeys(asked, 10.0), "bytes": dict.fromkeys(asked, 1000)},
        "paper": {"seconds": dict.fromkeys(asked, 50.0), "runs": {"1": {"steps": 2000, "steps_run": 60}}},
        "lego": {"seconds": dict.fromkeys(asked, lego), "runs": {}},
    }


def test_efficiency_judges_its_targets_by_the_slowest_change() -> None:
    quick = efficiency_tables.summarise({"efficiency/x/ncf/0": timed_cell(1.0)})
    assert [one["reached"] for one in quick["targets"]] == [True, True, True]
    slow = timed_cell(1.0)
    slow["lego"]["seconds"]["alter"] = 3.0
    judged = {one["against"]: one for one in efficiency_tables.summarise({"efficiency/x/ncf/0": slow})["targets"]}
    assert judged["d2dfr"]["times"] == pytest.approx(20 / 3)
    assert not any(one["reached"] for one in judged.values())
    assert quick["cases"][0]["d2dfr_floor"]["g"]["times_the_floor"] == pytest.approx(5)
    json.dumps(quick, allow_nan=False)


# --- P1 and P2 --------------------------------------------------------------------------------------------------------


def two_attributes() -> tuple[torch.Tensor, list[Any]]:
    planted = plant("linear", 300, 6, 0.85)
    return torch.from_numpy(planted.embeddings), [planted.attribute, categorical("noise", ["a", "b", "c"] * 100)]


def test_end_to_end_lowers_what_is_told_and_stays_within_the_radius() -> None:
    U, attributes = two_attributes()
    config = PaperTunedConfig.model_validate({"steps": 40, "radius": 0.5})
    release, facts = solve(U, attributes, config, seed=0)
    moved = (release - U).norm(dim=1) / U.norm(dim=1)
    assert 0 < moved.max() <= 0.5 + 1e-4
    assert sum(facts["alpha"]) == pytest.approx(1, abs=1e-3)
    before, after = (told(matrix, attributes, seed=0, quick=True)["fresh_q"] for matrix in (U, release))
    first = attributes[0].name
    assert before["by_attribute"][first] > 0.3
    assert after["by_attribute"][first] < 0.6 * before["by_attribute"][first]
    assert before["sum"] == pytest.approx(sum(before["by_attribute"].values()))
    assert torch.equal(solve(U, attributes, config, seed=0)[0], release)


def test_a_radius_of_zero_leaves_everything() -> None:
    U, attributes = two_attributes()
    release, _ = solve(U, attributes, AlternatingConfig.model_validate({"steps": 3, "radius": 0.0}), seed=0)
    assert torch.allclose(release, U, atol=1e-6)


def test_held_out_users_tell_nothing_about_a_coin() -> None:
    U = torch.randn(600, 4, generator=torch.Generator().manual_seed(0))
    coin = categorical("coin", np.random.default_rng(0).integers(2, size=600).astype(str))
    constant = categorical("same", ["x"] * 600)
    found = told(U, [coin, constant], seed=0, quick=True)
    assert abs(found["fresh_q"]["sum"]) < 0.05
    assert list(found["fresh_q"]["by_attribute"]) == ["coin"]


def test_what_a_fresh_q_reads_is_in_nats() -> None:
    """A label that is the sign of a column, flipped for one user in ten: CLUB with the true q is known."""
    rng = np.random.default_rng(0)
    U = rng.normal(size=(4000, 3)).astype(np.float32)
    flipped = (U[:, 0] > 0) ^ (rng.random(4000) < 0.1)
    target = Target.of(categorical("sign", flipped.astype(str)))
    found = end_to_end._held_out(torch.from_numpy(U), target, end_to_end.FRESH_Q_STEPS, seed=0)
    assert found == pytest.approx(0.4 * np.log(9), rel=0.25)  # (0.9 - 0.5) ln(0.9 / 0.1)


# --- each, whole and small --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_world() -> Iterator[None]:
    """200 made-up users in the place of MovieLens, a model of a moment, one attacker, one thread."""
    world = generate(SyntheticConfig(users=200, items=80, interactions=4000)).dataset
    split = world.split()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base_models, "data", lambda *_: (world, split))
        patch.setattr(running, "QUICK_TRAINING", {"epochs": 3, "steps_per_epoch": 5, "dimensions": 8})
        patch.setattr(running, "QUICK_ATTACKERS", ("linear",))
        patch.setattr(timing, "ENOUGH_SECONDS", 0.0)
        patch.setattr(timing, "_rate", lambda *_: 1e10)
        patch.setattr(end_to_end, "FOLDS", 3)
        patch.setattr(measuring, "printed_attack", lambda _, attributes, __: {  # it has its own tests
            name: {"bacc": 0.5, "micro_f1": 0.5, "n": 10} for name in attributes
        })
        yield


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reproduced")


def reproduce(name: str, out: Path, *more: str) -> int:
    return run(["reproduce", name, "--quick", "--out", str(out), "--models", str(out / "models"), "--jobs", "1",
                "--device", "cpu", "--quiet", *more])


@pytest.mark.usefixtures("small_world")
@pytest.mark.parametrize("name", OTHERS)
def test_it_runs_writes_and_never_measures_twice(
    name: str, out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce(name, out) == 0
    record = json.loads((out / f"{name}.json").read_text())
    assert record["cells"]["missing"] == []
    assert record["result"]
    assert "ml-100k" in capsys.readouterr().out
    for suffix in (".svg", ".pdf"):
        assert (out / f"{name}{suffix}").stat().st_size > 2000
    for line in (out / f"{name}-cells.jsonl").read_text().splitlines():
        assert '"ranks"' not in line
    before = (out / f"{name}.svg").read_bytes()
    monkeypatch.setattr(cells, "_run", lambda *_: pytest.fail("a finished cell was begun again"))
    assert reproduce(name, out) == 0
    again = json.loads((out / f"{name}.json").read_text())
    assert again["result"] == record["result"]
    assert (out / f"{name}.svg").read_bytes() == before
    (out / "cells.jsonl").unlink()  # as in a checkout, where only the record is
    assert reproduce(name, out) == 0
    assert json.loads((out / f"{name}.json").read_text())["cells"]["missing"] == []


@pytest.mark.usefixtures("small_world")
@pytest.mark.parametrize("name", OTHERS)
def test_a_record_keeps_what_earlier_code_measured_until_it_is_measured_again(
    name: str, out: Path, tmp_path: Path
) -> None:
    lines = [json.loads(line) for line in (out / f"{name}-cells.jsonl").read_text().splitlines()]
    lines[-1]["code"] = "of earlier code"
    record = tmp_path / f"{name}-cells.jsonl"
    record.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (tmp_path / "models").symlink_to(out / "models")
    assert reproduce(name, tmp_path, "--minutes", "0") == 0
    told = json.loads((tmp_path / f"{name}.json").read_text())
    assert told["cells"]["earlier"] == [lines[-1]["audit"].partition(" ")[0]]
    assert told["cells"]["missing"] == []
    assert told["result"] == json.loads((out / f"{name}.json").read_text())["result"]
    codes = [json.loads(line)["code"] for line in record.read_text().splitlines()]
    assert codes == [line["code"] for line in lines]


@pytest.mark.usefixtures("small_world")
@pytest.mark.parametrize("name", OTHERS)
def test_a_part_of_the_cells_is_shown_and_drawn(name: str, out: Path, tmp_path: Path) -> None:
    module: ModuleType = experiment(name)
    options = Options(quick=True, device="cpu", models_folder=out / "models", jobs=1)
    names = [result for cell in module.cells(setup_for(name, options)) for result in cell.results]
    assert len(set(names)) == len(names)
    lines = map(json.loads, (out / f"{name}-cells.jsonl").read_text().splitlines())
    kept = {line["audit"].partition(" ")[0]: line["result"] for line in lines}
    summary = module.summarise({names[0]: kept[names[0]]})
    module.show(summary)
    module.draw(summary, tmp_path / "figure.svg")
    json.dumps(summary, allow_nan=False)
    module.show(module.summarise({}))


def test_table_1_and_the_others_share_their_releases(tmp_path: Path) -> None:
    options = Options(datasets=("ml-1m",), models=("ncf",), seeds=1, models_folder=tmp_path)
    lines = {}
    for name in ("table1", "epsilon", "ablation"):
        for cell in experiment(name).cells(setup_for(name, options)):
            lines.setdefault(name, {}).update({result: (cell.line(result), cell.sources) for result in cell.results})
    of = "release/ml-1m/ncf/0"
    for name, shared in (("epsilon", ("original", "lego")), ("ablation", ("original", "paper", "paper-tuned", "lego"))):
        for method in shared:
            cell = f"{of}/{method}/gender+age+occupation"
            assert lines[name][cell] == lines["table1"][cell]


def test_the_paper_is_beside_its_own_cells_only() -> None:
    found = {"release/ml-1m/ncf/0/ec-ac/gender+age+occupation": release(0.6, 4.0),
             "release/ml-1m/lightgcn/0/ec-ac/gender+age+occupation": release(0.6, 4.0)}
    beside = {one["model"]: one["printed"] for one in ablation.summarise(found)["rows"]}
    assert beside == {"ncf": {"hr@10": 8.19, "ndcg@10": 3.96, "bacc": 45.57, "micro_f1": 44.35}, "lightgcn": None}
    rows = correlated.summarise({"correlated/ml-1m/lightgcn/0/lego/gender+occupation": release(0.6, 4.0),
                                 "correlated/ml-1m/lightgcn/0/original/nothing": release(0.6, 4.0)})["rows"]
    assert [one["printed"]["gender"]["bacc"] for one in rows] == [55.09, 71.28]
    told_row = {kind: {"sum": 1.0} for kind in bound.ESTIMATES}
    cell = dict.fromkeys(bound.KINDS, told_row) | {"in_the_loop": {"step 1": -1.0, "P2": -2.0}}
    found = {"bound/ml-1m/ncf/0/paper": cell, "bound/kuairand-pure/ncf/0/paper": cell}
    assert [one["printed"] for one in bound.summarise(found)["rows"]] == [{"P1": 0.504, "P2": 0.4843}, None]


def test_what_comes_back_after_later_steps() -> None:
    steps = {
        "sequence/ml-1m/lightgcn/0/d2dfr/gender": release(0.5, 4.0, {"linear": 2}),
        "sequence/ml-1m/lightgcn/0/d2dfr/gender+occupation": release(0.5, 4.0, {"linear": -9}),
    }
    found = correlated.summarise(steps)["steps"]
    assert [one["came_back"] for one in found] == [{}, {"gender": pytest.approx(7)}]


def test_a_curve_begins_at_the_original() -> None:
    names = "gender+age+occupation"
    found = {f"release/ml-1m/ncf/0/{method}/{names}": release(0.6, 4.0)
             for method in ("original", "paper:radius-0.1", "paper:radius-inf", "lego")}
    rows = epsilon.summarise(found)["rows"]
    assert [(one["method"], one["radius"]) for one in rows] == [
        ("paper", "0"), ("paper", "0.1"), ("paper", "inf"), ("paper-tuned", "0"), ("lego", "0"), ("lego", "inf")
    ]


def test_all_points_of_a_curve_are_of_the_same_seeds() -> None:
    names = "gender+age+occupation"
    found = {f"release/ml-1m/ncf/0/{method}/{names}": release(0.6, 4.0) for method in ("original", "lego:radius-0.1")}
    found |= {f"release/ml-1m/ncf/1/{method}/{names}": release(0.8, 2.0) for method in ("original", "paper:radius-0.1")}
    rows = epsilon.summarise(found)["rows"]
    assert {(one["method"], one["seeds"], one["ndcg@10"]["mean"]) for one in rows} == {
        ("lego", 1, 4.0), ("paper", 1, 2.0), ("paper-tuned", 2, 3.0)
    }


def test_only_vectors_are_drawn(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"cannot draw into '\.png'; use \.svg, \.pdf"), page(tmp_path / "a.png", 2):
        pass
    assert drawing.line_style("lego") != drawing.line_style("paper")
