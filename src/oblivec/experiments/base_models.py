"""The trained recommenders that measurements start from: read from a directory, trained and put there when absent."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from oblivec.console import say
from oblivec.datasets import registry
from oblivec.datasets.dataset import Dataset
from oblivec.datasets.entry import NEEDS_PATH
from oblivec.datasets.fetch import cache_root
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.devices import resolve_device
from oblivec.engines.local import map_tasks
from oblivec.errors import BadInput
from oblivec.metrics import rank_test_items
from oblivec.recommenders import Recommender, load, recommender
from oblivec.recommenders.export import write_trained
from oblivec.recommenders.storage import is_model


@cache
def data(
    name: str, root: Path | None = None, path: Path | None = None, validation: bool = False
) -> tuple[Dataset, LeaveOneOut]:
    """A data set and its split, read once. `path` is for those that cannot be fetched and is not shown to others."""
    needs_path = registry.entry(name).presence(cache_root(root)) == NEEDS_PATH
    dataset = registry.load(name, root=root, path=path if needs_path else None)
    return dataset, held_out_split(dataset, validation)


def held_out_split(dataset: Dataset, validation: bool) -> LeaveOneOut:
    """The leave-one-out split, or with `validation` the same rule applied to what is left of it for training."""
    split = dataset.split()
    if not validation:
        return split
    rows = dataset.interactions
    kept = split.test_items[rows.users] != rows.items
    earlier = replace(
        rows, users=rows.users[kept], items=rows.items[kept], held_out=None,
        timestamps=None if rows.timestamps is None else rows.timestamps[kept],
    )
    return replace(dataset, interactions=earlier).split()


def models_root(folder: Path | None, root: Path | None) -> Path:
    """Where models lie: `folder`, else beside the cached data sets."""
    return folder if folder is not None else cache_root(root) / "models"


@dataclass(frozen=True)
class BaseModels:
    """Models in `folder/DATASET-NAME-SEED`, as `oblivec train --out` writes them, all trained with these settings.

    Those trained without the test item are called `DATASET-validation-NAME-SEED`.
    """

    folder: Path
    settings: Mapping[str, Any]
    device: str = "auto"
    root: Path | None = None
    path: Path | None = None
    """Folder of a data set that cannot be fetched."""
    validation: bool = False
    """Whether the last *training* item is held out and the test item left out altogether: for choosing settings."""

    def data(self, dataset: str) -> tuple[Dataset, LeaveOneOut]:
        """The data set and the split that the models are trained and measured on."""
        return data(dataset, self.root, self.path, self.validation)

    def get(self, dataset: str, name: str, seed: int) -> Recommender:
        """The model on the device. One trained with other settings is refused: figures of two kinds must not mix."""
        directory = self._directory(dataset, name, seed)
        if not is_model(directory):
            self._train((dataset, name, seed))
        found = load(directory, resolve_device(self.device))
        if found.name != name or found.config != recommender(name, **self.settings).config:
            raise BadInput(f"{directory}: holds a model with other settings; name another folder with --models")
        return found

    def train_missing(self, wanted: Iterable[tuple[str, str, int]], jobs: int | None = None) -> None:
        """Train those of (data set, name, seed) that are not there, several at a time: one alone leaves most of a GPU,
        or of a processor with many cores, idle."""
        missing = [one for one in dict.fromkeys(wanted) if not is_model(self._directory(*one))]
        for dataset in dict.fromkeys(one[0] for one in missing):
            self.data(dataset)  # fetched once, before several processes ask for it
        map_tasks(self._train, missing, jobs, "Training")

    def _directory(self, dataset: str, name: str, seed: int) -> Path:
        return self.folder / f"{dataset}{'-validation' * self.validation}-{name}-{seed}"

    def _train(self, which: tuple[str, str, int]) -> None:
        dataset, name, seed = which
        place = resolve_device(self.device)
        source, split = self.data(dataset)
        say(f"training {name} on {dataset}, seed {seed} ...")
        start = time.perf_counter()
        model = recommender(name, **self.settings).fit(split, seed=seed, device=place)
        metrics = rank_test_items(model.scores, split, device=place).summary() | {
            "dataset": dataset, "model": name, "tie_rule": split.tie_rule, "seed": seed,
            "seconds": round(time.perf_counter() - start, 3),
        }
        write_trained(self._directory(dataset, name, seed), model, source, split, metrics)
