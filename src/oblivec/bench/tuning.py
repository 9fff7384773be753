"""Which settings do the compared methods need? The grid search of `oblivec.experiments.tuning`, never on the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oblivec.console import show_table
from oblivec.experiments import tuning
from oblivec.experiments.base_models import BaseModels, models_root
from oblivec.experiments.cells import finish_cells, machines_of
from oblivec.experiments.setup import QUICK_TRAINING, Setup
from oblivec.experiments.tuning_choice import choose
from oblivec.experiments.tuning_grids import GRIDS, QUICK_GRIDS


def run(
    quick: bool = False,
    *,
    cells: Sequence[str] = (),
    resume: Path | None = None,
    enough_seconds: float = float("inf"),
    models_folder: Path | None = None,
    root: Path | None = None,
    path: Path | None = None,
    device: str = "auto",
    jobs: int | None = None,
) -> dict[str, Any]:
    """What each grid chose. `quick`: ML-100K, LightGCN of a few epochs, two points a grid. `path`: KuaiRand-Pure."""
    folder, training = models_root(models_folder, root), {}
    datasets = ("ml-100k", "ml-1m", *(["kuairand-pure"] if path else []))
    chosen: dict[str, Any] = {"datasets": datasets}
    if quick:
        folder, training = folder / "quick", QUICK_TRAINING
        chosen = {"datasets": ("ml-100k",), "models": ("lightgcn",), "quick": True}
    setup = Setup(BaseModels(folder, training, device, root, path, validation=True), seeds=1, **chosen)
    everything = tuning.cells(setup)
    finished = finish_cells(
        everything, patterns=cells, resume=resume, enough_seconds=enough_seconds, jobs=jobs,
        prepare=lambda some: setup.base.train_missing([cell.base for cell in some if cell.base], jobs),
    )
    command = f"oblivec bench tuning{' --quick' * quick}"
    return {
        "grids": QUICK_GRIDS if quick else GRIDS, "chosen": choose(everything, finished.found, command),
        "machines": machines_of(finished.found), "missing": finished.missing, "failed": finished.failed,
    }


def show(result: Mapping[str, Any]) -> None:
    rows = []
    for dataset, by_model in result["chosen"].items():
        for model, by_method in by_model.items():
            for method, entry in by_method.items():
                for point, one in entry["tried"].items():
                    distance = f"{one['distance']:.1f}" if "distance" in one else "-"
                    rows.append((dataset, model, method, point.replace("+", "\n"), distance,
                                 f"{one['hr@10_lost']:.1f}", f"{one['ndcg@10_lost']:.1f}",
                                 "chosen" if entry.get("chosen") == point else ""))
    columns = ("data", "model", "method", "settings", "points from chance", "HR@10 lost, %", "NDCG@10 lost, %", "")
    caption = f"on validation items and users; {len(result['missing'])} points missing"
    show_table("Grid search", columns, rows, caption)
