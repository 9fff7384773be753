"""docs/RESULTS.md is made from the records alone, and its sentences follow their figures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from oblivec.errors import BadInput
from oblivec.experiments import ablation, bound, correlated, efficiency_tables, epsilon, table1
from oblivec.experiments.kept import code_digest, kept_line
from oblivec.experiments.registry import EXPERIMENTS
from oblivec.experiments.results_page import main, read_records, results_page
from oblivec.experiments.running import Options, setup_for
from test_experiments_others import release, timed_cell

NAMES = "gender+occupation"


def record(name: str, result: dict[str, Any], **more: Any) -> dict[str, Any]:
    machine = {"cpu": "a processor", "cores": 2, "gpu": None, "torch": "2", "oblivec": "1"}
    return {
        "experiment": name, "command": f"oblivec reproduce {name}", "machine": machine,
        "machines": [machine | {"cells": 3}], "seeds": [0, 1], "quick": False,
        "cells": {"done": 3, "missing": [], "failed": {}}, "result": result,
    } | more


def releases(**bacc: float) -> dict[str, Any]:
    """Releases of ML-1M, NCF by method (`_` for `-`, `__` for a colon); the worst attacker reads what BAcc says."""
    return {
        f"release/ml-1m/ncf/{seed}/{method.replace('__', ':').replace('_', '-')}/{NAMES}": release(
            value, 4.5, {"linear": 100 * (value - 0.5)}
        )
        for method, value in bacc.items() for seed in range(2)
    }


def all_records(**table: float) -> dict[str, dict[str, Any]]:
    measured = releases(**({"original": 0.7, "paper": 0.9, "paper_tuned": 0.55, "lego": 0.51} | table))
    for cell in measured.values():
        for read in cell["attacks"]["embeddings"].values():
            read |= {"p_value": 0.5, "verdict": "at_chance"}
    ablated = releases(original=0.7, paper=0.6, d2dfr_fc=0.65, ec_ac=0.55)
    told = {kind: {"sum": 1.0 + 0.5 * (kind == "P1")} for kind in bound.KINDS}
    nats = {kind: dict.fromkeys(bound.ESTIMATES, told[kind]) for kind in bound.KINDS}
    cells = {
        "correlated/ml-1m/lightgcn/0/original/nothing": release(0.7, 5.0),
        "correlated/ml-1m/lightgcn/0/lego/gender": release(0.6, 5.0),
        "sequence/ml-1m/lightgcn/0/d2dfr/gender": release(0.5, 5.0, {"linear": 1}),
        f"sequence/ml-1m/lightgcn/0/d2dfr/{NAMES}": release(0.5, 5.0, {"linear": 5}),
    }
    return {
        "table1": record("table1", table1.summarise(measured)),
        "efficiency": record("efficiency", efficiency_tables.summarise({"efficiency/ml-1m/ncf/0": timed_cell(1.0)})),
        "epsilon": record("epsilon", epsilon.summarise(releases(original=0.7, lego=0.5))),
        "ablation": record("ablation", ablation.summarise(ablated)),
        "correlated": record("correlated", correlated.summarise(cells)),
        "bound": record("bound", bound.summarise(
            {"bound/ml-1m/ncf/0/paper": nats | {"in_the_loop": {"step 1": -1.0, "P2": -2.0}}}
        )),
    }


def test_the_page_has_every_experiment_with_its_record_and_figure() -> None:
    page = results_page(all_records(), "../records")
    for name in EXPERIMENTS:
        assert f"## `{name}`: " in page
        assert f"![{name}](../records/{name}.svg)" in page
        assert f"[{name}.json](../records/{name}.json)" in page
        assert f"`oblivec reproduce {name}`, base seeds 0, 1" in page
    assert "a processor, 2 cores (torch 2, oblivec 1; 3 cells)" in page
    for line in page.splitlines():
        assert line.count("|") == 0 or line.startswith("|")  # no table is broken by a cell
    widths = [len(block.split("|")) for block in page.splitlines() if block.startswith("|")]
    assert min(widths) > 3


def test_sentences_follow_their_figures() -> None:
    page = results_page(all_records(), "r")
    assert "leaves more to read than the original in 1 of 1 cells" in page
    assert "spells the labels out" in " ".join(page.split())
    assert "the worst attacker on any attribute is 1.0 points from chance" in page
    assert "without the calibration, BAcc rises (the paper's claim): yes, +5.0 points" in page
    assert "without the learned weights, BAcc rises (the paper's claim): **no**, -5.0 points" in page
    assert "by over a point, in 1 of 1 cases; +4.0 points at most" in page
    assert "bounds nothing" in page
    assert "times faster than a training | 50 | 100.0 | reached" in page
    other = results_page(all_records(paper=0.6, lego=0.58), "r")
    assert "leaves more to read than the original in 0 of 1 cells" in other
    assert "spells the labels out" not in " ".join(other.split())
    assert "the worst attacker on any attribute is 8.0 points from chance" in other


def test_a_baseline_that_tells_more_or_goes_below_chance_is_said_so() -> None:
    good, more, below = (results_page(all_records(advx=bacc), "r") for bacc in (0.53, 0.95, 0.42))
    assert "**`advx`** leaves the panel's worst attacker 1.5 points from chance, averaged over 1 cells" in good
    assert "than from the original (ncf on ml-1m)." in more
    assert "at its lowest 8.0 points *below* chance" in below
    assert "from the original (" not in good + below
    assert "*below*" not in good + more


def test_a_number_of_attributes_nobody_measured_has_its_column() -> None:
    lines = results_page(all_records(), "r").splitlines()
    header = next(line for line in lines if "one attribute: BAcc / NDCG@10" in line).split(" | ")
    lego = next(line for line in lines if line.startswith("| lego | ")).split(" | ")
    measured = header.index(("one attribute: BAcc / NDCG@10", "two", "three |")[NAMES.count("+")])
    assert [place for place in range(8, 11) if "/" in lego[place]] == [measured]


def test_what_is_missing_is_said() -> None:
    records = all_records()
    del records["bound"]
    records["epsilon"]["cells"] = {"done": 2, "missing": ["release/ml-1m/ncf/1/lego/a"], "failed": {}}
    records["ablation"]["quick"] = True
    page = results_page(records, "r")
    assert "Not run yet: `oblivec reproduce bound`" in page
    assert "**Not whole:** 1 cells are missing (release/ml-1m/ncf), 0 of them failed" in page
    assert page.count("A quick run") == 1


def test_it_is_written_from_a_folder_of_records(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    for name, one in all_records().items():
        (folder / f"{name}.json").write_text(json.dumps(one))
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "RESULTS.md"
    assert main([str(folder), str(page)]) == 0
    assert page.read_text() == results_page(read_records(folder), "../records")


def test_cells_of_other_code_are_counted(tmp_path: Path) -> None:
    """One line by the code as it is, one by other code, one under settings that no cell has any more."""
    setup = setup_for("ablation", Options())
    wanted = ["0", "original"], ["0", "lego"]
    now, old = (cell for cell in ablation.cells(setup) if cell.name.split("/")[3:5] in wanted)
    lines = [kept_line(now.line(now.name), code_digest(now.sources), {}), kept_line(old.line(old.name), "0" * 16, {}),
             kept_line(f"{old.name} (000000000000)", code_digest(old.sources), {})]
    (tmp_path / "ablation-cells.jsonl").write_text("".join(f"{line}\n" for line in lines))
    one = all_records()["ablation"] | {"datasets": setup.datasets, "models": setup.models, "seeds": [0]}
    (tmp_path / "ablation.json").write_text(json.dumps(one))
    found = read_records(tmp_path)
    assert found["ablation"]["of_other_code"] == {"lego": 2}
    assert "not measured since: 2 of lego." in results_page(found, "r")
    assert "not measured since" not in results_page(all_records(), "r")


def test_bad_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no record of oblivec reproduce"):
        read_records(tmp_path)
    (tmp_path / "bound.json").write_text("{")
    with pytest.raises(BadInput, match=r"bound\.json: is not a record; run oblivec reproduce bound again"):
        read_records(tmp_path)
    with pytest.raises(BadInput, match="give two paths"):
        main([])
    ended = subprocess.run(
        [sys.executable, "-m", "oblivec.experiments.results_page", str(tmp_path), str(tmp_path / "page.md")],
        capture_output=True, text=True, check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
