"""Small calibrations to put into stores, here and in processes that are killed while they do."""

from __future__ import annotations

from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from oblivec.calibration.base import Calibration
from oblivec.calibration.configured import Configured, Settings
from oblivec.datasets.attributes import Attribute
from oblivec.store import Lineage, Store, calibration_lineage, matrix_hash, release_lineage


class TinySettings(Settings):
    """Settings of a method that exists for these tests."""

    radius_per_user: float = 0.5
    steps: int = 3


class Tiny(Configured):
    """A method that exists for these tests."""

    name = "tiny"
    Config = TinySettings


def users(number: int = 0, rows: int = 20, dimensions: int = 4) -> Tensor:
    return torch.arange(rows * dimensions, dtype=torch.float32).reshape(rows, dimensions) + number


def gender(rows: int = 20) -> Attribute:
    return Attribute("gender", "categorical", np.arange(rows) % 3 - 1, ("f", "m"))


def calibration(number: int = 0, rows: int = 20) -> tuple[Lineage, Calibration]:
    """The lineage of calibration `number`, and one."""
    matrix = users(number, rows)
    lineage = calibration_lineage(Tiny(), gender(rows), user_matrix=matrix_hash(matrix), seed=number)
    tensors = {"map": torch.eye(4) * number, "kept": torch.tensor([True, False])}
    return lineage, Calibration("gender", "tiny", matrix / 2, tensors, {"steps": 3, "note": "fine – as far as it goes"})


def release(number: int = 0) -> tuple[Lineage, Tensor]:
    made, _ = calibration(number)
    return release_lineage(Tiny(), [made], user_matrix=made.user_matrix, seed=number), users(number) / 3


def work(path: Path, total: int, rows: int, journal: Path, begun: Event | None = None) -> None:
    """A run that makes calibrations 0 to total-1, skips those that are there, and notes each one it finished.

    Large enough that most of the time is spent inside `put`; meant to be killed at any instant.
    """
    if begun is not None:
        begun.set()
    store = Store(path)
    for number in range(total):
        lineage, made = calibration(number, rows)
        if not store.has(lineage.key):
            store.put(lineage, made, 0.1)
            with journal.open("a") as notes:
                notes.write(f"{number}\n")


def write_same(path: Path, total: int, start: Barrier) -> None:
    """One of several writers that all want the same entries at the same time."""
    start.wait()
    store = Store(path)
    for number in range(total):
        store.put(*calibration(number, rows=2000), 0.1)
        store.get(calibration(number, rows=2000)[0].key)
