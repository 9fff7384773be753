"""`oblivec bench`: benchmarks are found by themselves, and every result carries its command and its machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from oblivec.bench import registry
from oblivec.bench.registry import benchmarks
from oblivec.cli.app import run


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Add a benchmark `planted` that returns or raises what it is given."""

    def plant(result: Any, show: Callable[[Any], None] | None = None) -> None:
        module = ModuleType("planted")

        def measure(quick: bool = False) -> Any:
            if isinstance(result, BaseException):
                raise result
            return result | {"quick": quick}

        vars(module).update({"run": measure} | ({"show": show} if show else {}))
        monkeypatch.setitem(sys.modules, "oblivec.bench.planted", module)
        listed = benchmarks() | {"planted": "Does it grow?"}
        monkeypatch.setattr(registry, "benchmarks", lambda: listed)

    return plant


def test_every_benchmark_is_found_and_has_one_line() -> None:
    found = benchmarks()
    assert {"fuzz-readers", "recommender-quality"} <= set(found)
    assert not {"registry", "malformed"} & set(found)
    assert all(found.values())


def test_listing_imports_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A broken benchmark, or a helper for another environment, does not stand in the way of the others."""
    (tmp_path / "good_one.py").write_text('"""First line.\n\nMore."""\nimport nowhere\ndef run(quick=False): ...\n')
    (tmp_path / "helper.py").write_text('"""No benchmark."""\nimport nowhere\nclass Worker:\n    def run(self): ...\n')
    monkeypatch.setattr(registry, "FOLDER", tmp_path)
    assert benchmarks() == {"good-one": "First line."}


def test_without_a_name_they_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in benchmarks())


def test_a_result_carries_its_command_and_its_machine(
    planted: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planted({"speed": 12.34567, "parts": [{"ok": True}, 7]})
    target = tmp_path / "deep" / "result.json"
    assert run(["bench", "planted", "--quick", "--json", str(target)]) == 0
    (record,) = json.loads(target.read_text())["benchmarks"]
    assert record["command"] == "oblivec bench planted --quick"
    assert record["result"] == {"speed": 12.34567, "parts": [{"ok": True}, 7], "quick": True}
    assert {"cpu", "cores", "torch"} <= set(record["machine"])
    printed = capsys.readouterr().out
    for text in ("12.35", "parts[0].ok", "True", "parts[1]"):
        assert text in printed


def test_a_benchmark_may_print_its_own_table(planted: Callable[..., None]) -> None:
    shown: list[Any] = []
    planted({"speed": 1}, shown.append)
    assert run(["bench", "planted", "--quiet"]) == 0
    assert shown == [{"speed": 1, "quick": False}]


def test_an_unknown_name_is_refused_before_anything_runs(
    planted: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planted(RuntimeError("ran"))
    assert run(["bench", "planted", "nosuch", "--json", str(tmp_path / "x.json")]) == 2
    assert "recommender-quality" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_what_was_measured_before_a_failure_is_kept(
    planted: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted({"speed": 1})
    target = tmp_path / "result.json"
    monkeypatch.setattr("oblivec.cli.bench.show_benchmark", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    assert run(["bench", "planted", "--json", str(target)]) == 130
    assert len(json.loads(target.read_text())["benchmarks"]) == 1
