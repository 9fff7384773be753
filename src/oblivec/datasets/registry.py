"""The data sets by name. To add one: a file that ends in `ENTRY = ...`, and its name in the list below."""

from __future__ import annotations

from pathlib import Path

from oblivec.datasets import kuairand, kuaisar, ml_1m, ml_100k, own, synthetic
from oblivec.datasets.dataset import Dataset
from oblivec.datasets.entry import Entry
from oblivec.datasets.fetch import cache_root
from oblivec.errors import BadInput

__all__ = ["ENTRIES", "Dataset", "entry", "fetch", "load", "names"]

ENTRIES: dict[str, Entry] = {
    module.ENTRY.name: module.ENTRY for module in (ml_100k, ml_1m, kuaisar, kuairand, synthetic, own)
}


def names() -> tuple[str, ...]:
    return tuple(ENTRIES)


def entry(name: str) -> Entry:
    if name not in ENTRIES:
        raise BadInput(f"no data set '{name}'; there are {', '.join(ENTRIES)}")
    return ENTRIES[name]


def load(name: str, *, path: Path | str | None = None, root: Path | str | None = None) -> Dataset:
    """Read a data set from `path` when given, else from the cache, fetching it first where that is possible."""
    return entry(name).load(None if path is None else Path(path).expanduser(), cache_root(root))


def fetch(name: str, *, path: Path | str | None = None, root: Path | str | None = None) -> str:
    """Put a data set into the cache (from `path` when given); returns what was done, in words."""
    return entry(name).fetch(None if path is None else Path(path).expanduser(), cache_root(root))
