"""An audit packed and unpacked is the same audit: every figure, every picture, in the same order."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import fake_audits
from oblivec.audit.archive import pack, unpack
from oblivec.audit.report import render_report
from oblivec.audit.result import AuditResult
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
