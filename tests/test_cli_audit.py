"""`oblivec audit`: exit codes, one-line errors, what is written, and that no label and no id is ever shown."""

from __future__ import annotations

import csv
import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from audit_contract import check_audit
from oblivec.cli.app import run
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.recommenders import recommender, save

N = 200
SECRETS = ("zqlabel", "zquser")
"""In every label and in every id of these files."""


@dataclass(frozen=True)
class Files:
    folder: Path

    @property
    def table(self) -> Path:
        return self.folder / "attributes.csv"

    @property
    def matrix(self) -> Path:
        return self.folder / "users.csv"

    def write(self, name: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> Path:
        with (self.folder / name).open("w", newline="") as file:
            csv.writer(file).writerows([header, *rows])
        return self.folder / name

    def audit(self, *options: str | Path, matrix: Path | None = None, attackers: str = "linear") -> int:
        return run(["audit", str(matrix or self.matrix), "--attributes", str(self.table), "--jobs", "1", "--device",
                    "cpu", *(["--attacker", attackers] if attackers else []), *map(str, options)])

    def json(self, *options: str | Path, **changes: Any) -> dict[str, Any]:
        target = self.folder / "audit.json"
        assert self.audit("--json", target, "--quiet", *options, **changes) == 0
        return json.loads(target.read_text())


def user(i: int) -> str:
    return f"zquser{i}"


def vectors(n: int = N, gap: float = 3.0) -> np.ndarray:
    U = np.random.default_rng(0).standard_normal((n, 3)).astype(np.float32)
    U[:, 0] += gap * (np.arange(n) % 2)
    return U


def matrix_rows(U: np.ndarray) -> list[list[Any]]:
    return [[user(i), *map(float, row)] for i, row in enumerate(U)]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Two hundred users; the matrix gives away `group` and not `coin`."""
    found = Files(tmp_path)
    found.write("users.csv", ("user_id", "d0", "d1", "d2"), matrix_rows(vectors()))
    coin = np.random.default_rng(1).permutation(N) % 2
    found.write("attributes.csv", ("user_id", "group", "coin"),
                [(user(i), f"zqlabel{i % 2}", f"zqlabel{coin[i]}") for i in range(N)])
    return found


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The error: one line on standard error, nothing on standard output, no secret, no traceback."""
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = [line for line in captured.err.splitlines() if not line.startswith("note: ")]
    assert len(lines) == 1
    assert lines[0].startswith("oblivec: ")
    assert not any(secret in captured.err for secret in SECRETS)
    return lines[0]


# what comes out -------------------------------------------------------------------------------------------------------


def test_a_table_a_json_and_a_page_without_a_label_or_an_id(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    page, target = files.folder / "audit.html", files.folder / "audit.json"
    assert files.audit("--html", page, "--json", target, "--verbose") == 0
    captured = capsys.readouterr()
    assert "group" in captured.out
    assert "leaks" in captured.out
    audit = check_audit(json.loads(target.read_text()))
    assert audit["attributes"]["group"]["verdict"] == "leaks"
    assert audit["attributes"]["coin"]["verdict"] == "undecided"
    assert "<html" in page.read_text()
    for text in (captured.out, captured.err, target.read_text(), page.read_text()):
        assert not any(secret in text for secret in SECRETS)
    assert "would decide" in captured.err


def test_exit_codes_of_a_leak(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    target = files.folder / "audit.json"
    assert files.audit("--quiet") == 0
    assert files.audit("--fail-on-leak", "--json", target, "--quiet") == 3
    assert target.exists()  # the finding is written before it fails
    assert files.audit("--fail-on-leak", "--attribute", "coin", "--quiet") == 0
    assert "a leak was found" in capsys.readouterr().err


def test_below_chance_fails_too(files: Files) -> None:
    rng = np.random.default_rng(0)
    U, labels = rng.standard_normal((N, 20)), np.arange(N) % 2
    for c in (0, 1):
        U[labels == c] -= U[labels == c].mean(0)
    np.save(files.folder / "trap.npy", U)
    options = ("--attribute", "group", "--fail-on-leak", "--quiet", "--json", files.folder / "trap.json")
    assert files.audit(*options, matrix=files.folder / "trap.npy") == 3
    found = json.loads((files.folder / "trap.json").read_text())["attributes"]["group"]
    assert found["verdict"] == "below_chance"


def test_quiet_prints_the_table_and_nothing_else(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert files.audit("--quiet") == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "What can be inferred" in captured.out


def test_a_written_file_is_replaced_whole(files: Files) -> None:
    target = files.folder / "audit.json"
    target.write_text("x" * 100_000)
    audit = files.json()
    check_audit(audit)
    assert not [path for path in files.folder.iterdir() if path.name.startswith(".")]


def test_a_failed_audit_leaves_the_old_file(files: Files) -> None:
    target = files.folder / "audit.json"
    target.write_text("old")
    assert files.audit("--json", target, "--attribute", "nothing") == 2
    assert target.read_text() == "old"


def test_lists_by_commas_and_by_repetition(files: Files) -> None:
    by_commas = files.json("--attribute", "coin,group", attackers="linear,pairs")
    repeated = files.json("--attribute", "coin", "--attribute", "group", "--attacker", "linear", "--attacker", "pairs",
                          attackers="")
    assert by_commas == repeated
    assert list(by_commas["attributes"]) == ["coin", "group"]
    assert list(by_commas["attributes"]["coin"]["attackers"]) == ["linear", "pairs"]


def test_the_margin_is_in_points(files: Files) -> None:
    audit = files.json("--margin", "20", "--attribute", "coin")
    assert check_audit(audit, 0.2)["attributes"]["coin"]["verdict"] == "at_chance"


def test_the_paper_protocol(files: Files) -> None:
    files.write("attributes.csv", ("user_id", "group"),
                [(user(i), "zqlabel0" if i < 30 else "zqlabel1") for i in range(N)])
    audit = check_audit(files.json("--protocol", "paper"))
    assert (audit["protocol"], audit["attributes"]["group"]["n"]) == ("paper", 60)


def test_types_are_overruled(files: Files) -> None:
    files.write("attributes.csv", ("user_id", "grade"), [(user(i), i % 2 + i % 5) for i in range(N)])
    assert "bacc" in files.json()["attributes"]["grade"]["attackers"]["linear"]
    assert "r2" in files.json("--type", "grade=continuous")["attributes"]["grade"]["attackers"]["linear"]


def test_all_formats_give_the_same(files: Files) -> None:
    from safetensors.numpy import save_file

    U = vectors()
    np.save(files.folder / "u.npy", U)
    save_file({"embeddings": U}, files.folder / "u.safetensors")
    expected = files.json()
    for name in ("u.npy", "u.safetensors"):
        audit = files.json(matrix=files.folder / name)
        assert audit["attributes"] == expected["attributes"]


def test_users_on_one_side_only_are_counted(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files.write("attributes.csv", ("user_id", "group"),
                [(user(i), f"zqlabel{i % 2}") for i in range(20, N + 15)])
    assert files.audit("--json", files.folder / "audit.json") == 0
    captured = capsys.readouterr()
    assert "20 of 200 users" in captured.err
    assert "15 of 195 users" in captured.err
    assert not any(secret in captured.err + captured.out for secret in SECRETS)
    found = json.loads((files.folder / "audit.json").read_text())["attributes"]["group"]
    assert (found["n"], found["missing"]) == (180, 20)


# what goes in wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--threat", "telepathy"], "--threat telepathy: unknown; use embeddings"),
        (["--attacker", "nobody"], "--attacker nobody: unknown; use"),
        (["--attacker", "bayes"], "--attacker bayes: unknown"),
        (["--protocol", "guess"], "--protocol guess: unknown; use panel, paper"),
        (["--attribute", "height"], "has no attribute 'height'"),
        (["--threat", "differencing"], "--baseline"),
        (["--threat", "recommendations"], "--items"),
        (["--threat", "parameters"], "--model"),
        (["--threat", "interactions"], "--interactions"),
        (["--threat", "unlabelled"], "--hidden-labels"),
        (["--margin", "0"], "--margin"),
        (["--margin", "wide"], "--margin"),
        (["--seed", "-1"], "--seed"),
        (["--device", "abacus"], "--device abacus"),
        (["--type", "group"], "--type group"),
        (["--type", "group=continuous"], "column 'group' is not numbers"),
        (["--baseline", "nowhere.npy"], "nowhere.npy"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_bad_options_are_one_line(
    files: Files, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert files.audit(*options) == 2
    assert message in one_line(capsys)


@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_a_missing_booster_says_how_to_get_it(
    files: Files, capsys: pytest.CaptureFixture[str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oblivec.attacks.panel.find_spec", lambda library: None)
    assert files.audit(attackers=name) == 2
    assert "pip install oblivec[boosters]" in one_line(capsys)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["zqlabel"] * N, "1 class"),
        ([""] * N, "no label"),
        ([f"zqlabel{i}" for i in range(N)], "classes for 200 users"),
        ([f"zqlabel{i % 60}" for i in range(N)], "classes for 200 users"),  # more classes than users in a fold
        (["zqlabel0"] * (N - 1) + ["zqlabel1"], "1 class"),
    ],
    ids=["one class", "all missing", "a class each", "more classes than users per fold", "class of one"],
)
@pytest.mark.parametrize("named", [False, True])
def test_attributes_that_cannot_be_attacked(
    files: Files, capsys: pytest.CaptureFixture[str], labels: list[str], message: str, named: bool
) -> None:
    files.write("attributes.csv", ("user_id", "a"), [(user(i), label) for i, label in enumerate(labels)])
    assert files.audit(*(["--attribute", "a"] if named else [])) == 2
    assert message in one_line(capsys)


def test_a_class_of_one_user_is_left_out_with_a_note(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    labels = ["zqlabel-rare"] + [f"zqlabel{i % 2}" for i in range(1, N)]
    files.write("attributes.csv", ("user_id", "a"), [(user(i), label) for i, label in enumerate(labels)])
    assert files.audit("--json", files.folder / "audit.json") == 0
    captured = capsys.readouterr()
    assert "1 of 3 classes have fewer than 5 users" in captured.err
    assert not any(secret in captured.err + captured.out for secret in SECRETS)
    found = json.loads((files.folder / "audit.json").read_text())["attributes"]["a"]
    assert (found["n"], found["missing"], found["chance"]) == (199, 0, 0.5)


def test_ids_that_do_not_match(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files.write("attributes.csv", ("user_id", "group"), [(f"zquser-other{i}", f"zqlabel{i % 2}") for i in range(N)])
    assert files.audit() == 2
    assert "same ids" in one_line(capsys)


@pytest.mark.parametrize("count", [0, 1])
def test_hardly_any_users(files: Files, capsys: pytest.CaptureFixture[str], count: int) -> None:
    files.write("users.csv", ("user_id", "d0", "d1", "d2"), matrix_rows(vectors(count)))
    files.write("attributes.csv", ("user_id", "group"), [(user(i), f"zqlabel{i}") for i in range(count)])
    assert files.audit() == 2
    one_line(capsys)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_none(files: Files, capsys: pytest.CaptureFixture[str], bad: float) -> None:
    U = vectors()
    U[17, 1] = bad
    np.save(files.folder / "u.npy", U)
    assert files.audit(matrix=files.folder / "u.npy") == 2
    line = one_line(capsys)
    assert "u.npy" in line
    assert "18" in line


class Bomb:
    def __init__(self, target: Path):
        self.target = target

    def __reduce__(self):
        return (Path.touch, (self.target,))


def test_a_pickle_dressed_as_npy_is_refused_without_running_it(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    fired = files.folder / "fired"
    plain, array = files.folder / "plain.npy", files.folder / "array.npy"
    plain.write_bytes(pickle.dumps(Bomb(fired)))
    np.save(array, np.array([Bomb(fired)], dtype=object), allow_pickle=True)
    for path in (plain, array):
        assert files.audit(matrix=path) == 2
        one_line(capsys)
    assert not fired.exists()


def test_npz_is_refused(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    path = files.folder / "u.npz"
    np.savez_compressed(path, embeddings=np.zeros((10_000, 100)))
    assert files.audit(matrix=path) == 2
    assert "u.npz" in one_line(capsys)


# threats from files ---------------------------------------------------------------------------------------------------


def test_a_baseline_is_matched_by_id(files: Files) -> None:
    U = vectors()
    edited = U + 0.01 * np.eye(3)[np.arange(N) % 2]
    shuffled = np.random.default_rng(4).permutation(N)
    rows = matrix_rows(edited.astype(np.float32))
    baseline = files.write("older.csv", ("user_id", "d0", "d1", "d2"), [rows[i] for i in shuffled])
    audit = check_audit(files.json("--baseline", baseline, "--threat", "differencing,embeddings"))
    assert list(audit["threats"]) == ["differencing", "embeddings"]
    assert audit["attributes"]["group"]["attackers"]["linear"]["bacc"] > 0.99
    assert audit["before"]["attributes"]["group"]["verdict"] == "leaks"


def test_a_baseline_that_lacks_users_is_refused(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    baseline = files.write("older.csv", ("user_id", "d0", "d1", "d2"), matrix_rows(vectors())[:-3])
    assert files.audit("--baseline", baseline) == 2
    assert "lacks 3 of the 200 users" in one_line(capsys)


def test_hidden_labels_are_those_of_users_without_one(files: Files) -> None:
    labels = [(user(i), f"zqlabel{i % 2}") for i in range(N)]
    files.write("attributes.csv", ("user_id", "group"), [(key, label if i >= 80 else "")
                                                         for i, (key, label) in enumerate(labels)])
    hidden = files.write("hidden.csv", ("user_id", "group"), labels)
    audit = check_audit(files.json("--threat", "unlabelled", "--hidden-labels", hidden))
    assert audit["threat"] == "unlabelled"
    assert audit["attributes"]["group"]["n"] == 80


def test_a_hidden_table_may_hold_some_of_the_attributes(files: Files) -> None:
    labels = [(user(i), f"zqlabel{i % 2}") for i in range(N)]
    files.write("attributes.csv", ("user_id", "group", "coin"),
                [(key, label if i >= 80 else "", label) for i, (key, label) in enumerate(labels)])
    hidden = files.write("hidden.csv", ("user_id", "group"), labels)
    audit = check_audit(files.json("--threat", "unlabelled", "--hidden-labels", hidden))
    assert list(audit["attributes"]) == ["group"]


def test_a_model_directory_serves_three_threats(files: Files) -> None:
    rng = np.random.default_rng(3)
    train = csr_matrix((rng.random((N, 40)) < 0.15).astype(np.float32))
    model = recommender("ncf", dimensions=3, epochs=1, steps_per_epoch=1).fit(
        LeaveOneOut(train, np.full(N, -1), "file-order"), device="cpu"
    )
    own = model.user_matrix()
    own[:, :3], own[:, 3] = vectors(), 4.0 * (np.arange(N) % 2)
    folder = files.folder / "model"
    save(model.with_user_matrix(own), folder, np.array([user(i) for i in range(N)], dtype=object))
    users, items = train.nonzero()
    history = files.write("interactions.csv", ("user_id", "item_id"),
                          [(user(i), int(item)) for i, item in zip(users, items, strict=True)])
    order = [int(i) for i in rng.permutation(N)]
    release = files.write("release.csv", ("user_id", *(f"d{k}" for k in range(6))),
                          [[user(i), *map(float, own[i])] for i in order])
    audit = check_audit(files.json(
        "--model", folder, "--interactions", history, "--attribute", "group",
        "--threat", "parameters,recommendations,interactions", matrix=release,
    ))
    assert list(audit["threats"]) == ["parameters", "recommendations", "interactions"]
    assert audit["threats"]["parameters"]["attributes"]["group"]["verdict"] == "leaks"
    assert audit["threats"]["interactions"]["attributes"]["group"]["verdict"] == "undecided"
    half = files.write("half.csv", ("user_id", "d0", "d1", "d2"),
                       matrix_rows(np.random.default_rng(9).standard_normal((N, 3))))
    audit = files.json("--model", folder, "--attribute", "group", "--threat", "parameters,embeddings", matrix=half)
    assert audit["threats"]["embeddings"]["attributes"]["group"]["verdict"] == "undecided"
    assert audit["threats"]["parameters"]["attributes"]["group"]["verdict"] == "leaks"


def test_items_from_a_file(files: Files) -> None:
    items = files.folder / "items.npy"
    np.save(items, np.random.default_rng(5).standard_normal((60, 3)).astype(np.float32))
    audit = check_audit(files.json("--items", items, "--threat", "recommendations", "--attribute", "group"))
    assert audit["attributes"]["group"]["verdict"] == "leaks"


def test_the_help_says_who_every_attacker_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for word in ("differencing", "recommendations", "unlabelled", "--fail-on-leak", "--margin", "--hidden-labels"):
        assert word in text
