"""`oblivec doctor` finds what is broken, says what to do, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from oblivec import doctor
from oblivec.cli.app import run
from oblivec.datasets.registry import ENTRIES
from oblivec.doctor import examine
from oblivec.machine import describe_machine, free_disk_bytes


def states(root: Path) -> dict[str, doctor.Finding]:
    return {found.what: found for found in examine(root)}


def test_a_sound_environment_has_nothing_broken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "cache"
    assert run(["doctor", "--root", str(root)]) == 0
    printed = capsys.readouterr().out
    for what in ("python", "torch", "scikit-learn", "pyarrow", "device", "cores", "memory", "disk", "chromium"):
        assert what in printed
    for name in ENTRIES:
        assert name in printed
    assert not root.exists()


def test_every_note_and_fault_says_what_to_do(tmp_path: Path) -> None:
    found = examine(tmp_path)
    assert all(one.advice for one in found if one.state != "ok")
    assert "data fetch ml-100k" in states(tmp_path)["data: ml-100k"].advice


def test_data_that_is_there_needs_no_advice(tmp_path: Path) -> None:
    cached = tmp_path / "ml-100k" / "tables.safetensors"
    cached.parent.mkdir()
    cached.touch()
    found = states(tmp_path)["data: ml-100k"]
    assert (found.state, found.advice) == ("ok", "")


def test_quiet_lists_only_what_is_not_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--quiet", "--root", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "ml-100k" in printed
    assert "scikit-learn" not in printed


@pytest.mark.parametrize(
    ("requirement", "state"),
    [("numpy>=1.0", "ok"), ("numpy", "ok"), ("numpy>=999", "broken"), ("no-such-package>=1", "broken"),
     ("no-such-extra>=1; extra == 'boosters'", "note"), ("scikit-learn>=1.4", "ok")],
)
def test_packages_are_looked_at_one_by_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, requirement: str, state: str
) -> None:
    monkeypatch.setattr(doctor, "requires", lambda _: [requirement, "no-such-tool; extra == 'dev'"])
    found = [one for one in examine(tmp_path) if one.what in requirement.split(">")[0].split(";")]
    assert [one.state for one in found] == [state]
    assert "no-such-tool" not in states(tmp_path)
    assert run(["doctor", "--root", str(tmp_path)]) == (1 if state == "broken" else 0)
    assert not capsys.readouterr().err


def test_a_library_that_cannot_be_imported_is_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(name: str) -> None:
        raise OSError(f"{name}: wrong ELF class")

    monkeypatch.setattr(doctor.importlib, "import_module", refuse)
    found = states(tmp_path)["pyarrow"]
    assert found.state == "broken"
    assert "cannot be imported" in found.found
    assert "pyarrow" in found.advice


def test_scarcity_is_noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "memory_bytes", lambda: (8 << 30, 1 << 30))
    monkeypatch.setattr(doctor, "free_disk_bytes", lambda _: 1 << 20)
    monkeypatch.setattr(doctor.shutil, "which", lambda _: None)
    found = states(tmp_path)
    assert [found[what].state for what in ("memory", "disk", "chromium")] == ["note"] * 3
    monkeypatch.setattr(doctor, "memory_bytes", lambda: (None, None))
    assert states(tmp_path)["memory"].state == "ok"


def test_free_space_is_known_for_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert free_disk_bytes(tmp_path / "not" / "yet") > 0


def test_the_machine_is_described_without_its_name() -> None:
    import getpass
    import platform

    told = describe_machine()
    assert told["cores"] >= 1
    assert told["torch"]
    words = " ".join(str(value) for value in told.values()).split()
    assert platform.node() not in words
    assert getpass.getuser() not in words
