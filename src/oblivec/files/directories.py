"""Writing a directory of files so that it appears whole or not at all."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oblivec.errors import BadInput

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def check_directory_target(target: Path | str, marker: str) -> None:
    """Refuse, before any work is done, a target that could not be written or must not be replaced.

    A directory that holds anything is replaced only when it holds `marker`, the file that says it is ours.
    """
    target = Path(target)
    if target.exists() and not target.is_dir():
        raise BadInput(f"{target}: is a file; choose a directory")
    if target.is_dir() and any(target.iterdir()) and not (target / marker).is_file():
        raise BadInput(f"{target}: holds files but no {marker}, so it is not replaced; choose another directory")
    ancestor = next(parent for parent in target.absolute().parents if parent.exists())
    if not ancestor.is_dir() or not os.access(ancestor, os.W_OK | os.X_OK):
        raise BadInput(f"{target}: cannot be written ({ancestor} is not writable); choose another place")


@contextmanager
def atomic_directory(target: Path | str, marker: str) -> Iterator[Path]:
    """Yield a temporary directory beside `target`; on success it takes its place, on any failure it is gone."""
    target = Path(target).absolute()
    check_directory_target(target, marker)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as problem:
        raise BadInput(f"{target}: cannot be written ({problem.strerror}); choose another place") from None
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o777 & ~umask)
        _put_in_place(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _put_in_place(temporary: Path, target: Path) -> None:
    """After this `temporary` holds what `target` held before, or is gone."""
    if not target.exists():
        temporary.rename(target)
    elif not _exchange(temporary, target):
        aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent)) / "old"
        target.rename(aside)
        try:
            temporary.rename(target)
        except OSError:
            aside.rename(target)
            raise
        finally:
            shutil.rmtree(aside.parent, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two directories in one step where the system can (Linux); False where it cannot."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if os.name == "posix" else None
    if rename is None:
        return False
    return rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0
