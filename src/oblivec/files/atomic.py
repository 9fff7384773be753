"""Writing files so that nothing is ever half-written."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from oblivec.errors import BadInput

_DISK_PROBLEMS = {
    errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR,
}


@contextmanager
def atomic_path(target: Path | str, mode: int = 0o666) -> Iterator[Path]:
    """Yield a temporary path beside `target`; on success it replaces `target`, on any failure it is gone.

    A full or read-only disk becomes `BadInput` with one clear line.
    """
    target = Path(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=target.suffix, dir=target.parent)
    except OSError as problem:
        raise _unwritable(target, problem) from None
    os.close(handle)
    temporary = Path(name)
    with writing(target):
        try:
            yield temporary
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(mode & ~umask)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)


def check_writable(target: Path | str) -> None:
    """Refuse, before any work is done, a file that could not be written after it."""
    target = Path(target)
    if target.is_dir():
        raise BadInput(f"{target}: is a directory; give a file")
    ancestor = next(parent for parent in target.absolute().parents if parent.exists())
    if not ancestor.is_dir() or not os.access(ancestor, os.W_OK | os.X_OK):
        raise BadInput(f"{target}: cannot be written ({ancestor} is not a writable directory); choose another place")


@contextmanager
def writing(target: Path | str) -> Iterator[None]:
    """Turn what a full, read-only or forbidden disk raises into `BadInput`; other faults pass."""
    try:
        yield
    except OSError as problem:
        if problem.errno in _DISK_PROBLEMS:
            raise _unwritable(Path(target), problem) from None
        raise


def _unwritable(target: Path, problem: OSError) -> BadInput:
    return BadInput(f"{target}: cannot be written ({problem.strerror or problem}); free space or choose another place")


def write_text(target: Path | str, text: str, mode: int = 0o666) -> None:
    with atomic_path(target, mode) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(target: Path | str, value: Any, mode: int = 0o666) -> None:
    """JSON as people and programs expect it: indented, UTF-8, no NaN."""
    write_text(target, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", mode)


def set_aside(target: Path | str, word: str) -> None:
    """Take a file out of the way in one step: `eu.npy` becomes `eu.WORD.npy`. Absent is fine."""
    target = Path(target)
    with writing(target), suppress(FileNotFoundError):
        os.replace(target, target.with_name(f"{target.stem}.{word}{target.suffix}"))


def remove_file(target: Path | str) -> None:
    """Absent is fine."""
    with writing(target):
        Path(target).unlink(missing_ok=True)


def append_line(target: Path | str, line: str) -> None:
    """Add one line to a log, in a single write: several processes may do so at once, and none waits for another.

    What a killed process leaves may be a piece of a line. Whoever reads the log passes over it.
    """
    with writing(target):
        handle = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(handle, f"{line}\n".encode())
        finally:
            os.close(handle)
