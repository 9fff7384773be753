"""`oblivec store` as a user sees it: tables, JSON, exit codes, one line per error."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from oblivec.cli.app import run
from oblivec.store import Store
from store_helpers import calibration, release

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """One calibration and one release made of it."""
    made = Store(tmp_path / "store")
    made.put(*calibration(), 1.5)
    made.put_release(*release(), 0.25)
    return made


def damage(store: Store) -> Path:
    path = store.entries()[0].tensor_file
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    return path


def asked(store: Store, *arguments: str, code: int = 0) -> dict[str, Any]:
    """What the command wrote as JSON."""
    target = store.path.parent / "result.json"
    assert run(["store", *arguments, "--store", str(store.path), "--json", str(target)]) == code
    return json.loads(target.read_text())


def test_list_shows_every_entry(store: Store, capsys: Captured) -> None:
    records = asked(store, "list")["entries"]
    shown = capsys.readouterr()
    assert sorted(record["kind"] for record in records) == ["calibration", "release"]
    for record in records:
        assert record["key"][:12] in shown.out
        assert (record["attributes"], record["method"], record["rows"]) == (["gender"], "tiny", 20)
        assert record["bytes"] > 300
    assert "20 x 4" in shown.out
    assert "2 entries" in shown.out
    assert not shown.err


def test_list_goes_on_past_an_unusable_entry(store: Store, capsys: Captured) -> None:
    store.entries()[0].manifest_file.write_text("{")
    records = asked(store, "list")["entries"]
    assert sorted("problem" in record for record in records) == [False, True]
    shown = capsys.readouterr()
    assert "(unusable)" in shown.out
    assert "oblivec store verify" in shown.err


def test_show_tells_the_whole_story(store: Store, capsys: Captured) -> None:
    key = release()[0].key
    record = asked(store, "show", key[:10])
    assert record["key"] == key
    assert record["lineage"]["calibrations"] == [calibration()[0].key]
    shown = capsys.readouterr().out
    assert key in shown
    assert calibration()[0].key in shown
    assert run(["store", "show", calibration()[0].key, "--store", str(store.path)]) == 0
    shown = capsys.readouterr().out
    for part in ("fine – as far as it goes", "radius_per_user", "tensors/map", "torch"):
        assert part in shown


def test_verify_says_that_all_is_well(store: Store, capsys: Captured) -> None:
    found = asked(store, "verify")
    assert found == {"entries": 2, "problems": [], "temporaries": 0, "open_to_others": False}
    assert "2 entries, all as they were written" in capsys.readouterr().out


def test_verify_finds_a_flipped_bit(store: Store, capsys: Captured) -> None:
    path = damage(store)
    found = asked(store, "verify", code=2)
    assert [problem["damaged"] for problem in found["problems"]] == [True]
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert f"1 of 2 entries cannot be used; the first: {path}" in said.err
    assert not said.out


def test_verify_has_a_word_about_leftovers_and_onlookers(store: Store, capsys: Captured) -> None:
    store.path.chmod(0o755)
    (store.path / "calibrations" / ".temporary-x").mkdir()
    found = asked(store, "verify")
    assert (found["temporaries"], found["open_to_others"]) == (1, True)
    said = capsys.readouterr().err
    assert "chmod 700" in said
    assert "oblivec store gc" in said


def test_gc_says_what_it_freed_and_does_not_when_dry(store: Store, capsys: Captured) -> None:
    damage(store)
    assert run(["store", "gc", "--dry-run", "--store", str(store.path)]) == 0
    assert "would be freed" in capsys.readouterr().out
    assert len(store.entries()) == 2
    assert run(["store", "gc", "--store", str(store.path)]) == 0
    shown = capsys.readouterr().out
    assert "damaged" in shown
    assert " kB freed" in shown
    assert [entry.kind for entry in store.entries()] == ["release"]
    assert run(["store", "gc", "--store", str(store.path)]) == 0
    assert capsys.readouterr().out == "0 B freed\n"


def test_gc_keeps_what_it_is_told_to_keep(store: Store) -> None:
    for entry in store.entries():
        os.utime(entry.manifest_file, (0, 0))
    key = calibration()[0].key
    assert run(["store", "gc", "--unused-since", "30", "--keep", key[:8], "--store", str(store.path)]) == 0
    assert [entry.key for entry in store.entries()] == [key]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["list", "--store", "{tmp}/nowhere"], "no store here"),
        (["verify", "--store", "{tmp}"], "not a store"),
        (["list"], "Missing option '--store'"),
        (["show", "zz", "--store", "{tmp}/store"], "no entry's key begins with 'zz'"),
        (["gc", "--keep", "00", "--store", "{tmp}/store"], "--keep: only --unused-since"),
        (["gc", "--unused-since", "-1", "--store", "{tmp}/store"], "--unused-since"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(
    store: Store, capsys: Captured, arguments: list[str], says: str
) -> None:
    assert run(["store", *(argument.format(tmp=store.path.parent) for argument in arguments)]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("oblivec: ")
    assert said.err.count("\n") == 1
    assert says in said.err
    assert not said.out


@pytest.mark.parametrize("command", [[], ["list"], ["show"], ["verify"], ["gc"]])
def test_the_help_says_how_sensitive_a_store_is(capsys: Captured, command: list[str]) -> None:
    assert run(["store", *command, "--help"]) == 0
    assert "as sensitive as the labels" in " ".join(capsys.readouterr().out.lower().split())


def test_the_benchmark_of_the_store_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("oblivec.bench.store_speed.USERS", (10, 20))
    assert run(["bench", "store-speed", "--quick"]) == 0
    assert "read and check" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
