"""A policy file with everything it names read and checked: where both `plan` and `apply` begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oblivec.errors import BadInput
from oblivec.files.matrices import as_given
from oblivec.lego import Lego
from oblivec.policies.auditing import Auditor
from oblivec.policies.file import Policy, PolicyFile, read_policies
from oblivec.policies.source import Given, read_source
from oblivec.policies.targets import check_targets
from oblivec.policies.unlearning import labels_of
from oblivec.store import Store, matrix_hash


@dataclass(frozen=True)
class Work:
    """What there is to do for a policy file."""

    path: Path
    file: PolicyFile
    given: Given
    lego: Lego
    auditor: Auditor

    @property
    def policies(self) -> dict[str, Policy]:
        return self.file.policies

    def missing_audits_before(self) -> list[str]:
        """Attributes that have not been attacked in the original."""
        original = matrix_hash(self.given.matrix.values)
        return [
            name for name in self.file.attributes
            if not self.auditor.has(original, labels_of(self.given, [name]))
        ]

    def missing_releases(self) -> list[str]:
        """Policies whose release is not in the store."""
        store, lego = self.lego.store, self.lego
        return [
            name for name, policy in self.policies.items()
            if store is None or not store.has(lego.release_lineage(policy.protect).key)
        ]

    def missing_audits_after(self) -> list[str]:
        """Policies whose release has not been attacked, or is not there yet."""
        absent = self.missing_releases()
        return [name for name in self.policies if name in absent or not self._is_audited(name)]

    def _is_audited(self, name: str) -> bool:
        protect = self.policies[name].protect
        release = as_given(self.lego.release(protect), self.given.matrix.values, self.lego.values)
        return self.auditor.has(matrix_hash(release), labels_of(self.given, protect))


def open_work(
    path: Path, store: Store | None, options: Mapping[str, Any], attackers: Sequence[str],
    types: Mapping[str, str] | None = None,
) -> Work:
    """Read the policy file and its source. `options` are those of `Lego` that say how; nothing is computed yet."""
    file = read_policies(path)
    try:
        check_targets(file.targets(), file.source)
    except BadInput as problem:
        raise BadInput(f"{path}: {problem}") from None
    given = read_source(file.source, file.attributes, types)
    for name, policy in file.policies.items():
        if policy.max_ndcg_loss_percent is not None and given.split is None:
            raise BadInput(f"{path}: policies.{name}.max_ndcg_loss_percent: cannot be measured, no user has an item to "
                           "test; give more interactions")
    lego = Lego(**options, store=store, items=given.items).take(given.matrix.values, given.attributes)
    auditor = Auditor(store, attackers, seed=lego.seed, jobs=lego.jobs, device=str(lego.device))
    return Work(path, file, given, lego, auditor)
