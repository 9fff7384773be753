"""The manifest of an entry: what it was made from, by what, when, and the fingerprint of every byte that counts."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, ValidationError

from oblivec import __version__
from oblivec.errors import BadInput, StoreDamaged
from oblivec.files.atomic import write_text
from oblivec.store.keys import config_hash, text_hash
from oblivec.store.lineage import SCHEMA, Lineage

MANIFEST_FILE = "manifest.json"
_NO_CHECKSUM = "0" * 64


class Manifest(BaseModel):
    """Neither labels nor user ids: names of attributes, hashes and counts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: int = SCHEMA
    """Layout of this file."""
    checksum: str = _NO_CHECKSUM
    """SHA-256 of this file as it stands, with these 64 digits as zeros."""
    lineage: Lineage
    """What the entry was made from; its hash is the entry's key."""
    config_hash: str
    """Fingerprint of the method's settings, as reports quote it."""
    rows: int
    """Users."""
    dimensions: int
    """Width of the matrix."""
    file_sha256: str
    """SHA-256 of the tensor file as a whole, header included."""
    file_bytes: int
    """Its size."""
    tensors: dict[str, str]
    """Name of each tensor in it, and `matrix_hash` (type, shape, values) of each."""
    facts: dict[str, Any]
    """What the method says about its work, for a person."""
    seconds: float
    """How long the work took."""
    created: str
    """When it ended: UTC, ISO 8601."""
    versions: dict[str, str]
    """Oblivec, torch, numpy, Python."""


def new_manifest(
    lineage: Lineage, *, shape: tuple[int, int], file_sha256: str, file_bytes: int, tensors: Mapping[str, str],
    facts: Mapping[str, Any], seconds: float,
) -> Manifest:
    """The manifest of an entry made just now by this version of everything."""
    versions = {
        "oblivec": __version__, "torch": torch.__version__, "numpy": np.__version__,
        "python": platform.python_version(),
    }
    return Manifest(
        lineage=lineage, config_hash=config_hash(lineage.configuration), rows=shape[0], dimensions=shape[1],
        file_sha256=file_sha256, file_bytes=file_bytes, tensors=dict(tensors), facts=dict(facts),
        seconds=round(seconds, 6), created=datetime.now(UTC).isoformat(timespec="seconds"), versions=versions,
    )


def write_manifest(target: Path, manifest: Manifest) -> None:
    blank = json.dumps(manifest.model_dump(mode="json"), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(target, blank.replace(_NO_CHECKSUM, text_hash(blank), 1), mode=0o600)


def read_manifest(path: Path, key: str) -> Manifest:
    """The manifest of entry `key`, to the bit as it was written, or `StoreDamaged`; `BadInput` when newer than us."""
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise damaged(path, "is missing") from None
    except OSError as problem:
        raise BadInput(f"{path}: cannot be read ({problem.strerror}); check its permissions and the disk") from None
    raw = _intact(content)
    if raw is None:
        raise damaged(path, "is damaged")
    if not isinstance(raw.get("schema_version"), int) or raw["schema_version"] > SCHEMA:
        raise BadInput(f"{path}: was written by a newer Oblivec; update Oblivec, or use another store")
    try:
        manifest = Manifest.model_validate(raw)
    except ValidationError:
        raise damaged(path, "is damaged") from None
    if manifest.lineage.key != key:
        raise damaged(path, "belongs to another entry")
    return manifest


def damaged(path: Path, what: str) -> StoreDamaged:
    """One line about a file of an entry, STORE/KINDs/KEY/FILE, and what to do about it."""
    store = path.parents[2]
    return StoreDamaged(f"{path}: {what}; run `oblivec store gc --store {store}`, and the next run makes it again")


def _intact(content: bytes) -> dict[str, Any] | None:
    """The parsed manifest when not one bit differs from what was written, whatever its schema."""
    try:
        text = content.decode("utf-8")
        raw = json.loads(text)
    except (ValueError, RecursionError):
        return None
    checksum = raw.get("checksum") if isinstance(raw, dict) else None
    if not isinstance(checksum, str) or len(checksum) != len(_NO_CHECKSUM):
        return None
    return raw if text_hash(text.replace(checksum, _NO_CHECKSUM, 1)) == checksum else None
