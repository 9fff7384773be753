"""The audit as a whole: the JSON contract, what is counted, inputs of every kind, the trap, and one result whatever the
number of jobs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

import oblivec
from attack_problems import FAST
from audit_contract import check_audit
from oblivec.attacks.panel import PANEL
from oblivec.attacks.threats import Evidence
from oblivec.audit import run as audit_module
from oblivec.audit.run import run_audit
from oblivec.datasets.attributes import Attribute
from oblivec.datasets.planted import plant
from oblivec.errors import BadInput


def quick(U: Any, attributes: Any, **options: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {"attackers": FAST, "jobs": 1, "device": "cpu"} | options
    return oblivec.audit(U, attributes, **settings).to_json()


def noise(n: int = 300, d: int = 6, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


def three_attributes(n: int = 300) -> tuple[np.ndarray, dict[str, Any]]:
    """A matrix that leaks a group and a value, and not a coin; some labels are missing."""
    rng = np.random.default_rng(1)
    U = noise(n)
    group = [None if i % 10 == 0 else "abc"[i % 3] for i in range(n)]
    U[:, 0] += 1.5 * (np.arange(n) % 3)
    value = 30 + 5 * U[:, 1].astype(np.float64) + rng.standard_normal(n)
    value[:7] = np.nan
    return U, {"group": group, "value": value, "coin": rng.integers(0, 2, n)}


def test_the_contract_to_the_letter() -> None:
    U, attributes = three_attributes()
    result = oblivec.audit(U, attributes, attackers=FAST, jobs=1, device="cpu", seed=3)
    audit = check_audit(result.to_json())
    assert (audit["protocol"], audit["threat"], audit["seed"]) == ("panel", "embeddings", 3)
    assert (audit["users"], audit["dimensions"]) == (300, 6)
    assert list(audit["attributes"]) == ["group", "value", "coin"]
    group, value, coin = audit["attributes"].values()
    assert (group["n"], group["missing"], group["chance"]) == (270, 30, 1 / 3)
    assert (value["n"], value["missing"], value["chance"]) == (293, 7, 0)
    assert (coin["n"], coin["missing"], coin["chance"]) == (300, 0, 0.5)
    assert group["verdict"] == value["verdict"] == "leaks"
    assert coin["verdict"] == "undecided"
    assert list(group["attackers"]) == list(FAST)
    assert result.leaks
    assert set(result.untested) == {"differencing", "recommendations", "parameters", "interactions", "unlabelled"}


def test_from_oblivec_import_audit() -> None:
    from oblivec import audit

    U, attributes = three_attributes()
    assert callable(audit)
    assert check_audit(audit(U, attributes, attackers=["linear"], jobs=1).to_json())


def test_with_many_users_noise_is_at_chance() -> None:
    labels = np.random.default_rng(0).integers(0, 2, 20_000)
    audit = check_audit(quick(noise(20_000, 3), {"coin": labels}, attackers=["linear"]))
    assert audit["attributes"]["coin"]["verdict"] == "at_chance"


def test_class_means_made_exactly_equal_in_sample_are_not_privacy() -> None:
    """The trap: the training folds then predict the opposite of the test fold."""
    rng = np.random.default_rng(0)
    U, labels = noise(600, 40).astype(np.float64), rng.permutation(np.arange(600) % 2)
    for c in (0, 1):
        U[labels == c] -= U[labels == c].mean(0)
    found = check_audit(quick(U, {"a": labels}))["attributes"]["a"]
    assert found["verdict"] == "below_chance"
    assert found["worst"] == "linear"
    assert found["attackers"]["linear"]["ci"][1] < 0.5
    assert quick(U, {"a": labels}, margin=0.5)["attributes"]["a"]["verdict"] == "below_chance"  # however wide


@pytest.mark.parametrize("strong", [True, False])
def test_values_are_r2_and_one_sided(strong: bool) -> None:
    U = noise(400, 3)
    values = np.random.default_rng(2).standard_normal(400) + (2.0 * U[:, 0] if strong else 0)
    found = check_audit(quick(U, {"v": values}, attackers=["linear", "mlp"]))["attributes"]["v"]
    assert found["chance"] == 0
    if strong:  # 4 / 5 can be explained
        assert found["verdict"] == "leaks"
        assert found["attackers"]["linear"]["r2"] == pytest.approx(0.8, abs=0.06)
    else:
        assert found["verdict"] in ("at_chance", "undecided")


def test_the_paper_protocol_undersamples_once_to_the_smallest_class() -> None:
    labels = np.repeat(["a", "b", "c"], [200, 60, 40])
    audit = check_audit(quick(noise(300), {"x": labels}, protocol="paper"))
    found = audit["attributes"]["x"]
    assert (audit["protocol"], found["n"], found["missing"]) == ("paper", 120, 0)
    for row in found["attackers"].values():  # balanced classes: both say the same
        assert row["micro_f1"] == pytest.approx(row["bacc"])


def test_rare_classes_are_left_out_with_a_word_and_their_users_are_not_missing() -> None:
    labels = np.array(["a", "b"] * 150, dtype=object)
    labels[:3], labels[3:5] = "rare", None
    audit = check_audit(quick(noise(300), {"x": labels}))
    found = audit["attributes"]["x"]
    assert (found["n"], found["missing"], found["chance"]) == (295, 2, 0.5)
    assert any("1 of 3 classes have fewer than 5 users" in note for note in audit["notes"])
    assert "rare" not in json.dumps(audit)


def test_what_cannot_be_attacked_is_skipped_with_a_word_or_refused_by_name() -> None:
    U = noise(300)
    one = np.array(["same"] * 300)
    good = np.arange(300) % 2
    audit = check_audit(quick(U, {"one": one, "good": good}))
    assert list(audit["attributes"]) == ["good"]
    assert any("'one' under threat embeddings has 1 class" in note and "skipped" in note for note in audit["notes"])
    for names in (["one"], ["one", "good"]):
        with pytest.raises(BadInput, match=r"'one' under threat embeddings has 1 class of at least 5"):
            quick(U, {"one": one, "good": good}, attribute=names)
    with pytest.raises(BadInput, match="no attribute can be attacked"):
        quick(U, {"one": one})


def test_a_continuous_attribute_needs_an_attacker_for_it() -> None:
    U, attributes = three_attributes()
    audit = check_audit(quick(U, attributes, attackers=["paper"]))
    assert list(audit["attributes"]) == ["group", "coin"]
    assert any("'value'" in note and "continuous" in note for note in audit["notes"])
    with pytest.raises(BadInput, match="paper cannot attack; add --attacker linear"):
        quick(U, attributes, attribute=["value"], attackers=["paper"])


@pytest.mark.parametrize(
    ("options", "message"),
    [({"attackers": ["nobody"]}, "--attacker nobody"), ({"protocol": "guess"}, "--protocol guess"),
     ({"attackers": []}, "no attacker"), ({"device": "abacus"}, "--device abacus"),
     ({"attribute": ["height"]}, "no attribute 'height'")],
)
def test_unknown_names_are_refused(options: dict[str, Any], message: str) -> None:
    U, attributes = three_attributes()
    with pytest.raises(BadInput, match=message):
        quick(U, attributes, **options)


def test_an_unknown_threat_is_refused() -> None:
    attribute = Attribute("a", "categorical", np.arange(20) % 2, ("x", "y"))
    with pytest.raises(BadInput, match="--threat telepathy: unknown; use embeddings"):
        run_audit(Evidence(noise(20), {"a": attribute}), threats=["telepathy"])


def test_numpy_torch_pandas_polars_and_arrow_say_the_same() -> None:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    U, attributes = three_attributes()
    coin = [bool(c) for c in attributes["coin"]]
    columns = {"group": attributes["group"], "value": list(attributes["value"]), "coin": coin}
    frame = pd.DataFrame({"group": columns["group"], "value": attributes["value"], "coin": coin})
    values = [None if np.isnan(value) else value for value in columns["value"]]
    expected = quick(U, columns)
    assert expected == quick(torch.as_tensor(U), columns)
    assert expected == quick(U, frame)
    assert expected == quick(U, pl.DataFrame(columns | {"value": values}))
    assert expected == quick(U, pa.table(columns | {"value": values}))
    assert expected == quick(U.astype(np.float64), columns)


def test_float16_is_read() -> None:
    U, attributes = three_attributes()
    audit = check_audit(quick(U.astype(np.float16), attributes))
    assert audit["attributes"]["group"]["verdict"] == "leaks"


def test_rows_are_matched_by_id() -> None:
    import pandas as pd

    U, attributes = three_attributes()
    order = np.random.default_rng(5).permutation(300)
    ids = [f"u{i}" for i in range(300)]
    table = pd.DataFrame({"user_id": [ids[i] for i in order], "group": [attributes["group"][i] for i in order]})
    plain = quick(U, {"group": attributes["group"]})
    assert quick(U, table, ids=ids)["attributes"] == plain["attributes"]


@pytest.mark.parametrize(
    "U", [noise(300) * 1e6, noise(300) * 1e-6, noise(300, 1), noise(40, 200), np.zeros((300, 3), dtype=np.float32),
          np.c_[noise(300, 2), np.ones(300)], np.repeat(noise(30), 10, axis=0)],
    ids=["huge", "small", "one dimension", "d over n", "zeros", "constant column", "duplicate rows"],
)
def test_odd_matrices_get_a_stated_result(U: np.ndarray) -> None:
    labels = np.random.default_rng(8).permutation(np.arange(len(U)) % 2)
    audit = check_audit(quick(U, {"a": labels}))
    assert audit["attributes"]["a"]["verdict"] in ("undecided", "at_chance")
    said = " ".join(audit.get("notes", []))
    assert ("constant" in said) == bool((U[0] == U).all(0).any())
    assert ("repeat another row" in said) == (len(np.unique(U, axis=0)) < len(U))


def test_the_fewest_users_that_can_be_attacked() -> None:
    audit = check_audit(quick(noise(20, 2), {"a": [0, 1] * 10}))
    assert audit["attributes"]["a"]["n"] == 20
    assert audit["attributes"]["a"]["verdict"] == "undecided"


@pytest.mark.parametrize(("size", "offset"), [(1e200, 0), (1e-200, 0), (1, 1e9), (1e-7, 1.0), (1e300, 1e300)])
def test_float64_hides_nothing_that_float32_cannot_hold(size: float, offset: float) -> None:
    U = noise(200).astype(np.float64)
    labels = np.arange(200) % 2
    U[:, 0] = size * (U[:, 0] + 3 * labels) + offset
    U[:, 1] = offset
    found = check_audit(quick(U, {"a": labels}))["attributes"]["a"]
    assert found["verdict"] == "leaks"
    assert found["attackers"]["linear"]["bacc"] == pytest.approx(0.93, abs=0.05)  # Phi(1.5)


def test_sampling_down_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "MOST_USERS", 120)
    audit = check_audit(quick(noise(300), {"a": np.arange(300) % 2}))
    found = audit["attributes"]["a"]
    assert found["n"] == 120
    assert found["notes"] == ["120 of 300 labelled users were drawn at random and attacked"]


def test_the_margin_decides_what_is_at_chance() -> None:
    labels = np.random.default_rng(0).permutation(np.arange(2000) % 2)
    U = noise(2000, 2)
    assert check_audit(quick(U, {"a": labels}, margin=0.2), 0.2)["attributes"]["a"]["verdict"] == "at_chance"
    assert check_audit(quick(U, {"a": labels}, margin=0.001), 0.001)["attributes"]["a"]["verdict"] == "undecided"


def test_the_seed_decides_everything() -> None:
    U, attributes = three_attributes()
    first, again, other = (quick(U, attributes, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first["attributes"]["coin"]["attackers"] != other["attributes"]["coin"]["attackers"]


def test_an_attribute_is_judged_the_same_beside_others_but_for_the_correction() -> None:
    U, attributes = three_attributes()
    alone = quick(U, {"coin": attributes["coin"]})["attributes"]["coin"]
    beside = quick(U, attributes)["attributes"]["coin"]
    assert alone["attackers"] == beside["attackers"]
    assert alone["p_value"] <= beside["p_value"]


@pytest.mark.slow
def test_the_number_of_jobs_changes_no_byte() -> None:
    U, attributes = three_attributes(200)
    texts = [
        json.dumps(quick(U, attributes, attackers=PANEL, jobs=jobs), allow_nan=False) for jobs in (1, 2)
    ]
    assert texts[0] == texts[1]
    check_audit(json.loads(texts[0]))


def test_the_number_of_jobs_changes_no_byte_of_the_fast_ones() -> None:
    U, attributes = three_attributes(100)
    one, two = (json.dumps(quick(U, attributes, attackers=("linear", "boosting"), jobs=jobs)) for jobs in (1, 2))
    assert one == two


def test_the_full_panel_meets_the_contract() -> None:
    planted = plant("linear", 300, 4, 0.9, seed=2)
    audit = check_audit(quick(planted.embeddings, {"x": planted.attribute}, attackers=PANEL))
    assert list(audit["attributes"]["x"]["attackers"]) == list(PANEL)
    assert audit["attributes"]["x"]["verdict"] == "leaks"
