"""Tables of attributes and of interactions: `.csv`, `.csv.gz` or `.parquet`, or an object in memory.

Rows are counted from 1 in messages, the header not included. Neither an id nor a label is ever part of a message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from oblivec.datasets.attributes import Attribute
from oblivec.errors import BadInput
from oblivec.files.attribute_columns import KINDS, NotAnAttribute, attribute_from_cells
from oblivec.files.ids import NAMELESS, find_id_column, id_texts, listing, refuse_duplicates
from oblivec.files.interaction_tables import USER_ID, InteractionTable, read_interactions
from oblivec.files.objects import columns_of
from oblivec.files.opening import one_of
from oblivec.files.table_sources import open_table

__all__ = ["AttributeTable", "InteractionTable", "attributes_from", "read_attributes", "read_interactions"]


@dataclass(frozen=True)
class AttributeTable:
    """Attributes of users in the order of the table's rows."""

    ids: np.ndarray | None
    """User ids as text (object array of `str`, no duplicates); None when the table carries none."""
    attributes: dict[str, Attribute]
    notes: list[str] = field(default_factory=list)
    """What a user should be told: columns that were skipped, and why."""
    source: str = "attributes"
    id_column: str | None = None

    def __post_init__(self) -> None:
        if self.ids is not None:
            refuse_duplicates(self.ids, self.source, self.id_column or USER_ID)

    def __len__(self) -> int:
        return len(next(iter(self.attributes.values())).values)


def read_attributes(
    path: Path | str,
    *,
    id_column: str | None = None,
    types: Mapping[str, str] | None = None,
    only: Sequence[str] | None = None,
) -> AttributeTable:
    """Read a table of attributes.

    `types` states the kind of some attributes (`categorical` or `continuous`); `only` names the attributes wanted,
    which turns a reason to skip a column into bad input. Ids are in `user_id`, else in `id`; without such a column, row
    i belongs to row i of the matrix.
    """
    table = open_table(path)
    plan = _Plan(table.names, id_column, types, only, table.path)
    columns = dict(zip(plan.columns, table.columns(plan.columns, plan.attributes), strict=True))
    return plan.carry_out(columns, from_csv=table.is_csv)


def attributes_from(
    table: Any,
    *,
    id_column: str | None = None,
    types: Mapping[str, str] | None = None,
    only: Sequence[str] | None = None,
) -> AttributeTable:
    """The same from an object: a mapping of name to labels, or a pandas, polars or Arrow table.

    A value of a mapping may already be an `Attribute`; it is taken as it is, under the name it has there. A text column
    is text here, even when all of it looks like numbers.
    """
    if isinstance(table, AttributeTable):
        return table
    columns = columns_of(table)
    plan = _Plan(tuple(columns), id_column, types, only, "attributes")
    return plan.carry_out({name: columns[name] for name in plan.columns})


class _Plan:
    """Which columns of a table become attributes, and what is said about the others."""

    def __init__(
        self,
        names: Sequence[str],
        id_column: str | None,
        types: Mapping[str, str] | None,
        only: Sequence[str] | None,
        source: Path | str,
    ):
        self.source, self.types, self.only = source, dict(types or {}), list(only or ())
        self.id_column = find_id_column(names, id_column, (USER_ID if USER_ID in names else "id",), source)
        candidates = [name for name in names if name != self.id_column]
        for name, kind in self.types.items():
            if kind not in KINDS:
                raise BadInput(f"--type {name}={kind}: no such type; use {one_of(KINDS)}")
        for name in [*self.only, *self.types]:
            if name not in candidates:
                known = f"it has {listing(candidates) or 'none'}" if self.id_column else "check its header line"
                raise BadInput(f"{source}: has no attribute '{name}'; {known}")
        self.attributes = self.only or [name for name in candidates if name not in NAMELESS]
        self.notes = [
            f"{source}: column '{name}' is an index and was skipped"
            for name in candidates if name in NAMELESS and name not in self.attributes
        ]

    @property
    def columns(self) -> list[str]:
        """Columns to read."""
        return ([] if self.id_column is None else [self.id_column]) + list(dict.fromkeys(self.attributes))

    def carry_out(self, columns: Mapping[str, Any], from_csv: bool = False) -> AttributeTable:
        """Type the columns that were read."""
        ids = None
        if self.id_column is not None:
            ids = id_texts(columns[self.id_column].chunks, self.source, self.id_column, from_csv)
        attributes: dict[str, Attribute] = {}
        for name in self.attributes:
            cells = columns[name]
            if len(cells.values if isinstance(cells, Attribute) else cells) == 0:
                raise BadInput(f"{self.source}: has no rows; at least one user is needed")
            try:
                attributes[name] = cells if isinstance(cells, Attribute) else attribute_from_cells(
                    name, cells, self.types.get(name), str(self.source), from_csv
                )
            except NotAnAttribute as reason:
                if name in self.only:
                    raise BadInput(f"{self.source}: column '{name}' {reason}") from None
                self.notes.append(f"{self.source}: column '{name}' {reason}; it was skipped")
        if not attributes:
            why = "; ".join(self.notes) or "add a column of labels"
            raise BadInput(f"{self.source}: holds no attribute that can be used; {why}")
        return AttributeTable(ids, attributes, self.notes, str(self.source), self.id_column)
