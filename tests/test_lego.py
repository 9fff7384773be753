"""The front door `oblivec.Lego`: any requirement from calibrations made once, whatever kind of matrix comes in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest
import torch

import oblivec
from oblivec import Lego
from oblivec.combination.convex import ConvexTuned
from oblivec.combination.partners import PARTNERS, methods, partner_of
from oblivec.datasets.attributes import categorical
from oblivec.errors import BadInput, StoreDamaged
from oblivec.randomness import numpy_rng
from oblivec.store import Store

N, D = 60, 5
RNG = numpy_rng(0, "test lego")
U = RNG.standard_normal((N, D)).astype(np.float32)
LABELS = {
    "gender": [None if row % 7 == 0 else "fm"[row % 2] for row in range(N)],
    "age": RNG.uniform(18, 80, N).tolist(),
    "region": [f"r{row % 3}" for row in range(N)],
}


def lego(**options: Any) -> Lego:
    """Two steps each: enough to move the rows, quick enough to do often."""
    options = {"steps": 2, "combination": {"steps": 2}, "jobs": 1, "device": "cpu"} | options
    return Lego("paper-tuned", **options)


@pytest.fixture(scope="module")
def fitted() -> Lego:
    return lego().fit(U, LABELS)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is calibrated and combined from here on."""
    made: list[str] = []
    kind, combine = type(lego().calibrator), ConvexTuned.combine
    calibrate = kind.calibrate

    def noted_calibrate(self: Any, matrix: Any, attribute: Any, **options: Any) -> Any:
        made.append(attribute.name)
        return calibrate(self, matrix, attribute, **options)

    def noted_combine(self: Any, matrix: Any, calibrations: Any, *rest: Any, **options: Any) -> Any:
        made.append("+".join(one.attribute for one in calibrations))
        return combine(self, matrix, calibrations, *rest, **options)

    monkeypatch.setattr(kind, "calibrate", noted_calibrate)
    monkeypatch.setattr(ConvexTuned, "combine", noted_combine)
    return made


# requirements ---------------------------------------------------------------------------------------------------------


def test_it_is_the_front_door() -> None:
    assert oblivec.Lego is Lego
    assert lego().method == "paper-tuned"


def test_the_order_of_a_requirement_does_not_matter(fitted: Lego) -> None:
    one, other = fitted.protect(["gender", "region"]), fitted.protect(["region", "gender", "region"])
    assert np.array_equal(one, other)
    assert not np.array_equal(one, U)
    assert not np.array_equal(one, fitted.protect(["gender"]))


def test_nothing_to_protect_gives_the_matrix_itself(fitted: Lego) -> None:
    release = fitted.protect([])
    assert np.array_equal(release, U)
    release[:] = 0
    assert np.array_equal(fitted.protect([]), U)  # a copy was handed out
    single = fitted.protect(["gender"])
    single[:] = 0
    assert fitted.protect(["gender"]).any()


def test_every_attribute_can_be_protected_and_no_other(fitted: Lego) -> None:
    assert fitted.attributes == ["age", "gender", "region"]
    assert fitted.facts.keys() == {"age", "gender", "region"}
    with pytest.raises(BadInput, match="attribute 'income': not among those given; there are age, gender, region"):
        fitted.protect(["gender", "income"])


def test_adding_an_attribute_calibrates_that_one_only(calls: list[str]) -> None:
    grown = lego().fit(U, {"region": LABELS["region"], "age": LABELS["age"]})
    assert calls == ["age", "region"]
    grown.add("gender", LABELS["gender"])
    assert calls == ["age", "region", "gender"]
    assert np.array_equal(grown.protect(["age", "gender"]), lego().fit(U, LABELS).protect(["gender", "age"]))


def test_notes_tell_where_protection_cannot_be_assured() -> None:
    found = lego().fit(U, {"constant": ["x"] * N, "fine": LABELS["region"]}).facts
    assert "all labelled users have the same label" in found["constant"]["notes"][0]
    assert lego().fit(U[:, :2], {"region": LABELS["region"]}).facts["region"]["notes"] == []


# kinds of matrices ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_numpy_in_numpy_out_in_its_type(kind: Any) -> None:
    given = U.astype(kind)
    release = lego().fit(given, {"gender": LABELS["gender"]}).protect(["gender"])
    assert isinstance(release, np.ndarray)
    assert release.dtype == kind
    unlabelled = np.arange(N) % 7 == 0
    assert np.array_equal(release[unlabelled], given[unlabelled])  # this method leaves them, to the bit
    assert not np.array_equal(release[~unlabelled], given[~unlabelled])


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float32, torch.float64])
def test_torch_in_torch_out_in_its_type(kind: torch.dtype) -> None:
    given = torch.from_numpy(U).to(kind)
    fresh = lego().fit(given, {"gender": LABELS["gender"]})
    assert fresh.protect(["gender"]).dtype == kind
    assert torch.equal(fresh.protect([]), given)


def test_a_wide_type_keeps_its_digits_where_nothing_moved() -> None:
    given = U.astype(np.float64) + 1e-12
    release = lego().fit(given, {"gender": LABELS["gender"]}).protect(["gender"])
    assert np.array_equal(release[0], given[0])


@pytest.mark.parametrize("table", [pandas.DataFrame, polars.DataFrame, pyarrow.table, dict], ids=lambda kind: str(kind))
def test_any_table_will_do(table: Callable[[Any], Any], fitted: Lego) -> None:
    release = lego().fit(U, table(LABELS)).protect(["gender", "age"])
    assert np.array_equal(release, fitted.protect(["gender", "age"]))


def test_rows_are_matched_by_id() -> None:
    ids, order = [f"u{row}" for row in range(N)], RNG.permutation(N)
    table = {"user_id": [ids[row] for row in order], "region": [LABELS["region"][row] for row in order]}
    release = lego().fit(U, table, ids=ids).protect(["region"])
    assert np.array_equal(release, lego().fit(U, {"region": LABELS["region"]}).protect(["region"]))


@pytest.mark.parametrize("new", [U[:4] + 1, torch.from_numpy(U[:4]).double()], ids=["numpy", "torch"])
def test_new_users_are_served(fitted: Lego, new: Any) -> None:
    served = fitted.transform(new, protect=["gender", "age"])
    assert type(served) is type(new)
    assert served.dtype == new.dtype
    assert served.shape == new.shape
    assert np.array_equal(np.asarray(fitted.transform(new, protect=[])), np.asarray(new))


# where it runs, what it keeps -----------------------------------------------------------------------------------------


def test_the_number_of_jobs_changes_nothing(fitted: Lego, tmp_path: Path) -> None:
    parallel = lego(jobs=2, store=tmp_path / "store").fit(U, LABELS)
    assert np.array_equal(parallel.protect(["age", "gender"]), fitted.protect(["age", "gender"]))
    assert len(parallel.store.entries()) == 4  # type: ignore[union-attr]


def test_a_warm_store_computes_nothing(tmp_path: Path, calls: list[str]) -> None:
    first = lego(store=tmp_path).fit(U, LABELS).protect(["region", "age"])
    assert calls == ["age", "gender", "region", "age+region"]
    again = lego(store=Store(tmp_path)).fit(U, LABELS)
    assert again.missing() == []
    assert np.array_equal(again.protect(["age", "region"]), first)
    assert again.facts["gender"]["steps"] == 2
    assert calls == ["age", "gender", "region", "age+region"]
    again.protect(["gender", "age"])  # a change of requirement reads two calibrations and no more
    assert calls[4:] == ["age+gender"]


def test_a_changed_matrix_label_seed_or_setting_meets_nothing_old(tmp_path: Path, calls: list[str]) -> None:
    labels = {"region": LABELS["region"]}
    lego(store=tmp_path).fit(U, labels)
    changed = U.copy()
    changed[3, 1] += 1e-6
    lego(store=tmp_path).fit(changed, labels)
    lego(store=tmp_path).fit(U, {"region": ["r1", *LABELS["region"][1:]]})
    lego(store=tmp_path, seed=1).fit(U, labels)
    lego(store=tmp_path, radius=0.1).fit(U, labels)
    lego(store=tmp_path, items=U[:9]).fit(U, labels)
    assert calls == ["region"] * 6


def test_protecting_looks_at_nothing_but_its_own_calibrations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = lego(store=tmp_path).fit(U, LABELS)
    monkeypatch.setattr(Store, "entries", lambda self: pytest.fail("the store was searched"))
    read: list[str] = []
    get = Store.get
    monkeypatch.setattr(Store, "get", lambda self, key: read.append(key) or get(self, key))
    fresh.protect(["gender"])
    assert read == [fresh.lineage("gender").key]


def test_a_flipped_bit_is_noticed(tmp_path: Path) -> None:
    fresh = lego(store=tmp_path).fit(U, LABELS)
    file = tmp_path / "calibrations" / fresh.lineage("age").key / "calibration.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(StoreDamaged):
        fresh.protect(["age"])


def test_a_store_that_cannot_be_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = lego(store=tmp_path).fit(U, {"region": LABELS["region"]}).protect(["region"])
    warm = lego(store=tmp_path).fit(U, LABELS)
    monkeypatch.setattr("oblivec.lego.os.access", lambda path, mode: False)
    monkeypatch.setattr(Store, "put_release", lambda *_: pytest.fail("written"))
    assert np.array_equal(warm.protect(["region"]), expected)
    assert warm.protect(["age"]).shape == U.shape
    with pytest.raises(BadInput, match=f"{tmp_path}: cannot be written, and lacks gender; use another store"):
        lego(store=tmp_path, seed=5).fit(U, {"gender": LABELS["gender"]})


# bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda: Lego("nothing"), "method 'nothing': unknown; use one of .*paper"),
        (lambda: lego(speed=3), "paper-tuned: setting speed: "),
        (lambda: lego(combination={"speed": 3}), "convex-tuned: setting speed: "),
        (lambda: lego(label_free=True), "method 'paper-tuned': has no label-free form; use lego"),
        (lambda: lego(items=U[:, :3]).fit(U, LABELS), "items: have 3 dimensions, the user matrix has 5"),
        (lambda: lego().fit(U[0], LABELS), r"embeddings: their shape is \(5,\)"),
        (lambda: lego().fit(U.astype(np.float64) * 1e200, LABELS), "embeddings: hold numbers too large for float32"),
        (lambda: lego().fit(U, {"a": categorical("a", [None] * N)}), "attribute 'a': every label is missing"),
        (lambda: lego().fit(U, {"a": ["x"] * 20}), "attributes: has 20 rows and embeddings has 60"),
        (lambda: lego().fit(U, LABELS, attribute=["income"]), "attributes: has no attribute 'income'"),
        (lambda: lego().protect(["age"]), "Lego: knows no user matrix yet; call fit first"),
        (lambda: lego().take(U, LABELS).protect(["age"]), "attribute 'age': not calibrated yet"),
        (lambda: lego().fit(U, LABELS).transform(U[:, :2], ["age"]), "embeddings: have 2 dimensions, those fitted"),
    ],
)
def test_bad_input_is_one_clear_line(act: Callable[[], object], says: str) -> None:
    with pytest.raises(BadInput, match=says) as caught:
        act()
    assert "\n" not in str(caught.value)


def test_every_method_has_a_partner() -> None:
    for method in methods():
        assert partner_of(method).name == PARTNERS[method]
