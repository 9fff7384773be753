"""Small files to unlearn from: users whose vectors give away `group`, in every format, with items and interactions."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oblivec.cli.app import run
from oblivec.randomness import numpy_rng

N, D, ITEMS = 120, 4, 30
SECRETS = ("zqlabel", "zquser")
"""In every label and in every id of these files."""
QUICK = (
    "--method", "paper-tuned", "--set", "steps=2", "--set", "q.steps=1", "--set", "combination.steps=1", "--attacker",
    "linear", "--jobs", "1", "--device", "cpu",
)
"""A method that moves users a little and an attacker that is quick: here only what is made of them matters."""


def user(row: int) -> str:
    return f"zquser{row}"


def vectors() -> np.ndarray:
    U = numpy_rng(0, "unlearn files").standard_normal((N, D)).astype(np.float32)
    U[:, 0] += 3 * (np.arange(N) % 2)
    return U


def item_vectors() -> np.ndarray:
    return numpy_rng(1, "unlearn files").standard_normal((ITEMS, D)).astype(np.float32)


@dataclass(frozen=True)
class Files:
    """A folder with users.csv (ids), users.npy (none), attributes.csv, items.npy and interactions.csv."""

    folder: Path

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def write(self, name: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> Path:
        with (self / name).open("w", newline="") as file:
            csv.writer(file).writerows([header, *rows])
        return self / name

    def unlearn(self, *options: str | Path, matrix: str = "users.csv", protect: str = "group", out: str = "") -> int:
        out = out or f"release{Path(matrix).suffix}"
        return run(["unlearn", str(self / matrix), "--attributes", str(self / "attributes.csv"), "--protect", protect,
                    "--out", str(self / out), *QUICK, *map(str, options)])

    def json(self, *options: str | Path, **changes: Any) -> dict[str, Any]:
        assert self.unlearn("--json", self / "result.json", "--quiet", *options, **changes) == 0
        return json.loads((self / "result.json").read_text())


def write_files(folder: Path) -> Files:
    files, U = Files(folder), vectors()
    files.write("users.csv", ("user_id", *(f"d{k}" for k in range(D))),
                [(user(row), *map(float, vector)) for row, vector in enumerate(U)])
    np.save(files / "users.npy", U)
    np.save(files / "items.npy", item_vectors())
    rng = numpy_rng(2, "unlearn files")
    coin, money = rng.integers(2, size=N), U[:, 1] + rng.standard_normal(N)
    files.write("attributes.csv", ("user_id", "group", "coin", "money", "constant"), [
        (user(row), "" if row % 10 == 0 else f"zqlabel{row % 2}", f"zqlabel{coin[row]}", float(money[row]), "zqlabel")
        for row in range(N)
    ])
    liked = np.argsort(-(U @ item_vectors().T), axis=1)[:, :6]
    files.write("interactions.csv", ("user_id", "item_id"), [
        (user(row), int(item)) for row in range(N) for item in rng.permutation(liked[row])
    ])
    return files
