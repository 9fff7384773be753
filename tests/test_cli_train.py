"""`oblivec train`: what it writes, what it refuses, and that a directory appears whole or not at all."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from oblivec.cli.app import run
from oblivec.files.embeddings import read_embeddings
from oblivec.recommenders import load

FILES = {"users.safetensors", "model.json", "catalogue.csv", "attributes.csv", "interactions.csv", "metrics.json"}


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    """Thirty users with six of twelve items each; one user has a single interaction, one has no attributes."""
    rng = np.random.default_rng(0)
    rows = [(f"u{user}", f"i{item}", time) for user in range(30) for time, item in enumerate(rng.permutation(12)[:6])]
    interactions = tmp_path / "interactions.csv"
    with interactions.open("w", newline="") as file:
        csv.writer(file).writerows([("user_id", "item_id", "timestamp"), *rows, ("single", "i0", 0)])
    attributes = tmp_path / "attributes.csv"
    labels = [(f"u{user}", "" if user == 3 else "ab"[user % 2], 20.5 + user) for user in range(29)]
    with attributes.open("w", newline="") as file:
        csv.writer(file).writerows([("user_id", "group", "age"), *labels])
    return interactions, attributes


def train(tables: tuple[Path, Path], out: Path, *more: str) -> int:
    return run(["train", "--interactions", str(tables[0]), "--attributes", str(tables[1]), "--type", "age=continuous",
                "--out", str(out), "--epochs", "2", "--device", "cpu", *more])


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("model", ["ncf", "lightgcn", "multvae"])
def test_the_directory_holds_what_the_contract_says(tables: tuple[Path, Path], tmp_path: Path, model: str) -> None:
    out = tmp_path / "deep" / "model"
    assert train(tables, out, "--model", model, "--seed", "5", "--quiet") == 0
    rest = {"items.safetensors"} if model == "lightgcn" else {"model.safetensors"}
    assert {path.name for path in out.iterdir()} == FILES | rest

    metrics = json.loads((out / "metrics.json").read_text())
    assert list(metrics) == ["hr@10", "ndcg@10", "dataset", "model", "tie_rule", "seed", "seconds"]
    assert (metrics["dataset"], metrics["model"], metrics["tie_rule"]) == ("own", model, "file-order")
    assert metrics["seed"] == 5
    assert 0 <= metrics["ndcg@10"] <= metrics["hr@10"] <= 100

    users = read_embeddings(out / "users.safetensors")
    assert users.ids is not None
    assert len(users.ids) == 31
    assert np.array_equal(users.values, load(out).user_matrix())
    assert [row["user_id"] for row in read_rows(out / "attributes.csv")] == users.ids.tolist()


def test_attributes_come_out_as_they_went_in(tables: tuple[Path, Path], tmp_path: Path) -> None:
    assert train(tables, tmp_path / "model", "--quiet") == 0
    rows = {row["user_id"]: row for row in read_rows(tmp_path / "model" / "attributes.csv")}
    assert rows["u4"] == {"user_id": "u4", "group": "a", "age": "24.5"}
    assert rows["u3"]["group"] == ""
    assert rows["u29"] == {"user_id": "u29", "group": "", "age": ""}


def test_the_last_interaction_is_the_test_item(tables: tuple[Path, Path], tmp_path: Path) -> None:
    assert train(tables, tmp_path / "model", "--quiet") == 0
    keys = {row["item_id"]: row["key"] for row in read_rows(tmp_path / "model" / "catalogue.csv")}
    assert list(keys) == [str(number) for number in range(12)]
    written = [(row["user_id"], keys[row["item_id"]], row["split"])
               for row in read_rows(tmp_path / "model" / "interactions.csv")]
    given = read_rows(tables[0])
    last = {row["user_id"]: row["item_id"] for row in given if row["user_id"] != "single"}
    expected = {(row["user_id"], row["item_id"], "test" if last.get(row["user_id"]) == row["item_id"] else "train")
                for row in given}
    assert len(written) == len(given)
    assert set(written) == expected


def test_what_train_wrote_can_be_trained_on_again(tables: tuple[Path, Path], tmp_path: Path) -> None:
    """The written split is the split: a second training from the written tables gives the same numbers."""
    first, second = tmp_path / "first", tmp_path / "second"
    assert train(tables, first, "--model", "multvae", "--quiet") == 0
    written = first / "interactions.csv", first / "attributes.csv"
    assert train(written, second, "--model", "multvae", "--quiet") == 0
    tested = [{(row["user_id"]) for row in read_rows(place / "interactions.csv") if row["split"] == "test"}
              for place in (first, second)]
    assert tested[0] == tested[1]
    assert len(tested[0]) == 30


def test_a_model_is_replaced_and_nothing_else_is(tables: tuple[Path, Path], tmp_path: Path,
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "model"
    assert train(tables, out, "--model", "ncf", "--quiet") == 0
    assert train(tables, out, "--model", "lightgcn", "--quiet") == 0
    assert load(out).name == "lightgcn"
    assert not (out / "model.safetensors").exists()

    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("mine")
    assert train(tables, precious) == 2
    assert "model.json" in capsys.readouterr().err
    assert [path.name for path in precious.iterdir()] == ["thesis.txt"]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--dataset"),
        (["--dataset", "ml-100k", "--interactions", "x.csv"], "either"),
        (["--dataset", "netflix"], "netflix"),
        (["--dataset", "ml-100k", "--model", "svd"], "lightgcn"),
        (["--dataset", "ml-100k", "--preset", "best"], "paper"),
        (["--dataset", "ml-100k", "--attributes", "x.csv"], "--interactions"),
        (["--interactions", "x.csv", "--root", "here"], "--dataset"),
        (["--interactions", "no-such-file.csv"], "no-such-file.csv"),
        (["--dataset", "ml-100k", "--epochs", "0"], "epochs"),
        (["--dataset", "ml-100k", "--device", "quantum"], "quantum"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert run(["train", "--out", str(tmp_path / "model"), *arguments]) == 2
    line = capsys.readouterr().err
    assert says in line
    assert line.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_target_that_cannot_be_written_is_refused_before_training(tables: tuple[Path, Path], tmp_path: Path,
                                                                    capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert train(tables, tmp_path / "file") == 2
    assert train(tables, tmp_path / "file" / "model") == 2
    assert capsys.readouterr().err.count("\n") == 2


def test_a_failed_write_leaves_the_old_model(tables: tuple[Path, Path], tmp_path: Path,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "model"
    assert train(tables, out, "--quiet") == 0
    before = (out / "users.safetensors").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("oblivec.recommenders.export._write_csv", full)
    assert train(tables, out, "--seed", "1", "--quiet") == 1
    assert (out / "users.safetensors").read_bytes() == before
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_killed_training_leaves_nothing(tables: tuple[Path, Path], tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    code = "import sys; from oblivec.cli import main; print('ready', flush=True); main(sys.argv[1:])"
    arguments = ["train", "--interactions", str(tables[0]), "--out", str(place / "model"), "--epochs", "1000000"]
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"})
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(2)
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    assert not list(place.iterdir())
