"""A directory of calibrations, releases and audits, addressed by what they were made from. As sensitive as the labels.

    store.json                                             {"store": "oblivec", "schema": 1}
    calibrations/KEY/calibration.safetensors, manifest.json
    releases/KEY/release.safetensors, manifest.json
    audits/KEY/audit.safetensors, manifest.json

Entries appear whole by one rename and are never changed, so readers need no lock. A writer shares `.lock` while it
writes and `gc` holds it alone; the system frees it when its holder dies. Hence, when `gc` has it, nobody is writing,
and every temporary directory is one that a killed run left behind. Writers who replace a damaged entry take turns by
`.mend`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from oblivec.calibration.base import Calibration
from oblivec.errors import BadInput
from oblivec.files.atomic import write_json, writing
from oblivec.files.locks import locked
from oblivec.files.write_once import TEMPORARY, flush_directory, private_directory, remove_directory
from oblivec.store.entry import Entry
from oblivec.store.lineage import KINDS, SCHEMA, EntryKind, Lineage
from oblivec.store.manifest import Manifest

STORE_FILE, LOCK_FILE, MEND_FILE = "store.json", ".lock", ".mend"
_STORE = {"store": "oblivec", "schema": SCHEMA}
_TENSORS = "tensors/"


class Store:
    """Opens the store at `path`; one that is absent is made, for its owner's eyes only, unless `create` is False."""

    def __init__(self, path: Path | str, *, create: bool = True):
        self.path = Path(path)
        if not self._is_made():
            self._create(create)
        self._check_schema()

    # --- calibrations, releases, audits -----------------------------------------------------------------------------

    def has(self, key: str) -> bool:
        """Whether there is an entry of that key that looks whole. Reads no tensor."""
        return any(self._entry(kind, key).is_there() for kind in KINDS)

    def get(self, key: str) -> Calibration:
        """The calibration, every bit checked: `StoreDamaged` when one has flipped. `BadInput` when there is none."""
        entry = self._present("calibration", key)
        manifest, tensors = entry.read()
        entry.touch()
        others = {name.removeprefix(_TENSORS): tensor for name, tensor in tensors.items() if name != "calibrated"}
        lineage = manifest.lineage
        return Calibration(lineage.attributes[0], lineage.method, tensors["calibrated"], others, manifest.facts)

    def put(self, lineage: Lineage, calibration: Calibration, seconds: float) -> str:
        """Keep a calibration that took `seconds` to make; returns its key. Content when it is there already."""
        if (lineage.attributes, lineage.method) != ([calibration.attribute], calibration.method):
            raise ValueError("this lineage is another calibration's")
        tensors = {"calibrated": calibration.calibrated}
        tensors |= {_TENSORS + name: tensor for name, tensor in calibration.tensors.items()}
        return self._write("calibration", lineage, tensors, calibration.calibrated.shape, calibration.facts, seconds)

    def get_release(self, key: str) -> Tensor:
        """The release, every bit checked, as `get`."""
        entry = self._present("release", key)
        tensors = entry.read()[1]
        entry.touch()
        return tensors["release"]

    def put_release(
        self, lineage: Lineage, release: Tensor, seconds: float, facts: Mapping[str, Any] | None = None
    ) -> str:
        """Keep a release that took `seconds` to combine; returns its key."""
        return self._write("release", lineage, {"release": release}, release.shape, facts or {}, seconds)

    def get_audit(self, key: str) -> dict[str, Any]:
        """The audit as it was given, every bit checked, as `get`."""
        entry = self._present("audit", key)
        tensors = entry.read()[1]
        entry.touch()
        return json.loads(tensors["audit"].numpy().tobytes())

    def put_audit(
        self, lineage: Lineage, audit: Mapping[str, Any], shape: tuple[int, int], seconds: float,
        facts: Mapping[str, Any] | None = None,
    ) -> str:
        """Keep an audit, plain JSON, of a matrix of that shape; returns its key."""
        text = np.frombuffer(json.dumps(dict(audit)).encode(), dtype=np.uint8)  # in its order: reports follow it
        return self._write("audit", lineage, {"audit": torch.from_numpy(text.copy())}, shape, facts or {}, seconds)

    def manifest(self, kind: EntryKind, key: str) -> Manifest:
        """What is known about an entry without reading its tensors; costs the same however many entries there are."""
        return self._present(kind, key).manifest()

    # --- looking around -------------------------------------------------------------------------------------------

    def entries(self) -> list[Entry]:
        """All entries, whole or damaged: calibrations first, by key."""
        return [
            self._entry(kind, path.name)
            for kind in KINDS for path in self._children(kind) if re.fullmatch("[0-9a-f]{64}", path.name)
        ]

    def find(self, prefix: str) -> Entry:
        """The one entry whose key begins like this."""
        found = [entry for entry in self.entries() if entry.key.startswith(prefix.lower())]
        if not prefix or not found:
            raise BadInput(f"{self.path}: no entry's key begins with {prefix!r}; `oblivec store list` shows the keys")
        if len(found) > 1:
            raise BadInput(f"{self.path}: {len(found)} keys begin with {prefix!r}; give more digits")
        return found[0]

    def temporaries(self) -> list[Path]:
        """What runs that are still writing, or were killed, have put beside the entries."""
        mine = [path for path in self._listed(self.path) if path.name.startswith(f".{STORE_FILE}.")]
        return mine + [path for kind in KINDS for path in self._children(kind) if path.name.startswith(TEMPORARY)]

    @property
    def is_open_to_others(self) -> bool:
        """Whether anyone but the owner can look into the directory."""
        return bool(self.path.stat().st_mode & 0o077)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _entry(self, kind: EntryKind, key: str) -> Entry:
        return Entry(kind, key, self.path / f"{kind}s" / key)

    def _present(self, kind: EntryKind, key: str) -> Entry:
        entry = self._entry(kind, key)
        if entry.is_absent:
            raise BadInput(f"{self.path}: has no {kind} {key[:12]} (any more); run again and it is made anew")
        return entry

    def _write(
        self, kind: EntryKind, lineage: Lineage, tensors: Mapping[str, Tensor], shape: Sequence[int],
        facts: Mapping[str, Any], seconds: float,
    ) -> str:
        if lineage.kind != kind:
            raise ValueError(f"the lineage of a {lineage.kind} is not that of a {kind}")
        key = lineage.key
        entry = self._entry(kind, key)
        with locked(self.path / LOCK_FILE, exclusive=False):
            if entry.is_damaged:
                self._make_room(entry)
            entry.write(lineage, tensors, (shape[0], shape[1]), facts, seconds)
        return key

    def _make_room(self, entry: Entry) -> None:
        """One writer at a time: the second finds what the first has written instead, and must not take that away."""
        with locked(self.path / MEND_FILE, exclusive=True):
            if entry.is_damaged:
                remove_directory(entry.path)

    def _children(self, kind: EntryKind) -> Iterator[Path]:
        yield from self._listed(self.path / f"{kind}s")

    def _listed(self, folder: Path) -> list[Path]:
        try:
            return sorted(folder.iterdir())
        except FileNotFoundError:
            return []
        except OSError as problem:
            raise _unreadable(folder, problem) from None

    def _is_made(self) -> bool:
        try:
            (self.path / STORE_FILE).stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except (OSError, ValueError) as problem:
            raise _unreadable(self.path, problem) from None
        return True

    def _create(self, create: bool) -> None:
        """Make an empty directory, or one that is not there, a store. What a run killed here left behind is no harm."""
        if self.path.exists() and not self.path.is_dir():
            raise BadInput(f"{self.path}: is a file; give the directory of a store")
        strangers = [path for path in self._listed(self.path) if not path.name.startswith(f".{STORE_FILE}.")]
        if self._is_made():
            return  # by somebody else, just now
        if strangers:
            raise BadInput(f"{self.path}: not a store, it holds files but no {STORE_FILE}; give another directory")
        if not create:
            raise BadInput(f"{self.path}: no store here; check the path")
        private_directory(self.path)
        with writing(self.path):
            self.path.chmod(0o700)
        write_json(self.path / STORE_FILE, _STORE, mode=0o600)
        flush_directory(self.path)

    def _check_schema(self) -> None:
        path = self.path / STORE_FILE
        try:
            described = json.loads(path.read_bytes())
        except OSError as problem:
            raise _unreadable(path, problem) from None
        except (ValueError, RecursionError):
            described = None
        schema = described.get("schema") if isinstance(described, dict) else None
        if not isinstance(schema, int) or described != {**_STORE, "schema": schema} or schema < 1:
            raise BadInput(f"{path}: is damaged; write {json.dumps(_STORE)} into it, then run `oblivec store verify`")
        if schema > SCHEMA:
            raise BadInput(f"{path}: a store of schema {schema} needs a newer Oblivec; update it, or use another store")


def _unreadable(path: Path, problem: OSError | ValueError) -> BadInput:
    reason = problem.strerror if isinstance(problem, OSError) else "the path is not valid"
    return BadInput(f"{path}: cannot be read ({reason}); check the path and its permissions")
