"""`oblivec unlearn`: what is written, what is said, and that whatever is wrong is one line before any long work."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet
from safetensors.torch import load_file, save_file
from scipy.sparse import csr_matrix

from audit_contract import check_audit
from oblivec.cli.app import run
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.files.embeddings import read_embeddings
from oblivec.metrics import factor_scorer, rank_test_items
from oblivec.policies.source import Source, read_source
from oblivec.recommenders import load, recommender, save
from unlearn_files import ITEMS, SECRETS, Files, N, item_vectors, user, vectors, write_files

Captured = pytest.CaptureFixture[str]
UTILITY = ("--items", "items.npy", "--interactions", "interactions.csv")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.chdir(tmp_path)
    return write_files(tmp_path)


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """No work may be done: bad input is found before."""
    monkeypatch.setattr("oblivec.lego.map_tasks", lambda *_: pytest.fail("work was done"))
    monkeypatch.setattr("oblivec.policies.auditing.run_audit", lambda *_, **__: pytest.fail("work was done"))


# what comes out -------------------------------------------------------------------------------------------------------


def test_the_json_is_the_contract(files: Files) -> None:
    found = files.json(*UTILITY, protect="money,group")
    assert list(found) == ["method", "requirement", "seed", "config_hash", "seconds", "moved", "neighbours", "audit",
                           "utility", "notes"]
    assert (found["method"], found["requirement"], found["seed"]) == ("paper-tuned", ["group", "money"], 0)
    assert len(found["config_hash"]) == 64
    assert list(found["seconds"]) == ["calibrate", "combine", "audit"]
    assert 0 < found["moved"] < 1
    assert 0.3 < found["neighbours"] < 1
    assert list(found["audit"]) == ["before", "after"]
    for audit in found["audit"].values():
        assert list(check_audit(audit)["attributes"]) == ["group", "money"]
    assert found["audit"]["before"]["attributes"]["group"]["verdict"] == "leaks"
    before, after = (found["audit"][when]["attributes"]["group"]["attackers"]["linear"]["bacc"]
                     for when in ("before", "after"))
    assert after < before
    assert found["utility"].keys() == {"before", "after"}
    assert all(set(one) == {"hr@10", "ndcg@10"} for one in found["utility"].values())


def test_without_an_audit_and_without_items_both_are_null(files: Files) -> None:
    found = files.json("--no-audit")
    assert found["audit"] is None
    assert found["utility"] is None
    assert found["seconds"]["audit"] == 0


def test_the_figures_are_those_of_the_release(files: Files) -> None:
    found = files.json(*UTILITY, "--no-audit")
    release = read_embeddings(files / "release.csv").values
    given = read_source(Source(embeddings=files / "users.csv", attributes=files / "attributes.csv",
                               items=files / "items.npy", interactions=files / "interactions.csv"), ["group"])
    assert given.split is not None
    for when, U in (("before", vectors()), ("after", release)):
        scorer = factor_scorer(torch.from_numpy(np.array(U, np.float32)), torch.from_numpy(item_vectors()))
        assert found["utility"][when] == pytest.approx(rank_test_items(scorer, given.split).summary())
    assert found["moved"] == pytest.approx(np.linalg.norm(release - vectors()) / np.linalg.norm(vectors()))


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".parquet", ".safetensors"])
def test_the_release_is_laid_out_as_the_input(files: Files, suffix: str) -> None:
    U, name = vectors(), f"other{suffix}"
    if suffix == ".parquet":
        columns = {"user_id": [user(row) for row in range(N)]} | {f"d{k}": U[:, k].astype(np.float64) for k in range(4)}
        parquet.write_table(pa.table(columns), files / name)
    elif suffix == ".safetensors":
        ids = {"ids": json.dumps([user(row) for row in range(N)])}
        save_file({"embeddings": torch.from_numpy(U).half(), "more": torch.ones(2)}, files / name, ids)
    else:
        (files / name).write_bytes((files / f"users{suffix}").read_bytes())
    assert files.unlearn("--no-audit", matrix=name) == 0
    before, after = read_embeddings(files / name), read_embeddings(files / f"release{suffix}")
    assert after.values.shape == before.values.shape
    assert after.values.dtype == before.values.dtype
    assert before.ids is None or (after.ids == before.ids).all()
    moved = (after.values != before.values).any(axis=1)
    assert (moved == (np.arange(N) % 10 != 0)).all()  # this method moves exactly those with a label
    if suffix == ".safetensors":
        assert load_file(files / "release.safetensors")["more"].equal(torch.ones(2))


def test_lists_come_with_commas_and_repeated(files: Files) -> None:
    assert files.unlearn("--no-audit", protect="group,coin", out="one.csv") == 0
    assert files.unlearn("--no-audit", "--protect", "group", protect="coin", out="other.csv") == 0
    assert (files / "one.csv").read_bytes() == (files / "other.csv").read_bytes()


def test_a_second_run_takes_everything_from_the_store(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    first = files.json("--store", "store", protect="group,coin")
    once = (files / "release.csv").read_bytes()
    for place in ("oblivec.lego.make", "oblivec.policies.auditing.run_audit"):
        monkeypatch.setattr(place, lambda *_, **__: pytest.fail("computed again"))
    monkeypatch.setattr("oblivec.combination.convex.Convex.combine", lambda *_, **__: pytest.fail("combined again"))
    again = files.json("--store", "store", protect="coin,group")
    assert (files / "release.csv").read_bytes() == once
    assert {**again, "seconds": None} == {**first, "seconds": None}


def test_people_get_tables_and_a_word_on_what_next(files: Files, capsys: Captured) -> None:
    page = files / "page.html"
    assert files.unlearn(*UTILITY, "--html", page, "--json", files / "result.json", "--verbose") == 0
    said = capsys.readouterr()
    for words in ("what can be inferred", "guessing", "leaks ->", "What it costs", "NDCG@10"):
        assert words in said.out
    for words in ("12 of 120 users have no label", "50 nearest", "Next: load", "still gives away group", "--store DIR"):
        assert words in said.err
    assert "<html" in page.read_text()
    for text in (said.out, said.err, page.read_text(), (files / "result.json").read_text()):
        assert not any(secret in text for secret in SECRETS)


def test_quiet_says_results_only(files: Files, capsys: Captured) -> None:
    assert files.unlearn("--quiet") == 0
    assert capsys.readouterr().err == ""


def test_an_attribute_that_cannot_be_attacked_is_said(files: Files, capsys: Captured) -> None:
    found = files.json(protect="constant")
    assert found["audit"] is None
    assert found["moved"] == 0
    assert any("same label" in note for note in found["notes"])
    assert any("nothing is known" in note for note in found["notes"])
    assert (files / "release.csv").exists()
    capsys.readouterr()


def test_the_matrix_may_be_replaced_in_place(files: Files) -> None:
    assert files.unlearn("--no-audit", out="users.csv") == 0
    assert read_embeddings(files / "users.csv").ids is not None
    assert not np.array_equal(read_embeddings(files / "users.csv").values, vectors())


# refit and models -----------------------------------------------------------------------------------------------------


def test_a_refit_is_reported_beside_its_control(files: Files) -> None:
    refit = ("--refit", "--items-out", "fresh.npy", "--refit-epochs", "2", "--no-audit")
    found = files.json(*UTILITY, *refit)
    assert found["utility"].keys() == {"before", "after", "control"}
    fresh, old = np.load(files / "fresh.npy"), item_vectors()
    assert fresh.shape == old.shape
    assert fresh.dtype == old.dtype
    assert not np.array_equal(fresh, old)
    assert np.corrcoef(fresh.ravel(), old.ravel())[0, 1] > 0.5  # refitted, not made anew


@pytest.mark.parametrize("name", ["ncf", "lightgcn"])
def test_a_trained_model_is_scored_and_refitted(files: Files, name: str) -> None:
    rng = np.random.default_rng(0)
    train = csr_matrix((rng.random((N, ITEMS)) < 0.2).astype(np.float32))
    settings: dict[str, Any] = {"epochs": 1, "dimensions": 4, "steps_per_epoch": 5}
    model = recommender(name, **settings).fit(LeaveOneOut(train, np.full(N, -1), "file-order"), device="cpu")
    save(model, files / "model", np.array([user(row) for row in range(N)]))
    matrix, target = "model/users.safetensors", "fresh.safetensors"
    found = files.json("--model", "model", "--interactions", "interactions.csv", "--refit", "--items-out", target,
                       "--refit-epochs", "1", "--no-audit", matrix=matrix)
    assert found["utility"].keys() == {"before", "after", "control"}
    release = read_embeddings(files / "release.safetensors")
    assert release.values.shape == model.user_matrix().shape
    (files / "model" / "users.safetensors").write_bytes((files / "release.safetensors").read_bytes())
    side = "items.safetensors" if name == "lightgcn" else "model.safetensors"
    (files / "model" / side).write_bytes((files / target).read_bytes())
    served = load(files / "model")  # drops into the same recommender
    assert np.array_equal(served.user_matrix(), release.values)
    assert torch.isfinite(served.scores(torch.arange(3))).all()


# bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize(
    ("options", "changes", "says"),
    [
        ((), {"protect": "income"}, "attributes.csv: has no attribute 'income'; it has group, coin, money, constant"),
        ((), {"protect": ","}, "--protect: names no attribute"),
        ((), {"out": "release.npy"}, "release.npy: must end in .csv, as "),
        ((), {"out": "users.npy/release.csv"}, "users.npy/release.csv: cannot be written"),
        ((), {"out": "attributes.csv"}, "attributes.csv: would replace the attributes it is made from"),
        (("--json", "release.csv"), {}, "--json release.csv: is the target of --out too"),
        (("--json", "."), {}, ".: is a directory; give a file"),
        (("--items", "users.npy", "--model", "m"), {}, "--items and --model: give one of them"),
        (("--items", "narrow.npy"), {}, "narrow.npy: has 2 dimensions and "),
        (("--items", "nowhere.npy"), {}, "nowhere.npy: no such file"),
        (("--model", "nowhere"), {}, "nowhere/model.json: no such file"),
        (("--method", "dp"), {}, "method 'dp': unknown; use one of "),
        (("--set", "speed=3"), {}, "paper-tuned: setting speed: "),
        (("--set", "speed"), {}, "--set speed: write NAME=VALUE"),
        (("--set", "seed=3"), {}, "--set seed: has an option of its own"),
        (("--set", "combination.speed=3"), {}, "convex-tuned: setting speed: "),
        (("--label-free",), {}, "method 'paper-tuned': has no label-free form"),
        (("--attacker", "nobody"), {}, "--attacker nobody: unknown"),
        (("--type", "group=continuous"), {}, "column 'group' is not numbers"),
        (("--refit",), {}, "--refit: goes with --items-out"),
        (("--items-out", "x.npy"), {}, "--refit: goes with --items-out"),
        (("--refit", "--items-out", "x.csv", *UTILITY), {}, "x.csv: must end in .npy"),
        (("--no-audit", "--html", "x.html"), {}, "--html: is the audit's page"),
        (("--store", "users.csv"), {}, "users.csv: is a file; give the directory of a store"),
        (("--store", "."), {}, ".: not a store, it holds files"),
        ((), {"matrix": "strangers.csv", "out": "release.csv"}, "no user is in "),
        ((), {"matrix": "few.csv", "out": "release.csv"}, "column 'group': no user of "),
        ((), {"matrix": "twins.csv", "out": "release.csv"}, "twins.csv: column 'user_id'"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(
    files: Files, capsys: Captured, options: tuple[str, ...], changes: dict[str, str], says: str
) -> None:
    np.save(files / "narrow.npy", item_vectors()[:, :2])
    rows = [[f"zquser-x{row}", 1.5, 2.0, float(row), 0.0] for row in range(20)]
    header = ("user_id", "d0", "d1", "d2", "d3")
    files.write("strangers.csv", header, rows)
    files.write("few.csv", header, [[user(0), *rows[0][1:]], *rows])
    files.write("twins.csv", header, [[user(1), *rows[0][1:]], [user(1), *rows[0][1:]]])
    content = {path.name: path.read_bytes() for path in files.folder.iterdir()}
    assert files.unlearn(*options, **changes) == 2
    said = capsys.readouterr()
    assert says in said.err
    assert said.err.startswith("oblivec: ")
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert not any(secret in said.err for secret in SECRETS)
    assert {path.name: path.read_bytes() for path in files.folder.iterdir()} == content


def test_required_options_are_asked_for(files: Files, capsys: Captured) -> None:
    assert run(["unlearn", str(files / "users.csv"), "--attributes", str(files / "attributes.csv")]) == 2
    assert "--protect" in capsys.readouterr().err


# stores that cannot be used -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("idle")
def test_a_store_of_a_newer_oblivec_is_left_alone(files: Files, capsys: Captured) -> None:
    (files / "store").mkdir()
    (files / "store" / "store.json").write_text('{"store": "oblivec", "schema": 99}')
    assert files.unlearn("--store", "store") == 2
    assert "needs a newer Oblivec" in capsys.readouterr().err
    assert not (files / "release.csv").exists()


def test_a_damaged_entry_is_found_by_use_and_can_be_made_again(files: Files, capsys: Captured) -> None:
    assert files.unlearn("--store", "store", "--no-audit") == 0
    for path in (files / "store").glob("*/*/*.safetensors"):
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    capsys.readouterr()
    assert files.unlearn("--store", "store", "--no-audit", out="again.csv") == 2
    said = capsys.readouterr().err
    assert "is damaged; run `oblivec store gc --store store`" in said
    assert said.count("\n") == 1
    assert not (files / "again.csv").exists()
    assert run(["store", "gc", "--store", "store"]) == 0
    assert files.unlearn("--store", "store", "--no-audit", out="again.csv") == 0
    assert (files / "again.csv").read_bytes() == (files / "release.csv").read_bytes()


def test_a_full_disk_is_one_line_and_loses_nothing(
    files: Files, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert files.unlearn("--no-audit") == 0
    before = (files / "release.csv").read_bytes()
    capsys.readouterr()

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("oblivec.files.embeddings.write_matrix_csv", full)
    assert files.unlearn("--no-audit", protect="coin") == 2
    said = capsys.readouterr().err
    assert "release.csv: cannot be written (No space left on device); free space" in said
    assert (files / "release.csv").read_bytes() == before
    assert [path.name for path in files.folder.iterdir() if path.name.startswith(".")] == []
