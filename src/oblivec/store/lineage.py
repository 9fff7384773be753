"""What an entry of the store was made from. The hash of that is the entry's key, so nothing is computed twice and a
changed matrix, label, setting or seed never meets an old result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from oblivec.calibration.configured import Configured
from oblivec.datasets.attributes import Attribute
from oblivec.store.keys import canonical_json, labels_hash, text_hash

EntryKind = Literal["calibration", "release", "audit"]
KINDS: tuple[EntryKind, ...] = ("calibration", "release", "audit")
SCHEMA = 1
"""Layout of a store. A store with a higher number was written by a newer Oblivec and is not touched."""
ALGORITHM = 15
"""Raise this when any calibrator or combiner gives other numbers for the same input: no old entry is met after that."""


class Lineage(BaseModel):
    """Everything that could change an entry's numbers, and nothing else. Neither labels nor ids, only their hashes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: EntryKind
    """`calibration`: one attribute removed. `release`: calibrations combined. `audit`: what attackers found."""
    method: str
    """Name of the calibrator or of the combiner; of an audit its protocol."""
    configuration: dict[str, Any]
    """Every setting of the method, defaults included."""
    seed: int
    """Seed of every random choice."""
    user_matrix: str
    """`matrix_hash` of the whole user matrix."""
    item_matrix: str | None = None
    """`matrix_hash` of the item matrix, where the method was given one."""
    labels: dict[str, str]
    """Name of each attribute, and `labels_hash` of its labels. Names count: results carry them, and random streams may
    be derived from them."""
    calibrations: tuple[str, ...] = ()
    """Keys of the calibrations a release was combined from, in the order the combiner got them."""
    algorithm: int = ALGORITHM
    """`ALGORITHM` of the code that made it."""
    schema_version: int = SCHEMA
    """Layout of this record."""

    @property
    def key(self) -> str:
        """The content address: 64 hexadecimal digits, the same on every machine."""
        return text_hash(canonical_json(self.model_dump(mode="json")))

    @property
    def attributes(self) -> list[str]:
        return list(self.labels)


def calibration_lineage(
    calibrator: Configured, attribute: Attribute, *, user_matrix: str, item_matrix: str | None = None, seed: int = 0
) -> Lineage:
    """For `calibrator.calibrate(U, attribute, items=..., seed=seed)`. The matrices are given as `matrix_hash`, so that
    they are read once for all attributes."""
    return Lineage(
        kind="calibration", method=calibrator.name, configuration=_settings(calibrator), seed=seed,
        user_matrix=user_matrix, item_matrix=item_matrix, labels={attribute.name: labels_hash(attribute)},
    )


def release_lineage(
    combiner: Configured,
    calibrations: Sequence[Lineage],
    *,
    user_matrix: str,
    item_matrix: str | None = None,
    seed: int = 0,
) -> Lineage:
    """For `combiner.combine(U, calibrations, ...)`. Order counts: hand calibrations over in a fixed one."""
    if any(one.kind != "calibration" or one.user_matrix != user_matrix for one in calibrations):
        raise ValueError("a release combines calibrations of its own user matrix")
    return Lineage(
        kind="release", method=combiner.name, configuration=_settings(combiner), seed=seed, user_matrix=user_matrix,
        item_matrix=item_matrix, labels={name: found for one in calibrations for name, found in one.labels.items()},
        calibrations=tuple(one.key for one in calibrations),
    )


def audit_lineage(
    protocol: str, configuration: dict[str, Any], attributes: Sequence[Attribute], *, user_matrix: str, seed: int = 0
) -> Lineage:
    """For an audit of one matrix; the store knows no more about audits than what they were made from."""
    return Lineage(
        kind="audit", method=protocol, configuration=configuration, seed=seed, user_matrix=user_matrix,
        labels={attribute.name: labels_hash(attribute) for attribute in attributes},
    )


def _settings(method: Configured) -> dict[str, Any]:
    return method.config.model_dump(mode="json")
