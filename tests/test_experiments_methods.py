"""Every method of the tables behind one function, and the paper's figures as printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oblivec
from oblivec.baselines.d2dfr import D2DFR
from oblivec.datasets.attributes import Attribute, categorical
from oblivec.errors import BadInput
from oblivec.experiments.methods import METHODS, chain, make_release, sources
from oblivec.experiments.printed import COLUMNS, printed, printed_cell, printed_drops, recomputed_aggregates
from oblivec.lego import Lego
from oblivec.recommenders import Recommender, recommender
from recommender_contract import two_tastes

BRIEF: dict[str, dict[str, Any]] = {
    "d2dfr": {"steps": 5},
    "paper": {"steps": 5, "combination": {"steps": 3}},
    "paper-tuned": {"steps": 5, "combination": {"steps": 3}},
    "d2dfr-fc": {"steps": 5, "combination": {"steps": 3}},
    "ec-ac": {"steps": 5},
}
PACKAGE = Path(oblivec.__path__[0])
SPLIT = two_tastes()
ATTRIBUTES: dict[str, Attribute] = {
    "taste": categorical("taste", ["x", "y"] * 20),
    "age": categorical("age", [None if row % 9 == 0 else "abc"[row % 3] for row in range(40)]),
}


@pytest.fixture(scope="module")
def base() -> Recommender:
    return recommender("lightgcn", epochs=1, dimensions=4, steps_per_epoch=2).fit(SPLIT, device="cpu")


def make(method: str, base: Recommender, names: tuple[str, ...] = ("taste", "age"), **settings: Any) -> Any:
    wanted = {name: ATTRIBUTES[name] for name in names}
    return make_release(method, base, SPLIT, wanted, seed=1, device="cpu", settings=settings or BRIEF.get(method))


# --- methods ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [name for name in METHODS if name != "most-popular"])
def test_every_method_gives_a_recommender_with_its_release(method: str, base: Recommender) -> None:
    before = base.user_matrix()
    made = make(method, base)
    assert made.release.shape == before.shape
    assert np.isfinite(made.release).all()
    assert np.array_equal(made.recommender.user_matrix(), made.release)
    assert np.array_equal(base.user_matrix(), before)
    assert np.array_equal(made.release, before) == (method == "original")
    assert made.seconds
    assert all(value >= 0 for value in made.seconds.values())
    json.dumps([made.facts, made.seconds], allow_nan=False)
    assert np.array_equal(make(method, base).release, made.release)  # the seed decides


def test_most_popular_has_no_users(base: Recommender) -> None:
    made = make("most-popular", base)
    assert made.recommender is None
    assert made.release is None


@pytest.mark.parametrize("method", ["d2dfr", "lego", "ec-ac", "leace", "most-popular"])
def test_a_chain_gives_what_each_prefix_gives_alone(method: str, base: Recommender) -> None:
    given: dict[str, Any] = {"seed": 1, "device": "cpu", "settings": BRIEF.get(method)}
    stages = dict(chain(method, base, SPLIT, ATTRIBUTES, **given))
    assert list(stages) == [("taste",), ("taste", "age")]
    for names, made in stages.items():
        alone = make_release(method, base, SPLIT, {name: ATTRIBUTES[name] for name in names}, **given)
        if made.release is None:
            assert alone.release is None
        else:
            assert alone.release is not None
            assert np.array_equal(made.release, alone.release)
            assert made.facts.keys() == alone.facts.keys()


def test_the_releases_of_sequential_d2dfr_are_not_moved_further(base: Recommender) -> None:
    first, second = D2DFR.configure(steps=3).protect_in_turn(base.users, list(ATTRIBUTES.values()))
    assert not np.array_equal(first.release, second.release)
    assert "age" not in first.facts["attributes"]


def test_the_time_between_stages_is_not_counted(base: Recommender, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("oblivec.experiments.methods.time.perf_counter", lambda: clock[0])
    seconds = []
    for _, made in chain("d2dfr", base, SPLIT, ATTRIBUTES, seed=0, device="cpu", settings={"steps": 1}):
        seconds.append(made.seconds["edit"])
        clock[0] += 100
    assert seconds == [0.0, 0.0]


def test_calibrations_are_counted_for_every_prefix_that_uses_them(base: Recommender) -> None:
    stages = [made for _, made in chain("lego", base, SPLIT, ATTRIBUTES, seed=0, device="cpu")]
    assert stages[1].seconds["calibrate"] > stages[0].seconds["calibrate"] > 0


def test_lego_is_the_front_door(base: Recommender) -> None:
    expected = Lego(seed=1, items=base.item_matrix(), device="cpu", jobs=1).fit(base.user_matrix(), ATTRIBUTES)
    assert np.array_equal(make("lego", base).release, expected.protect(list(ATTRIBUTES)))


def test_ec_ac_is_the_mean_of_the_calibrated_matrices(base: Recommender) -> None:
    alone = [make("paper", base, (name,), steps=5).release for name in ATTRIBUTES]
    assert np.allclose(make("ec-ac", base).release, np.mean(alone, axis=0), atol=1e-6)


def test_d2dfr_fc_lies_between_the_edits_of_single_attributes(base: Recommender) -> None:
    U = base.user_matrix()
    alone = [make("d2dfr", base, (name,), steps=5).release - U for name in ATTRIBUTES]
    edit = make("d2dfr-fc", base).release - U
    weights = np.linalg.lstsq(np.stack([one.ravel() for one in alone], 1), edit.ravel(), rcond=None)[0]
    assert weights.sum() == pytest.approx(1, abs=1e-3)
    assert (weights > 0).all()


def test_settings_reach_the_method(base: Recommender) -> None:
    far, near = (make("dp", base, scale=scale) for scale in (2, 1))
    U = base.user_matrix()
    assert np.allclose(far.release - U, 2 * (near.release - U), atol=1e-5)
    assert make("advx", base).facts["gradient_scale"] == 1.0


@pytest.mark.parametrize(("method", "attributes", "settings", "message"), [
    ("nonsense", ATTRIBUTES, None, "method 'nonsense': unknown"),
    ("dp", {}, None, "method 'dp': no attribute to protect"),
    ("dp", ATTRIBUTES, {"speed": 1}, "dp: setting speed"),
    ("most-popular", ATTRIBUTES, {"speed": 1}, "most-popular: has no settings, speed was given"),
])
def test_bad_requests_are_refused(
    base: Recommender, method: str, attributes: dict[str, Attribute], settings: dict[str, Any] | None, message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        make_release(method, base, SPLIT, attributes, seed=0, settings=settings)


@pytest.mark.parametrize("method", list(METHODS))
def test_every_source_is_a_file_that_exists(method: str) -> None:
    assert sources(method)
    for pattern in sources(method):
        assert list(PACKAGE.glob(pattern)), pattern
    assert ("calibration/*.py" in sources(method)) == (method == "lego")


# --- what the paper prints --------------------------------------------------------------------------------------------


def test_table_1_is_whole() -> None:
    table = printed()["table1"]
    assert {dataset: len(sets) for dataset, sets in table.items()} == {"ml-100k": 3, "ml-1m": 3, "kuaisar": 2}
    for sets in table.values():
        for methods in sets.values():
            assert list(methods) == ["original", "dp", "d2dfr", "advx", "lego"]
            assert all(set(models) == {"ncf", "lightgcn", "multvae"} for models in methods.values())
            assert all(len(row) == len(COLUMNS) for models in methods.values() for row in models.values())


@pytest.mark.parametrize(("cell", "figures"), [
    (("ml-100k", 1, "original", "ncf"), [15.67, 8.37, 65.61, 66.62]),
    (("ml-1m", 3, "lego", "lightgcn"), [8.80, 4.50, 38.97, 38.32]),
    (("ml-1m", 3, "paper-tuned", "multvae"), [9.07, 4.40, 39.55, 39.12]),
    (("kuairand-pure", 2, "dp:0.5", "multvae"), [2.73, 1.40, 24.03, 24.02]),
])
def test_single_cells_of_table_1(cell: tuple[str, int, str, str], figures: list[float]) -> None:
    assert printed_cell(*cell) == dict(zip(COLUMNS, figures, strict=True))


@pytest.mark.parametrize("cell", [("ml-1m", 4, "lego", "ncf"), ("ml-1m", 1, "leace", "ncf"), ("x", 1, "dp", "ncf")])
def test_what_is_not_printed_is_none(cell: tuple[str, int, str, str]) -> None:
    assert printed_cell(*cell) is None


def test_the_ablation_and_the_correlated_table_agree_with_table_1() -> None:
    """The paper prints the same cells twice: a slip of the pen here would show."""
    paper = printed()
    assert paper["ablation"]["lego"] == paper["table1"]["ml-1m"]["gender+age+occupation"]["lego"]["ncf"]
    for row, method in (("original", "original"), ("gender", "lego")):
        cell = printed_cell("ml-1m", 1, method, "lightgcn")
        assert cell is not None
        assert paper["correlated"][row]["gender"] == {name: cell[name] for name in ("micro_f1", "bacc")}


def test_the_stated_averages_do_not_follow_from_the_table() -> None:
    """Stated 12.77, 20.84, 18.37 and 24.31 percent less BAcc. The table gives other figures, and the same order."""
    found, stated = recomputed_aggregates(), printed()["aggregates"]
    assert found["bacc_drop"] == {"dp": 11.79, "d2dfr": 16.21, "advx": 17.14, "lego": 22.07}
    assert found["ndcg_drop"] == {"dp": 46.52, "d2dfr": 5.57, "advx": 31.57, "lego": 3.04}
    for name in ("bacc_drop", "ndcg_drop"):
        for method, value in stated[name].items():
            assert found[name][method] == pytest.approx(value, abs=5)
    without_kuaisar = {
        method: float(np.mean(printed_drops(method, "bacc", lambda dataset, *_: dataset != "kuaisar")))
        for method in stated["bacc_drop"]
    }
    assert all(abs(value - stated["bacc_drop"][method]) > 0.9 for method, value in without_kuaisar.items())
    # The one sentence that nearly does: D2DFR on three attributes, stated as 13.79.
    assert found["bacc_drop_by_attributes"]["d2dfr"][2] == pytest.approx(13.79, abs=0.2)
    assert set(found["bacc_drop_by_model"]["advx"]) == {"multvae", "ncf", "lightgcn"}
