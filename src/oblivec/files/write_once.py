"""Directories that are written once: each appears whole, is never changed, and goes in one step.

A rename is the only step anyone else can see. Whatever a killed process leaves behind has a name that begins with
`TEMPORARY` and is otherwise ignored.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from oblivec.files.atomic import writing

TEMPORARY = ".temporary-"


def private_directory(path: Path) -> None:
    """Make `path`, closed to everybody else, unless it is there; parents that are missing are made as usual."""
    with writing(path):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)


@contextmanager
def added_directory(target: Path) -> Iterator[Path]:
    """Yield a private temporary directory beside `target`; on success it becomes `target`, on any failure it is gone.

    When somebody else has put a directory there meanwhile, theirs stays and this one goes without a word.
    """
    private_directory(target.parent)
    with writing(target):
        temporary = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=target.parent))
        try:
            yield temporary
            flush_directory(temporary)
            try:
                temporary.rename(target)
            except OSError as problem:
                if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            flush_directory(target.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def remove_directory(target: Path) -> None:
    """Out of sight in one step, then gone. No error when it is gone already."""
    with writing(target):
        aside = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=target.parent))
        with suppress(FileNotFoundError):
            target.rename(aside)
        shutil.rmtree(aside)


def remove_leftover(path: Path) -> None:
    """A temporary file or directory of a process that is no more."""
    with writing(path):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def flush_directory(path: Path) -> None:
    """Have the names in a directory on the disk before going on; without this a power cut could undo a rename."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as problem:
        if problem.errno != errno.EINVAL:  # some file systems cannot, and need not
            raise
    finally:
        os.close(handle)


def directory_bytes(path: Path) -> int:
    """Size of the files in a directory, subdirectories included; what may not be looked at counts nothing."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total
