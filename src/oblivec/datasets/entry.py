"""What the registry knows about a data set before reading any of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from oblivec.datasets.dataset import Dataset
from oblivec.errors import BadInput

FETCHED_WHEN_USED = "fetched when first used"
NEEDS_PATH = "needs --path"
"""What `presence` says of a data set that is not there yet."""


@dataclass(frozen=True)
class Entry(ABC):
    """One data set: subclass, fill in, and add the instance to the registry."""

    name: str
    """As given on the command line."""
    title: str
    licence: str
    """What its use is bound to, in one or two sentences."""
    citation: str
    by_hand: str
    """Where a person gets the files, and which."""

    @abstractmethod
    def load(self, path: Path | None, root: Path) -> Dataset:
        """Read from `path` when given, else from the cache below `root`, fetching first where that is possible."""

    @abstractmethod
    def presence(self, root: Path) -> str:
        """Whether it can be used right now, in a few words."""

    def fetch(self, path: Path | None, root: Path) -> str:
        """Make it present below `root`; returns what was done, in words."""
        raise BadInput(f"{self.name} cannot be fetched; {self.by_hand}")

    def needs_path(self, path: Path | None) -> Path:
        """The given path, for data sets that are only ever read from one."""
        if path is None:
            raise BadInput(f"{self.name} is read from files of yours; {self.by_hand}")
        if not path.exists():
            raise BadInput(f"{path}: no such file or folder; {self.by_hand}")
        return path
