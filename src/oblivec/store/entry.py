"""One entry of a store: a directory with tensors and a manifest, whatever it is a record of."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from oblivec.errors import BadInput, StoreDamaged
from oblivec.files.atomic import atomic_path
from oblivec.files.tensors import save_tensors
from oblivec.files.write_once import added_directory, directory_bytes
from oblivec.store.keys import file_hash, matrix_hash
from oblivec.store.lineage import EntryKind, Lineage
from oblivec.store.manifest import MANIFEST_FILE, Manifest, damaged, new_manifest, read_manifest, write_manifest


@dataclass(frozen=True)
class Entry:
    """Where an entry is or would be. Nothing is read until it is asked for."""

    kind: EntryKind
    key: str
    path: Path

    @property
    def tensor_file(self) -> Path:
        return self.path / f"{self.kind}.safetensors"

    @property
    def manifest_file(self) -> Path:
        return self.path / MANIFEST_FILE

    @property
    def bytes(self) -> int:
        """Its size on disk."""
        return directory_bytes(self.path)

    @property
    def used(self) -> float:
        """When it was last written or read, in seconds since 1970. 0 when it has no manifest."""
        try:
            return self.manifest_file.stat().st_mtime
        except OSError:
            return 0.0

    @property
    def is_absent(self) -> bool:
        """Whether there is no such directory. One that may not be looked at is not absent."""
        try:
            self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            pass
        return False

    @property
    def is_damaged(self) -> bool:
        """Whether it is there and does not look whole. Asked in this order: one that appears meanwhile is whole."""
        return not self.is_absent and not self.is_there()

    def manifest(self) -> Manifest:
        return read_manifest(self.manifest_file, self.key)

    def is_there(self) -> bool:
        """Whether it looks whole: a good manifest, and a tensor file of the right size. Reads no tensor."""
        try:
            expected = self.manifest().file_bytes
            return self.tensor_file.stat().st_size == expected
        except (StoreDamaged, FileNotFoundError):
            return False

    def write(
        self, lineage: Lineage, tensors: Mapping[str, Tensor], shape: tuple[int, int], facts: Mapping[str, Any],
        seconds: float,
    ) -> None:
        """Put the entry on disk in one step. One that is there stays."""
        if self.is_there():
            self.touch()
            return
        tensors = _apart(tensors)
        with added_directory(self.path) as temporary:
            with atomic_path(temporary / self.tensor_file.name, mode=0o600) as file:
                save_tensors(file, tensors)
            written = temporary / self.tensor_file.name
            manifest = new_manifest(
                lineage, shape=shape, file_sha256=file_hash(written), file_bytes=written.stat().st_size,
                tensors={name: matrix_hash(tensor) for name, tensor in tensors.items()}, facts=facts, seconds=seconds,
            )
            write_manifest(temporary / MANIFEST_FILE, manifest)

    def read(self) -> tuple[Manifest, dict[str, Tensor]]:
        """Manifest and tensors, every bit of both checked; `StoreDamaged` when one is not as it was written."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        manifest = self.manifest()
        path = self.tensor_file
        try:
            if file_hash(path) != manifest.file_sha256:
                raise damaged(path, "is damaged")
            tensors = load_file(path)
        except FileNotFoundError:
            raise damaged(path, "is missing") from None
        except SafetensorError:
            raise damaged(path, "is not a safetensors file") from None
        except OSError as problem:
            raise BadInput(f"{path}: cannot be read ({problem.strerror}); check its permissions and the disk") from None
        # The file may be right and the memory it was read into wrong: what is handed out is what is checked.
        if {name: matrix_hash(tensor) for name, tensor in tensors.items()} != manifest.tensors:
            raise damaged(path, "holds other tensors than its manifest says")
        return manifest, tensors

    def touch(self) -> None:
        """Remember that it was used just now, where the disk lets us."""
        try:
            os.utime(self.manifest_file)
        except OSError:
            return


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """On the CPU, contiguous, and no two in the same memory, which safetensors would refuse."""
    separate: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        if tensor.untyped_storage().data_ptr() in seen:
            tensor = tensor.clone()
        seen.add(tensor.untyped_storage().data_ptr())
        separate[name] = tensor
    return separate
