"""The directory `oblivec train` leaves behind: the model, and beside it what an audit or unlearning will ask for."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oblivec.datasets.attributes import Attribute
from oblivec.datasets.dataset import Dataset
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.datasets.splits import latest_of_each_pair
from oblivec.files.atomic import atomic_path, write_json
from oblivec.files.directories import atomic_directory
from oblivec.recommenders.base import Recommender
from oblivec.recommenders.storage import MODEL_FILE, save


def write_trained(
    directory: Path | str, model: Recommender, dataset: Dataset, split: LeaveOneOut, metrics: dict[str, Any]
) -> None:
    """Write the directory whole or not at all; a model directory already there is replaced in one step."""
    with atomic_directory(directory, MODEL_FILE) as place:
        save(model, place, dataset.interactions.user_keys)
        _write_catalogue(place / "catalogue.csv", dataset)
        _write_attributes(place / "attributes.csv", dataset)
        _write_interactions(place / "interactions.csv", dataset, split)
        write_json(place / "metrics.json", {name: _or_null(value) for name, value in metrics.items()})


def _write_catalogue(target: Path, dataset: Dataset) -> None:
    """The data set's own key of every item; elsewhere `item_id` is the row number of the item."""
    keys = dataset.interactions.item_keys.tolist()
    _write_csv(target, ("item_id", "key"), enumerate(keys))


def _write_attributes(target: Path, dataset: Dataset) -> None:
    columns = [_cells(attribute) for attribute in dataset.attributes.values()]
    keys = dataset.interactions.user_keys.tolist()
    _write_csv(target, ("user_id", *dataset.attributes), zip(keys, *columns, strict=True))


def _cells(attribute: Attribute) -> list[str]:
    """Class names or numbers; an empty cell is a missing label."""
    if attribute.is_continuous:
        return [repr(value) if math.isfinite(value) else "" for value in attribute.values.tolist()]
    names = (*attribute.classes, "")  # MISSING is -1: the last
    return [names[code] for code in attribute.values.tolist()]


def _write_interactions(target: Path, dataset: Dataset, split: LeaveOneOut) -> None:
    """One row per pair, by user and then by time. Rows a given split holds out but does not test are left out."""
    rows = latest_of_each_pair(dataset.interactions, split.tie_rule)
    users, items = dataset.interactions.users[rows], dataset.interactions.items[rows]
    tested = split.test_items[users] == items
    kept = tested | _in_training(split, users, items)
    keys = dataset.interactions.user_keys[users[kept]].tolist()
    parts = np.where(tested[kept], "test", "train").tolist()
    _write_csv(target, ("user_id", "item_id", "split"), zip(keys, items[kept].tolist(), parts, strict=True))


def _in_training(split: LeaveOneOut, users: np.ndarray, items: np.ndarray) -> np.ndarray:
    owners = np.repeat(np.arange(split.n_users), np.diff(split.train.indptr))
    return np.isin(users * split.n_items + items, owners * split.n_items + split.train.indices)


def _write_csv(target: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with atomic_path(target) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def _or_null(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
