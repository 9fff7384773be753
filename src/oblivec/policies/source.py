"""What a release is made from: files in, everything matched to the rows of the user matrix, faults found at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict

from oblivec.audit.suppression import shown_count
from oblivec.datasets.attributes import Attribute
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.datasets.splits import leave_one_out
from oblivec.errors import BadInput
from oblivec.files.embeddings import EmbeddingFile, embeddings_from, read_embeddings
from oblivec.files.matching import match_attributes, match_interactions
from oblivec.files.tables import read_attributes, read_interactions
from oblivec.recommenders.aligned import load_aligned
from oblivec.recommenders.base import Recommender
from oblivec.recommenders.dot_product import dot_product
from oblivec.recommenders.storage import ITEMS_FILE


class Source(BaseModel):
    """Where things are: the arguments of `unlearn`, and the table `[source]` of a policy file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    embeddings: Path
    """The user matrix."""
    attributes: Path
    """The table of attributes."""
    id_column: str | None = None
    """The id column of the tables, when it is not `user_id`."""
    items: Path | None = None
    """The item matrix, where the score is a dot product."""
    model: Path | None = None
    """A directory written by `oblivec train`, instead of `items`."""
    interactions: Path | None = None
    """Who met what, to measure utility."""

    @property
    def paths(self) -> dict[str, Path]:
        """The files that were named, by key."""
        found = ((key, getattr(self, key)) for key in ("embeddings", "attributes", "items", "model", "interactions"))
        return {key: path for key, path in found if path is not None}


@dataclass(frozen=True)
class Given:
    """The source, read: row i of everything belongs to row i of `matrix`."""

    matrix: EmbeddingFile
    attributes: dict[str, Attribute]
    model: Recommender | None
    """What scores items from a user matrix; two bare matrices are one too."""
    item_file: EmbeddingFile | None
    """The item matrix as it lies on disk, where the score is a dot product."""
    split: LeaveOneOut | None
    notes: list[str]

    @property
    def items(self) -> np.ndarray | None:
        """What tells a method which directions matter: the item matrix, where the score is a dot product."""
        return None if self.item_file is None else self.item_file.values


def read_source(source: Source, wanted: Sequence[str], types: Mapping[str, str] | None = None) -> Given:
    """Read and match everything; `wanted` names the attributes. Whatever is wrong is one line, before any long work."""
    if source.items is not None and source.model is not None:
        raise BadInput("--items and --model: give one of them; a model brings its own item side")
    matrix = read_embeddings(source.embeddings, source.id_column)
    table = read_attributes(source.attributes, id_column=source.id_column, types=types, only=wanted)
    attributes, notes = match_attributes(matrix, table)
    for attribute in attributes.values():
        if not attribute.labelled.any():
            raise BadInput(f"{source.attributes}: column '{attribute.name}': no user of {source.embeddings} has a "
                           "label, so it cannot be removed; give some, or leave it out")
        if attribute.missing:
            notes.append(f"attribute '{attribute.name}': {shown_count(attribute.missing)} of {len(matrix):,} users "
                         "have no label")
    model, item_file = _item_side(source, matrix)
    split = None
    if source.interactions is not None:
        split, more = _split(source, matrix, model, item_file)
        notes += more
    return Given(matrix, attributes, model, item_file, split, notes)


def _item_side(source: Source, matrix: EmbeddingFile) -> tuple[Recommender | None, EmbeddingFile | None]:
    width = matrix.values.shape[1]
    if source.items is not None:
        items = read_embeddings(source.items)
        if items.values.shape[1] != width:
            raise BadInput(f"{source.items}: has {items.values.shape[1]} dimensions and {source.embeddings} has "
                           f"{width}; give the item matrix of the same model")
        return dot_product(matrix.values, items.values), items
    if source.model is None:
        return None, None
    model = load_aligned(source.model, matrix)
    if model.users.shape[1] != width:
        raise BadInput(f"{source.model}: its user matrix has {model.users.shape[1]} dimensions and {source.embeddings} "
                       f"has {width}; give a matrix of that model")
    item_file = read_embeddings(source.model / ITEMS_FILE) if model.is_dot_product else None
    return model.with_user_matrix(np.array(matrix.values, dtype=np.float32)), item_file


def _split(
    source: Source, matrix: EmbeddingFile, model: Recommender | None, item_file: EmbeddingFile | None
) -> tuple[LeaveOneOut | None, list[str]]:
    """The held-out items, numbered as the item side numbers them. Without one there is nothing to rank."""
    if model is None:
        return None, [f"{source.interactions}: utility needs the item side too, --items or --model; it is not measured"]
    catalogue = item_file
    if catalogue is None:  # a model that is no dot product numbers its items by row, as `oblivec train` does
        catalogue = embeddings_from(np.zeros((model.scores(torch.arange(1)).shape[1], 1), dtype=np.float32))
    table = read_interactions(source.interactions or "", id_column=source.id_column)
    rows, notes = match_interactions(table, matrix, catalogue)
    split = leave_one_out(rows)
    if len(split.tested_users) == 0:
        return None, [*notes, f"{source.interactions}: no user has an item to test; utility is not measured"]
    return split, notes
