"""An audit packed and unpacked, or put together from audits of single attributes, is the same audit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import fake_audits
from oblivec.audit.archive import pack, unpack
from oblivec.audit.merging import merged
from oblivec.audit.report import render_report
from oblivec.audit.result import AuditResult, ThreatResult
from oblivec.audit.run import audit
from oblivec.randomness import numpy_rng
from oblivec.store import Store, audit_lineage, matrix_hash
from store_helpers import gender, users


@pytest.mark.parametrize("make", [fake_audits.everything, fake_audits.all_clear, fake_audits.crowded])
def test_nothing_is_lost(make: Callable[[], AuditResult]) -> None:
    result = make()
    again = unpack(json.loads(json.dumps(pack(result))))
    assert json.dumps(again.to_json()) == json.dumps(result.to_json())
    assert render_report(again) == render_report(result)


def test_a_store_keeps_audits(tmp_path: Path) -> None:
    store, result = Store(tmp_path / "store"), fake_audits.everything()
    lineage = audit_lineage("panel", {"attackers": ["linear"]}, [gender()], user_matrix=matrix_hash(users()))
    assert not store.has(lineage.key)
    assert store.put_audit(lineage, pack(result), (20, 4), 1.5, {"work": 7}) == lineage.key
    assert store.has(lineage.key)
    assert json.dumps(unpack(store.get_audit(lineage.key)).to_json()) == json.dumps(result.to_json())
    manifest = store.manifest("audit", lineage.key)
    assert (manifest.rows, manifest.dimensions, manifest.seconds, manifest.facts) == (20, 4, 1.5, {"work": 7})
    other = audit_lineage("panel", {"attackers": ["mlp"]}, [gender()], user_matrix=matrix_hash(users()))
    assert other.key != lineage.key


def test_audits_of_single_attributes_together_are_one_audit() -> None:
    rng = numpy_rng(0, "merged")
    labels = {"a": rng.integers(2, size=150), "b": rng.integers(3, size=150), "c": rng.standard_normal(150)}
    U = rng.standard_normal((150, 4)) + 0.8 * labels["a"][:, None]
    together = audit(U, labels, attackers=["linear"], jobs=1, device="cpu")
    alone = [audit(U, {name: one}, attackers=["linear"], jobs=1, device="cpu") for name, one in labels.items()]
    assert json.dumps(merged(alone).to_json()) == json.dumps(together.to_json())
    assert render_report(merged(alone)) == render_report(together)


def test_a_leak_that_was_luck_among_many_is_none() -> None:
    attributes = {}
    for k in range(20):
        one = fake_audits.attribute_result(f"a{k}", (3000, 3000), gain=0.001, seed=k)
        attributes[one.name] = replace(one, p_value=0.03, verdict="leaks") if k == 0 else one
    alone = [
        replace(fake_audits.all_clear(), threats={"embeddings": ThreatResult("embeddings", "someone", {name: one})})
        for name, one in attributes.items()
    ]
    found = merged(alone).main.attributes["a0"]
    assert found.p_value > 0.05
    assert found.verdict == "at_chance"
    assert merged(alone[:1]).main.attributes["a0"].verdict == "leaks"
