"""Looking after a store: is every bit as it was written, and what can go."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from oblivec.errors import OblivecError, StoreDamaged
from oblivec.files.locks import locked
from oblivec.files.write_once import directory_bytes, remove_directory, remove_leftover
from oblivec.store.entry import Entry
from oblivec.store.store import LOCK_FILE, Store

_DAY_SECONDS = 86_400


@dataclass(frozen=True)
class Finding:
    """What reading one entry from end to end has shown."""

    entry: Entry
    problem: OblivecError | None
    """What is wrong with it, if anything."""

    @property
    def is_damaged(self) -> bool:
        """Beyond use. An entry of a newer Oblivec, or one that may not be read, is a problem but no damage."""
        return isinstance(self.problem, StoreDamaged)


@dataclass(frozen=True)
class Removal:
    """Something `collect` has removed, or would."""

    what: str
    why: str
    bytes: int


def verify(store: Store) -> Iterator[Finding]:
    """Read every entry and compare every bit with its fingerprints."""
    for entry in store.entries():
        try:
            entry.read()
        except OblivecError as problem:
            if not entry.is_absent:  # else removed since it was listed
                yield Finding(entry, problem)
        else:
            yield Finding(entry, None)


def collect(
    store: Store, *, unused_days: float | None = None, keep: Collection[str] = (), dry_run: bool = False
) -> Iterator[Removal]:
    """Remove what killed runs left behind and entries that are damaged; yields each as it goes.

    With `unused_days`, also entries neither written nor read for that many days, those with keys in `keep` excepted.
    Waits until nobody writes, and keeps writers waiting until it is done.
    """
    with locked(store.path / LOCK_FILE, exclusive=True):
        for path in store.temporaries():
            removal = Removal("temporary", "left behind by a run that was killed", directory_bytes(path))
            if not dry_run:
                remove_leftover(path)
            yield removal
        now = time.time()
        for finding in verify(store):
            entry = finding.entry
            idle_days = (now - entry.used) / _DAY_SECONDS
            if finding.is_damaged:
                why = "damaged"
            elif finding.problem is None and unused_days is not None and idle_days >= unused_days and (
                entry.key not in keep
            ):
                why = f"not used for {idle_days:.0f} days"
            else:
                continue
            removal = Removal(f"{entry.kind} {entry.key[:12]}", why, entry.bytes)
            if not dry_run:
                remove_directory(entry.path)
            yield removal
