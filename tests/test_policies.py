"""`oblivec plan` and `oblivec apply`: a policy file costs no more than what is new in it, and limits are kept."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit_contract import check_audit
from oblivec.cli.app import run
from oblivec.combination.convex import ConvexTuned
from oblivec.files.embeddings import read_embeddings
from oblivec.policies.file import read_policies
from oblivec.store import Store
from unlearn_files import QUICK, SECRETS, Files, user, vectors, write_files

Captured = pytest.CaptureFixture[str]
SOURCE = '[source]\nembeddings = "users.csv"\nattributes = "attributes.csv"\n'
UTILITY = 'items = "items.npy"\ninteractions = "interactions.csv"\n'
OUTPUT = '[output]\ndir = "releases"\n'
POLICIES = """
[policies.eu]
protect = ["group", "coin"]

[policies.us]
protect = ["coin"]
"""


class Office:
    """A folder with a policy file, and the two commands."""

    def __init__(self, files: Files):
        self.files, self.policies = files, files / "policies.toml"
        if not self.policies.exists():
            self.write(SOURCE + UTILITY + OUTPUT + POLICIES)

    def write(self, text: str) -> None:
        self.policies.write_text(text)

    def change(self, old: str, new: str) -> None:
        text = self.policies.read_text()
        assert old in text
        self.write(text.replace(old, new))

    def run(self, command: str, *options: str, code: int = 0) -> dict[str, Any]:
        target = self.files / f"{command}.json"
        store = str(self.files / "store")
        assert run([command, str(self.policies), "--store", store, "--json", str(target), *QUICK, *options]) == code
        return json.loads(target.read_text())

    @property
    def releases(self) -> dict[str, Path]:
        return {path.name: path for path in (self.files / "releases").iterdir()}

    def report(self, name: str) -> dict[str, Any]:
        return json.loads(self.releases[f"{name}.json"].read_text())


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(write_files(tmp_path))


@pytest.fixture(scope="module")
def applied_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("applied") / "office"
    folder.mkdir()
    Office(write_files(folder)).run("apply", "--quiet")
    return folder


@pytest.fixture
def applied(applied_once: Path, tmp_path: Path) -> Office:
    """An office that has applied its policies: everything is addressed by content, so a copy knows it all."""
    return Office(Files(shutil.copytree(applied_once, tmp_path / "office")))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every calibration, combination and audit from here on."""
    done: list[str] = []

    def note(place: Any, name: str, describe: Callable[..., str]) -> None:
        real = getattr(place, name)

        def noted(*arguments: Any, **options: Any) -> Any:
            done.append(describe(*arguments))
            return real(*arguments, **options)

        monkeypatch.setattr(place, name, noted)

    import oblivec.lego
    import oblivec.policies.auditing as auditing

    note(oblivec.lego, "make", lambda order: f"calibrate {order.attribute.name}")
    note(ConvexTuned, "combine", lambda self, U, made, *_: f"combine {'+'.join(one.attribute for one in made)}")
    note(auditing, "run_audit", lambda evidence: f"audit {'+'.join(evidence.attributes)}")
    return done


# apply ----------------------------------------------------------------------------------------------------------------


def test_every_policy_gets_a_release_and_two_reports(office: Office, capsys: Captured) -> None:
    found = office.run("apply")
    said = capsys.readouterr()
    assert set(office.releases) == {f"{name}.{kind}" for name in ("eu", "us") for kind in ("csv", "json", "html")}
    assert found["policies"]["eu"]["written"] is True
    assert found["policies"]["eu"]["requirement"] == ["coin", "group"]
    assert found["seconds"] > 0
    before = read_embeddings(office.files / "users.csv")
    for name, protected in (("eu", ["coin", "group"]), ("us", ["coin"])):
        release = read_embeddings(office.releases[f"{name}.csv"])
        assert (release.ids == before.ids).all()  # type: ignore[union-attr]
        assert not np.array_equal(release.values, before.values)
        report = office.report(name)
        assert list(report)[:5] == ["policy", "written", "missed", "method", "requirement"]
        assert (report["policy"], report["written"], report["missed"]) == (name, True, [])
        for audit in report["audit"].values():
            assert list(check_audit(audit)["attributes"]) == protected
        assert report["utility"].keys() == {"before", "after"}
        assert f"policy {name}" in office.releases[f"{name}.html"].read_text()
    for text in (said.out, said.err, *(path.read_text() for path in office.releases.values() if path.suffix != ".csv")):
        assert not any(secret in text for secret in SECRETS)
    assert "written" in said.out


def test_a_release_is_what_unlearn_gives(applied: Office) -> None:
    office = applied
    found = office.files.json("--items", str(office.files / "items.npy"), "--interactions",
                              str(office.files / "interactions.csv"), protect="group,coin")
    assert (office.files / "release.csv").read_bytes() == office.releases["eu.csv"].read_bytes()
    report = {key: value for key, value in office.report("eu").items() if key in found and key != "seconds"}
    assert report == {key: value for key, value in found.items() if key != "seconds"}


def test_applying_again_computes_nothing(office: Office, calls: list[str]) -> None:
    office.run("apply")
    assert calls == [
        "calibrate coin", "calibrate group", "combine coin+group", "audit coin", "audit group", "audit coin+group",
        "combine coin", "audit coin",
    ]
    calls.clear()
    content = {name: path.read_bytes() for name, path in office.releases.items() if not name.endswith("json")}
    for path in office.releases.values():
        path.unlink()
    office.run("apply")
    assert calls == []
    assert {name: path.read_bytes() for name, path in office.releases.items() if not name.endswith("json")} == content


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('protect = ["coin"]', 'protect = ["group"]', ["combine group", "audit group"]),
        ('protect = ["coin"]', 'protect = ["money", "coin"]',
         ["calibrate money", "combine coin+money", "audit money", "audit coin+money"]),
        ('protect = ["group", "coin"]', 'protect = ["group"]', ["combine group", "audit group"]),
        ('protect = ["group", "coin"]', 'protect = ["coin", "group"]', []),
        ("[policies.us]", "[policies.canada]", []),
        ('dir = "releases"', 'dir = "releases/2"', []),
        ("[policies.us]", "[policies.us]\nmax_ndcg_loss_percent = 100", []),
        ("[policies.us]", '[policies.uk]\nprotect = ["coin", "group"]\n\n[policies.us]', []),
    ],
)
def test_a_changed_line_costs_only_itself(
    applied: Office, calls: list[str], old: str, new: str, expected: list[str]
) -> None:
    office = applied
    office.change(old, new)
    plan = office.run("plan")
    assert plan["compute"] == [name.split()[1] for name in expected if name.startswith("calibrate")]
    calls.clear()  # those were probes
    office.run("apply")
    assert calls == expected
    again = office.run("plan")
    assert again["compute"] == []
    assert again["releases"]["compute"] == []
    assert again["audits"]["after"]["compute"] == []


def test_a_changed_label_costs_that_attribute(applied: Office, calls: list[str]) -> None:
    office = applied
    table = office.files / "attributes.csv"
    rows = [line.split(",") for line in table.read_text().split()]
    rows[2][1] = "zqlabel0" if rows[2][1] != "zqlabel0" else "zqlabel1"
    table.write_text("\n".join(map(",".join, rows)) + "\n")
    office.run("apply")
    assert calls == ["calibrate group", "combine coin+group", "audit group", "audit coin+group"]


def test_no_interactions_no_utility(office: Office) -> None:
    office.write(SOURCE + OUTPUT + POLICIES)
    office.run("apply")
    assert office.report("eu")["utility"] is None


# limits ---------------------------------------------------------------------------------------------------------------


def test_a_release_that_misses_its_limit_is_not_written_the_others_are(office: Office, capsys: Captured) -> None:
    office.change("[policies.us]", '[policies.strict]\nprotect = ["group"]\nverdict = "at_chance"\n\n[policies.us]')
    found = office.run("apply", code=4)
    said = capsys.readouterr()
    assert set(office.releases) >= {"eu.csv", "us.csv", "strict.json", "strict.html"}
    assert "strict.csv" not in office.releases
    (missed,) = found["policies"]["strict"]["missed"]
    assert missed.startswith("group: leaks, where at chance is asked for; linear is ")
    assert missed.endswith("points away from guessing")
    assert found["policies"]["strict"]["release"] is None
    assert office.report("strict")["written"] is False
    assert said.err.splitlines()[-1].startswith("oblivec: ")
    assert "1 of 3 policies missed a limit and were not written: strict (group: leaks" in said.err.splitlines()[-1]


def test_an_older_release_does_not_stay_where_a_new_one_was_refused(applied: Office) -> None:
    office = applied
    older = office.releases["eu.csv"].read_bytes()
    office.change('protect = ["group", "coin"]', 'protect = ["group", "money"]\nmax_ndcg_loss_percent = 0')
    found = office.run("apply", code=4)
    assert found["policies"]["eu"]["missed"][0].startswith("NDCG@10 loses ")
    assert "eu.csv" not in office.releases
    assert office.releases["eu.superseded.csv"].read_bytes() == older
    assert office.report("eu")["requirement"] == ["group", "money"]
    office.change("max_ndcg_loss_percent = 0", "max_ndcg_loss_percent = 100")
    assert office.run("apply")["policies"]["eu"]["written"]
    assert "eu.csv" in office.releases


@pytest.mark.parametrize(("wanted", "code"), [("at_chance", 4), ("undecided", 0)])
def test_undecided_is_not_at_chance(office: Office, wanted: str, code: int) -> None:
    office.write(SOURCE + OUTPUT + f'[policies.eu]\nprotect = ["coin"]\nverdict = "{wanted}"\n')
    found = office.run("apply", code=code)
    assert found["policies"]["eu"]["verdicts"] == {"coin": "undecided"}
    assert ("eu.csv" in office.releases) == (code == 0)


def test_what_cannot_be_attacked_has_no_verdict(office: Office) -> None:
    office.write(SOURCE + OUTPUT + '[policies.eu]\nprotect = ["constant"]\nverdict = "undecided"\n')
    found = office.run("apply", code=4)
    assert found["policies"]["eu"]["missed"] == ["constant could not be attacked, so there is no verdict"]
    assert set(office.releases) == {"eu.json"}
    office.change('\nverdict = "undecided"', "")
    office.run("apply")
    assert set(office.releases) == {"eu.json", "eu.csv"}


# plan -----------------------------------------------------------------------------------------------------------------


def test_a_plan_says_what_is_missing_and_writes_nothing(office: Office, capsys: Captured) -> None:
    plan = office.run("plan")
    assert list(plan)[:3] == ["compute", "reuse", "seconds"]
    assert (plan["compute"], plan["reuse"]) == (["coin", "group"], [])
    assert plan["releases"] == {"compute": ["eu", "us"], "reuse": []}
    assert plan["audits"]["before"]["compute"] == ["coin", "group"]
    assert plan["seconds"] == pytest.approx(sum(plan["seconds_by_step"].values()), abs=0.01)
    assert all(seconds > 0 for seconds in plan["seconds_by_step"].values())
    assert "probed" in capsys.readouterr().out
    assert not (office.files / "store").exists()
    assert not (office.files / "releases").exists()


def test_a_plan_knows_what_the_store_has(applied: Office, capsys: Captured) -> None:
    office = applied
    office.change('protect = ["coin"]', 'protect = ["coin", "money"]')
    capsys.readouterr()
    plan = office.run("plan")
    assert (plan["compute"], plan["reuse"]) == (["money"], ["coin", "group"])
    assert plan["releases"] == {"compute": ["us"], "reuse": ["eu"]}
    assert plan["audits"] == {"before": {"compute": ["money"], "reuse": ["coin", "group"]},
                              "after": {"compute": ["us"], "reuse": ["eu"]}}
    assert "from earlier runs" in capsys.readouterr().out
    store = Store(office.files / "store")
    spent = [entry.manifest().seconds for entry in store.entries() if entry.kind == "calibration"]
    assert plan["seconds_by_step"]["calibrate"] == pytest.approx(np.median(spent), abs=0.001)


# bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["plan", "apply"])
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[source", "policies.toml: is not valid TOML (at "),
        ("", "policies.toml: is empty"),
        (SOURCE + OUTPUT, "policies.toml: policies: is missing; add it"),
        (SOURCE + OUTPUT + "[policies]", "policies.toml: policies: is empty; name at least one"),
        (OUTPUT + POLICIES, "policies.toml: source: is missing"),
        ('[source]\nembeddings = "users.csv"\n' + OUTPUT + POLICIES, "source.attributes: is missing"),
        (SOURCE + 'itms = "x"\n' + OUTPUT + POLICIES, "source.itms: no such key; there are embeddings, attributes, "),
        ("speed = 3\n" + SOURCE + OUTPUT + POLICIES, "speed: no such key; there are source, output, policies"),
        (SOURCE + OUTPUT + '[policies.eu]\nprotct = ["coin"]', "policies.eu.prot"),
        (SOURCE + OUTPUT + "[policies.eu]\nprotect = []", "policies.eu.protect: is empty; name at least one"),
        (SOURCE + OUTPUT + '[policies.eu]\nprotect = "coin"', "policies.eu.protect: input should be a valid list"),
        (SOURCE + OUTPUT + '[policies.eu]\nprotect = ["income"]',
         "attributes.csv has no attribute 'income'; it has group, coin, money, constant"),
        (SOURCE + OUTPUT + '[policies.eu]\nprotect = ["user_id"]', "has no attribute 'user_id'"),
        (SOURCE + OUTPUT + '[policies.eu]\nprotect = ["coin"]\nverdict = "fine"', "policies.eu.verdict: input should"),
        (SOURCE + OUTPUT + '[policies.eu]\nprotect = ["coin"]\nmax_ndcg_loss_percent = -1',
         "policies.eu.max_ndcg_loss_percent: input should be greater"),
        (SOURCE + OUTPUT + '[policies.eu]\nprotect = ["coin"]\nmax_ndcg_loss_percent = 2',
         "policies.eu.max_ndcg_loss_percent: cannot be measured without source.interactions and "),
        (SOURCE + OUTPUT + '[policies."../eu"]\nprotect = ["coin"]', "policies.../eu: becomes a file name"),
        (SOURCE + OUTPUT + '[policies.EU]\nprotect = ["coin"]\n[policies.eu]\nprotect = ["coin"]',
         "policies.eu: differs from EU in case only"),
        (SOURCE + 'items = "nowhere.npy"\n' + OUTPUT + POLICIES, "source.items: "),
        (SOURCE + 'items = "items.npy"\nmodel = "."\n' + OUTPUT + POLICIES, "source.items and source.model: give one"),
        (SOURCE + '[output]\ndir = "."\n[policies.users]\nprotect = ["coin"]',
         "users.csv: would replace the embeddings it is made from"),
        (SOURCE + '[output]\ndir = "users.csv"\n' + POLICIES, "cannot be written"),
        (SOURCE + 'items = "users.npy"\ninteractions = "attributes.csv"\n' + OUTPUT + POLICIES,
         "attributes.csv: has no column 'item_id'"),
    ],
)
def test_bad_input_names_the_file_and_the_key(
    office: Office, capsys: Captured, command: str, text: str, says: str
) -> None:
    office.write(text)
    before = sorted(path.name for path in office.files.folder.iterdir())
    assert run([command, str(office.policies), "--store", str(office.files / "store"), *QUICK]) == 2
    said = capsys.readouterr()
    assert says in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert not any(secret in said.err for secret in SECRETS)
    names = {path.name for path in office.files.folder.iterdir()} - {"store"}
    assert sorted(names) == before


def test_unlabelled_and_unknown_users(office: Office, capsys: Captured) -> None:
    rows = [[f"zquser-x{row}", 1.5, 2.0, float(row), 0.0] for row in range(20)]
    office.files.write("users.csv", ("user_id", "d0", "d1", "d2", "d3"), [[user(0), *rows[0][1:]], *rows])
    assert run(["apply", str(office.policies), "--store", str(office.files / "store"), *QUICK]) == 2
    assert "column 'group': no user of " in capsys.readouterr().err


def test_paths_are_relative_to_the_file(office: Office, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    found = read_policies(office.policies)
    assert found.source.embeddings == office.files / "users.csv"
    assert found.output.dir == office.files / "releases"
    assert found.release("eu") == office.files / "releases" / "eu.csv"
    assert vectors().shape == read_embeddings(found.source.embeddings).values.shape
