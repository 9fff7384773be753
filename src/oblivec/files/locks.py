"""Locks between processes that the system itself lets go of when their holder dies, however it dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oblivec.console import say
from oblivec.errors import BadInput
from oblivec.files.atomic import writing


@contextmanager
def locked(path: Path, *, exclusive: bool) -> Iterator[None]:
    """Hold `path`, made when absent: any number of holders share it, an exclusive one is alone. Waits its turn.

    On a file system without locks sharers go on without, and who needs to be alone gets `BadInput`.
    """
    with writing(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _acquire(handle, path, exclusive)
        yield
    finally:
        os.close(handle)  # lets the lock go


def _acquire(handle: int, path: Path, exclusive: bool) -> None:
    import fcntl  # not on every system

    wanted = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    try:
        fcntl.flock(handle, wanted | fcntl.LOCK_NB)
    except BlockingIOError:
        say(f"{path.parent}: in use by another process; waiting for it")
        fcntl.flock(handle, wanted)
    except OSError:
        if exclusive:
            raise BadInput(f"{path}: this file system has no locks; move the directory to one that has") from None
