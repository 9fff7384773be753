"""What does the store cost? Fingerprint, write, and read with every bit checked, against the size of the matrix."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from oblivec.calibration.base import Calibration
from oblivec.console import show_table
from oblivec.randomness import torch_rng
from oblivec.store import Lineage, Store, matrix_hash

USERS = (6_040, 100_000, 1_000_000)
DIMENSIONS = 64
_REPEATS = 3


def run(quick: bool = False) -> dict[str, Any]:
    """Best of three, in seconds. `quick`: without the largest."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:  # on the disk in use; /tmp may be memory
        measured = [_measure(Path(folder) / str(users), users) for users in (USERS[:-1] if quick else USERS)]
    return {"dimensions": DIMENSIONS, "sizes": measured}


def show(result: dict[str, Any]) -> None:
    rows = [
        (f"{size['users']:,}", *(f"{size[step]:.2g}" for step in ("fingerprint", "write", "read")))
        for size in result["sizes"]
    ]
    title = f"Seconds for one calibration of {result['dimensions']} dimensions"
    show_table(title, ("users", "fingerprint", "write", "read and check"), rows)


def _measure(path: Path, users: int) -> dict[str, float]:
    matrix = torch.randn(users, DIMENSIONS, generator=torch_rng(0, "store-speed", users))
    store, made = Store(path), Calibration("a", "none", matrix)
    seconds: dict[str, list[float]] = {"fingerprint": [], "write": [], "read": []}
    for seed in range(_REPEATS):
        start = time.perf_counter()
        source = matrix_hash(matrix)
        hashed = time.perf_counter()
        lineage = Lineage(
            kind="calibration", method="none", configuration={}, seed=seed, user_matrix=source, labels={"a": ""}
        )
        key = store.put(lineage, made, 0)
        written = time.perf_counter()
        store.get(key)
        read = time.perf_counter()
        for step, took in zip(seconds, (hashed - start, written - hashed, read - written), strict=True):
            seconds[step].append(took)
    return {"users": users} | {step: min(times) for step, times in seconds.items()}
