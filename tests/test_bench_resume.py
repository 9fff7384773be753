"""Simulations that are cut short go on where they stopped, and never count what other code has found."""

from __future__ import annotations

import ast
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oblivec.bench import audit_simulations
from oblivec.bench.audit_simulations import Matrix, Scenario, noise_labels, run_scenarios
from oblivec.cli.app import run
from oblivec.experiments import kept as kept_lines


def tiny(n: int, seed: int) -> Matrix:
    U = np.random.default_rng(seed).standard_normal((n, 2)).astype(np.float32)
    return U, {"x": noise_labels((0.5, 0.5), n, "x", seed)}


def scenario(audits: int, n: int = 60, enough_seconds: float = float("inf")) -> Scenario:
    return Scenario("tiny", partial(tiny, n), audits, enough_seconds)


@pytest.fixture
def audited(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Seeds of the audits that are really run, each with one fast attacker."""
    seeds: list[int] = []
    real = audit_simulations.run_audit

    def note(*given: Any, seed: int, **options: Any) -> Any:
        seeds.append(seed)
        return real(*given, seed=seed, attackers=["linear"], **options)

    monkeypatch.setattr(audit_simulations, "run_audit", note)
    return seeds


def test_what_is_done_is_not_done_again(audited: list[int], tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    first = run_scenarios([scenario(2)], jobs=1, resume=kept)["tiny"]
    both = run_scenarios([scenario(3)], jobs=1, resume=kept)["tiny"]
    assert audited == [0, 1, 2]
    assert both[:2] == first
    again = run_scenarios([scenario(3)], jobs=1)["tiny"]  # without the file: the same, run anew
    assert audited == [0, 1, 2, 0, 1, 2]
    assert [row["p_value"] for row in again] == [row["p_value"] for row in both]


def test_a_run_cut_short_counts_what_was_kept(audited: list[int], tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    run_scenarios([scenario(2)], jobs=1, resume=kept)
    assert len(run_scenarios([scenario(5, enough_seconds=0)], jobs=1, resume=kept)["tiny"]) == 2
    assert audited == [0, 1]


def test_other_code_other_settings_and_broken_lines_do_not_count(
    audited: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept.jsonl"
    run_scenarios([scenario(2)], jobs=1, resume=kept)
    run_scenarios([scenario(1, n=80)], jobs=1, resume=kept)
    assert audited == [0, 1, 0]

    lines = kept.read_text().splitlines()
    kept.write_text("\n".join([*lines[1:], lines[0][:50]]))  # seed 0 was being written when the machine went down
    assert len(run_scenarios([scenario(2)], jobs=1, resume=kept)["tiny"]) == 2
    assert audited == [0, 1, 0, 0]
    assert json.loads(kept.read_text().splitlines()[-1])["audit"].endswith("seed 0")
    assert "broken" in capsys.readouterr().err

    monkeypatch.setattr(audit_simulations, "code_digest", lambda: "changed")
    run_scenarios([scenario(2)], jobs=1, resume=kept)
    assert audited[4:] == [0, 1]


def test_the_digest_changes_with_what_the_attackers_do_and_not_with_their_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "attacks").mkdir()
    monkeypatch.setattr(kept_lines, "PACKAGE", tmp_path)

    def digest(text: str) -> str:
        (tmp_path / "attacks" / "linear.py").write_text(text)
        return kept_lines.code_digest.__wrapped__()

    before = digest("STEPS = 1\n\ndef go(x):\n    return f'{x} {STEPS}'\n")
    said = (
        '"""More."""\nSTEPS = 1  # few\n"""Of them."""\n'
        'def go(\n    x,\n):\n    """Go."""\n    return f"{x} {STEPS}"\n'
    )
    assert digest(said) == before
    assert digest(said.replace("STEPS = 1", "STEPS = 2")) != before
    assert digest(said.replace("{x} {", "{x}, {")) != before
    assert digest(said.replace("STEPS = 1", "STEPS = '1'")) != before


def test_versions_of_python_that_cut_text_elsewhere_give_the_same_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.12 has an empty text behind a brace within braces, 3.11 has none."""
    source, parse = "digits = '.1f'\nprint(f'{2:{digits}} of {3:>{digits}}')\n", ast.parse
    before = kept_lines.what_it_does(source)

    def cut_elsewhere(text: str) -> ast.Module:
        tree = parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.FormattedValue) and isinstance(node.format_spec, ast.JoinedStr):
                node.format_spec.values.append(ast.Constant(""))
        return tree

    monkeypatch.setattr(ast, "parse", cut_elsewhere)
    assert kept_lines.what_it_does(source) == before


def test_on_the_command_line(audited: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oblivec.engines.local.default_jobs", lambda: 1)
    kept, result = tmp_path / "kept.jsonl", tmp_path / "result.json"
    for _ in range(2):
        assert run(["bench", "audit-level", "--quick", "--resume", str(kept), "--json", str(result), "--quiet"]) == 0
    assert len(audited) == len(kept.read_text().splitlines()) == 8  # two each of three small shapes and the trap
    (record,) = json.loads(result.read_text())["benchmarks"]
    assert record["result"]["false_alarms"]["of"] == 6
    assert record["command"] == "oblivec bench audit-level --quick --resume PATH"


def test_what_cannot_be_resumed_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "audit-speed", "--quick", "--resume", str(tmp_path / "x")]) == 2
    assert "--resume" in capsys.readouterr().err
    (tmp_path / "folder").mkdir()
    assert run(["bench", "audit-power", "--quick", "--resume", str(tmp_path / "folder")]) == 2
    assert capsys.readouterr().err.strip().endswith("--resume")
