"""A calibration that was ordered: made, and kept as soon as it is done. This is what worker processes run."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from oblivec.calibration.base import Calibration, Calibrator
from oblivec.datasets.attributes import Attribute
from oblivec.store.lineage import Lineage
from oblivec.store.store import Store


@dataclass(frozen=True)
class Order:
    """One calibration to make. Arrays rather than tensors: workers then share one copy of the matrix."""

    calibrator: Calibrator
    values: np.ndarray
    """The user matrix, float32."""
    attribute: Attribute
    items: np.ndarray | None
    seed: int
    device: str
    store: Path | None
    """Where it is kept; None hands it back."""
    lineage: Lineage


def make(order: Order) -> Calibration | None:
    """The calibration, or None once it is in the store."""
    start = time.perf_counter()
    # Copies: what workers share cannot be written to, and torch wants to be able to.
    items = None if order.items is None else torch.from_numpy(np.array(order.items))
    made = order.calibrator.calibrate(
        torch.from_numpy(np.array(order.values)), order.attribute, items=items, seed=order.seed, device=order.device
    )
    if order.store is None:
        return made
    Store(order.store, create=False).put(order.lineage, made, time.perf_counter() - start)
    return None
