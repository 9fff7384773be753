"""Your own data: a table of interactions and, unless there is nothing to protect yet, a table of attributes.

`--path` takes a folder with `interactions.csv` and `attributes.csv` (or `.csv.gz`, `.parquet`), which is also what
`oblivec train` writes, or the file of interactions alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from oblivec.datasets.dataset import Dataset, attribute_notes
from oblivec.datasets.entry import NEEDS_PATH, Entry
from oblivec.datasets.interactions import Interactions
from oblivec.errors import BadInput
from oblivec.files.matching import locate
from oblivec.files.table_sources import TABLE_SUFFIXES
from oblivec.files.tables import read_attributes, read_interactions


def own(
    interactions: Path | str,
    attributes: Path | str | None = None,
    *,
    id_column: str | None = None,
    types: Mapping[str, str] | None = None,
) -> Dataset:
    """Any CSV or Parquet of interactions and of attributes; user and item rows in order of first appearance.

    A `split` column (train/test) is kept; else the last interaction per user is held out, by time or by file order.
    """
    table = read_interactions(interactions, id_column=id_column)
    rows = Interactions(
        table.users, table.items, table.timestamps, table.user_keys, table.item_keys, table.is_test
    )
    found, notes = {}, ()
    if attributes is not None:
        members = read_attributes(attributes, id_column=id_column, types=types)
        if members.ids is None:
            raise BadInput(f"{attributes}: has no column '{id_column or 'user_id'}'; say which it is: --id-column")
        order = locate(table.user_keys, members.ids)
        if not (order >= 0).any():
            raise BadInput(f"{attributes}: no user is in {interactions} too; check that both use the same ids")
        found = {name: attribute.take(order) for name, attribute in members.attributes.items()}
        without = int((order < 0).sum())
        notes = (*members.notes, *attribute_notes(without, len(members) - (len(order) - without)))
    return Dataset("own", rows, found, notes=notes, licence=ENTRY.licence, source=str(interactions))


@dataclass(frozen=True)
class OwnEntry(Entry):
    def load(self, path: Path | None, root: Path) -> Dataset:
        path = self.needs_path(path)
        if not path.is_dir():
            return own(path)
        interactions = _find(path, "interactions")
        if interactions is None:
            raise BadInput(f"{path}: has no interactions.csv (or .csv.gz, .parquet); {self.by_hand}")
        return own(interactions, _find(path, "attributes"))

    def presence(self, root: Path) -> str:
        return NEEDS_PATH


def _find(folder: Path, name: str) -> Path | None:
    candidates = (folder / f"{name}{suffix}" for suffix in TABLE_SUFFIXES)
    return next((path for path in candidates if path.exists()), None)


ENTRY = OwnEntry(
    name="own",
    title="Your own interactions and attributes",
    licence="Yours.",
    citation="",
    by_hand="give a folder with interactions.csv (user_id, item_id, ...) and attributes.csv (user_id, ...) with --path",
)
