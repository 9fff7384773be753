"""The frame of the experiments: cells are kept, picked and run side by side; one that fails leaves others alone."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from oblivec.errors import BadInput
from oblivec.experiments import cells as cells_module
from oblivec.experiments.cells import Cell, finish_cells
from oblivec.experiments.kept import Kept
from oblivec.files.atomic import append_line

# --- cells ------------------------------------------------------------------------------------------------------------


def counted(names: list[str], ran: list[str], **more: Any) -> list[Cell]:
    def work(name: str) -> dict[str, Any]:
        ran.append(name)
        return {"figure": len(ran)}

    return [Cell(name, partial(work, name), **more) for name in names]


def test_finished_cells_are_kept_and_only_picked_ones_are_run(tmp_path: Path) -> None:
    ran: list[str] = []
    cells, kept = counted(["a/1", "a/2", "b/1"], ran), tmp_path / "deep" / "kept.jsonl"
    first = finish_cells(cells, patterns=["a/*"], resume=kept, jobs=1)
    assert (list(first.found), first.missing) == (["a/1", "a/2"], ["b/1"])
    assert ran == ["a/1", "a/2"]
    both = finish_cells(cells, patterns=["b/*"], resume=kept, jobs=1).found  # the kept ones count, picked or not
    assert ran == ["a/1", "a/2", "b/1"]
    assert [both[name]["figure"] for name in ("a/1", "a/2", "b/1")] == [1, 2, 3]
    assert {"cpu", "torch"} <= both["a/1"]["machine"].keys()
    other = counted(["a/1", "a/2"], ran, settings={"epochs": 2})
    finish_cells(other, patterns=["a/1"], resume=kept, jobs=1)
    assert ran[3:] == ["a/1"]


def test_a_cell_is_redone_when_its_own_code_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    one, two = counted(["a"], ran, sources=("one.py",)), counted(["b"], ran, sources=("two.py",))
    digests = {("one.py",): "1", ("two.py",): "2"}
    monkeypatch.setattr(cells_module, "code_digest", digests.__getitem__)
    finish_cells(one + two, resume=tmp_path / "kept", jobs=1)
    digests["two.py",] = "other"
    finish_cells(one + two, resume=tmp_path / "kept", jobs=1)
    assert ran == ["a", "b", "b"]


def test_what_only_earlier_code_measured_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    cells = counted(["a", "b"], ran, sources=("one.py",))
    digests = {("one.py",): "1"}
    monkeypatch.setattr(cells_module, "code_digest", digests.__getitem__)
    assert finish_cells(cells, resume=tmp_path / "kept", jobs=1).earlier == {}
    digests["one.py",] = "2"
    ended = finish_cells(cells, patterns=["a"], resume=tmp_path / "kept", jobs=1)
    assert (list(ended.found), ended.missing, ended.found["a"]["figure"]) == (["a"], ["b"], 3)
    (code, result), = ended.earlier.values()
    assert (list(ended.earlier), code, result["figure"]) == (["b"], "1", 2)


def test_files_of_two_machines_add_up(tmp_path: Path) -> None:
    ran: list[str] = []
    cells, parts = counted(["a", "b"], ran), [tmp_path / "1", tmp_path / "2"]
    for part, pattern in zip(parts, ("a", "b"), strict=True):
        finish_cells(cells, patterns=[pattern], resume=part, jobs=1)
    whole = tmp_path / "whole"
    whole.write_text("".join(part.read_text() for part in parts))
    assert finish_cells(cells, resume=whole, enough_seconds=0).found.keys() == {"a", "b"}
    assert ran == ["a", "b"]


def test_lines_of_a_record_are_taken_in_once_and_never_replace_kept_ones(tmp_path: Path) -> None:
    kept, record = Kept(tmp_path / "kept"), Kept(tmp_path / "record")
    kept.add("a", "1", {"ranks": "12"})
    for name, code in (("a", "1"), ("a", "2"), ("b", "1")):
        record.add(name, code, {"code": code})
    append_line(record.path, '{"code": "1", "aud')
    for _ in range(2):
        kept.take_in(record.path)
    assert kept.read({"a": "1", "b": "1"}) == {"a": {"ranks": "12"}, "b": {"code": "1"}}
    assert len(kept.path.read_text().splitlines()) == 3


def test_what_is_to_be_run_is_told_beforehand(tmp_path: Path) -> None:
    ran: list[str] = []
    told: list[list[str]] = []
    cells, kept = counted(["a", "b", "c"], ran), tmp_path / "kept"

    def prepare(chosen: Sequence[Cell]) -> None:
        told.append([cell.name for cell in chosen])

    finish_cells(cells, patterns=["a"], resume=kept, jobs=1, prepare=prepare)
    for _ in range(2):
        finish_cells(cells, resume=kept, jobs=1, prepare=prepare)
    assert told == [["a"], ["b", "c"]]


def test_time_that_is_up_and_patterns_that_match_nothing() -> None:
    ran: list[str] = []
    ended = finish_cells(counted(["a"], ran), enough_seconds=0)
    assert (ended.found, ended.missing, ended.exit_code) == ({}, ["a"], 0)
    with pytest.raises(BadInput, match="--cells x/\\*: matches none; a name looks like a"):
        finish_cells(counted(["a"], ran), patterns=["x/*"])
    assert ran == []


def test_one_work_may_give_several_results(tmp_path: Path) -> None:
    ran: list[str] = []

    def work() -> dict[str, Any]:
        ran.append("chain")
        return {"x/1": {"figure": 1}, "x/2": {"figure": 2}}

    chain, kept = Cell("x/2", work, parts=("x/1", "x/2")), tmp_path / "kept"
    assert [one["figure"] for one in finish_cells([chain], resume=kept, patterns=["x/1"]).found.values()] == [1, 2]
    assert finish_cells([chain], resume=kept).found.keys() == {"x/1", "x/2"}
    alone = Cell("x/1", lambda: {"figure": 3})  # the same measurement, asked for by itself
    assert finish_cells([alone], resume=kept).found["x/1"]["figure"] == 1
    lines = kept.read_text().splitlines()
    kept.write_text(lines[0] + "\n")
    finish_cells([chain], resume=kept)
    assert ran == ["chain", "chain"]


def process_number(name: str) -> dict[str, Any]:
    if name == "broken":
        raise ValueError("user 17 is a teacher")
    if name == "refused":
        raise BadInput("--device x: no such device")
    return {"process": os.getpid()}


def named(*names: str, alone: bool = False) -> list[Cell]:
    return [Cell(name, partial(process_number, name), alone=alone) for name in names]


def test_a_failure_is_said_without_its_data_and_leaves_the_others_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = finish_cells(named("refused", "broken", "good"), resume=tmp_path / "kept", jobs=1)
    assert list(ended.found) == ["good"]
    assert ended.failed["refused"] == "--device x: no such device"
    assert ended.failed["broken"].startswith("ValueError in ")
    assert "teacher" not in capsys.readouterr().err + str(ended)
    assert ended.exit_code == 1
    assert finish_cells(named("refused", "good"), resume=tmp_path / "kept", jobs=1).exit_code == 2


def test_cells_run_side_by_side_and_each_keeps_its_own(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    ended = finish_cells(named("a", "b", "broken", "c") + named("timed", alone=True), resume=kept, jobs=2)
    processes = {name: one["process"] for name, one in ended.found.items()}
    assert list(processes) == ["a", "b", "c", "timed"]
    assert processes["timed"] == os.getpid()  # here, with nothing beside it
    assert os.getpid() not in {processes[name] for name in "abc"}
    assert {json.loads(line)["audit"].split()[0] for line in kept.read_text().splitlines()} == set(processes)
