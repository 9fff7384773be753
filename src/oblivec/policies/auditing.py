"""Audits of a matrix before and after, kept in the store where there is one: the same question is asked once.

An audit is kept under what it was made from: the matrix, the labels, the attackers and their code. What is kept is as
sensitive as the rest of the store, since it holds counts that a report suppresses.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from oblivec.attacks.panel import PANEL
from oblivec.attacks.threats import Evidence
from oblivec.audit.archive import pack, unpack
from oblivec.audit.attackable import attackable
from oblivec.audit.merging import merged
from oblivec.audit.result import AuditResult
from oblivec.audit.run import MARGIN, run_audit
from oblivec.datasets.attributes import Attribute
from oblivec.store import Lineage, Store, audit_lineage, matrix_hash

PROTOCOL = "panel"
_SOURCES = ("attacks/*.py", "audit/*.py", "randomness.py")


@dataclass
class Auditor:
    """How matrices are audited, and where audits are kept. Knows nothing of how a matrix was made."""

    store: Store | None = None
    attackers: Sequence[str] = PANEL
    margin: float = MARGIN
    seed: int = 0
    jobs: int | None = None
    device: str = "auto"
    seconds: float = field(default=0.0, init=False)
    """What auditing took so far."""

    def lineage(self, user_matrix: str, attributes: Mapping[str, Attribute]) -> Lineage:
        """What the audit of the matrix with this hash is made from."""
        configuration = {"attackers": list(self.attackers), "margin": self.margin, "code": audit_code()}
        return audit_lineage(
            PROTOCOL, configuration, list(attributes.values()), user_matrix=user_matrix, seed=self.seed
        )

    def has(self, user_matrix: str, attributes: Mapping[str, Attribute]) -> bool:
        """Whether this audit is in the store, or there is nothing to attack."""
        return not self._attackable(attributes) or (
            self.store is not None and self.store.has(self.lineage(user_matrix, attributes).key)
        )

    def audit_each(self, matrix: np.ndarray, attributes: Mapping[str, Attribute]) -> AuditResult | None:
        """The same audit, made and kept attribute by attribute: what was found about one serves every requirement."""
        found = (self.audit(matrix, {name: attribute}) for name, attribute in attributes.items())
        known = [audit for audit in found if audit is not None]
        return merged(known) if known else None

    def audit(self, matrix: np.ndarray, attributes: Mapping[str, Attribute]) -> AuditResult | None:
        """What attackers find in `matrix`; None when no attribute has labels enough to be attacked."""
        start = time.perf_counter()
        try:
            if not self._attackable(attributes):
                return None
            lineage = self.lineage(matrix_hash(matrix), attributes)
            if self.store is not None and self.store.has(lineage.key):
                return unpack(self.store.get_audit(lineage.key))
            result = run_audit(
                Evidence(matrix, attributes, seed=self.seed), margin=self.margin, seed=self.seed, jobs=self.jobs,
                device=self.device, attackers=self.attackers,
            )
            if self.store is not None and os.access(self.store.path, os.W_OK):
                shape, spent = (matrix.shape[0], matrix.shape[1]), time.perf_counter() - start
                facts = {"work": audit_work(len(matrix), attributes)}
                self.store.put_audit(lineage, pack(result), shape, spent, facts)
            return result
        finally:
            self.seconds += time.perf_counter() - start

    def _attackable(self, attributes: Mapping[str, Attribute]) -> bool:
        return bool(attackable(attributes, self.attackers, "embeddings", named=False, said=[]))


def audit_work(users: int, attributes: Mapping[str, Attribute]) -> int:
    """A number the time of an audit grows with: users times outputs, as far as attackers care about those."""
    return users * sum(4 + len(attribute.classes) for attribute in attributes.values())


def with_before(after: AuditResult, before: AuditResult | None) -> AuditResult:
    """Both in one, as a report shows them."""
    return replace(after, before=None if before is None else before.main)


def audit_json(before: AuditResult | None, after: AuditResult | None) -> dict[str, Any] | None:
    """`{"before", "after"}`, each an audit of its own."""
    if before is None or after is None:
        return None
    return {"before": before.to_json(), "after": after.to_json()}


@cache
def audit_code() -> str:
    """Digest of the sources an audit's result depends on: after a change no kept audit is met."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(path for pattern in _SOURCES for path in package.glob(pattern)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
