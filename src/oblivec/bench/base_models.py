"""The trained recommenders that benchmarks start from: read from a directory, trained and put there when absent."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from oblivec.console import say
from oblivec.datasets import registry
from oblivec.datasets.dataset import Dataset
from oblivec.datasets.fetch import cache_root
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.devices import resolve_device
from oblivec.errors import BadInput
from oblivec.metrics import rank_test_items
from oblivec.recommenders import Recommender, load, recommender
from oblivec.recommenders.export import write_trained
from oblivec.recommenders.storage import is_model


@cache
def data(name: str, root: Path | None = None, path: Path | None = None) -> tuple[Dataset, LeaveOneOut]:
    """A data set and its split, read once."""
    dataset = registry.load(name, root=root, path=path)
    return dataset, dataset.split()


def models_root(folder: Path | None, root: Path | None) -> Path:
    """Where models lie: `folder`, else beside the cached data sets."""
    return folder if folder is not None else cache_root(root) / "models"


def base_model(
    folder: Path, dataset: str, name: str, seed: int, settings: Mapping[str, Any], device: str, root: Path | None = None
) -> Recommender:
    """The model in `folder/DATASET-NAME-SEED` (as `oblivec train --out` writes it), on `device`.

    One that was trained with other settings is refused: figures of two kinds of model must not mix.
    """
    place = resolve_device(device)
    directory = folder / f"{dataset}-{name}-{seed}"
    wanted = recommender(name, **settings)
    if is_model(directory):
        found = load(directory, place)
        if found.name != name or found.config != wanted.config:
            raise BadInput(f"{directory}: holds a model with other settings; name another folder with --models")
        return found
    source, split = data(dataset, root)
    say(f"training {name} on {dataset}, seed {seed} ...")
    start = time.perf_counter()
    wanted.fit(split, seed=seed, device=place)
    metrics = rank_test_items(wanted.scores, split, device=place).summary() | {
        "dataset": dataset, "model": name, "tie_rule": split.tie_rule, "seed": seed,
        "seconds": round(time.perf_counter() - start, 3),
    }
    write_trained(directory, wanted, source, split, metrics)
    return wanted.to(place)
