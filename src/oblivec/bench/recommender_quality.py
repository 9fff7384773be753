"""Are the recommenders as good as the field expects? HR@10 and NDCG@10 next to EASE, most-popular and the paper.

    python -m oblivec.bench.recommender_quality --datasets ml-100k,ml-1m --seeds 3 --out quality.json

`--validation` holds the last *training* item out instead of the test item: settings are chosen there and nowhere else.
`--set lightgcn.batch_size=4096` overrules a setting, `--curve 10` adds the numbers after every tenth epoch.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from oblivec.console import say, show_table
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.datasets.registry import load as load_dataset
from oblivec.devices import resolve_device
from oblivec.errors import BadInput
from oblivec.experiments.base_models import held_out_split
from oblivec.files.atomic import write_json
from oblivec.metrics import rank_test_items
from oblivec.recommenders import RECOMMENDERS, Ease, MostPopular, Recommender, recommender

TARGETS = {
    "ml-100k": {"ncf": 0.9, "lightgcn": 0.9, "multvae": 0.9},
    "ml-1m": {"ncf": 0.75, "lightgcn": 0.83, "multvae": 0.84},
}
"""HR@10 as a share of EASE's on the same split, mean over the seeds."""

PAPER = {
    "ml-100k": {"ncf": (15.67, 8.37), "lightgcn": (16.07, 8.60), "multvae": (16.40, 8.63)},
    "ml-1m": {"ncf": (8.20, 4.10), "lightgcn": (9.10, 4.60), "multvae": (9.20, 4.40)},
}
"""HR@10 and NDCG@10 as printed, under a tie rule the paper does not state; shown beside, never compared."""


def run(
    quick: bool = False,
    *,
    datasets: Sequence[str] = ("ml-100k", "ml-1m"),
    models: Sequence[str] = tuple(RECOMMENDERS),
    seeds: int = 3,
    device: str = "auto",
    preset: str = "default",
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    validation: bool = False,
    curve: int = 0,
    root: Path | None = None,
    path: Path | None = None,
    out: Path | None = None,
) -> dict[str, Any]:
    """The table as plain data; written to `out` after every model, so that a cut run keeps what it has.

    `quick`: ML-100K, one seed, two epochs.
    """
    settings = dict(settings or {})
    if quick:
        datasets, seeds = ("ml-100k",), 1
        settings = {name: {"epochs": 2} | dict(settings.get(name, {})) for name in models}
    place = resolve_device(device)
    result: dict[str, Any] = {
        "held_out": "last training item" if validation else "test item", "preset": preset, "device": place.type,
        "seeds": seeds, "torch": torch.__version__, "datasets": {},
    }
    for name in datasets:
        split = held_out_split(load_dataset(name, root=root, path=path), validation)
        found = result["datasets"][name] = {"tie_rule": split.tie_rule, "yardsticks": _yardsticks(split), "models": {}}
        for model in models:
            rows = [
                _train_once(recommender(model, preset, **settings.get(model, {})), split, seed, place, curve)
                for seed in range(seeds)
            ]
            found["models"][model] = _summary(name, model, rows, found["yardsticks"]["ease"]["hr@10"])
            say(f"{name} {model}: {json.dumps(found['models'][model]['mean'])}")
            if out is not None:
                write_json(out, result)
    return result


def _yardsticks(split: LeaveOneOut) -> dict[str, dict[str, float]]:
    return {kind.name: rank_test_items(kind.fit(split).scores, split).summary() for kind in (Ease(), MostPopular())}


def _train_once(
    model: Recommender, split: LeaveOneOut, seed: int, device: torch.device, curve: int
) -> dict[str, Any]:
    steps: list[dict[str, float]] = []

    def watch(epoch: int, current: Recommender) -> None:
        if epoch % curve == 0:
            steps.append({"epoch": epoch} | rank_test_items(current.scores, split, device=device).summary())
            say(f"  {model.name} seed {seed} {json.dumps(steps[-1])}")

    start = time.perf_counter()
    model.fit(split, seed=seed, device=device, watch=watch if curve else None)
    seconds = time.perf_counter() - start
    quality = rank_test_items(model.scores, split, device=device).summary()
    row: dict[str, Any] = {"seed": seed, "seconds": round(seconds, 2), "loss": model.losses[-1]} | quality
    row["settings"] = model.config.model_dump(mode="json")
    return row | ({"curve": steps} if curve else {})


def _summary(dataset: str, model: str, rows: list[dict[str, Any]], ease: float) -> dict[str, Any]:
    mean = {key: float(np.mean([row[key] for row in rows])) for key in ("hr@10", "ndcg@10", "seconds")}
    target = TARGETS.get(dataset, {}).get(model)
    ratio = mean["hr@10"] / ease
    paper = PAPER.get(dataset, {}).get(model)
    return {
        "mean": mean | {"of_ease": ratio}, "target_of_ease": target,
        "reached": None if target is None else bool(ratio >= target),
        "paper": None if paper is None else {"hr@10": paper[0], "ndcg@10": paper[1]}, "runs": rows,
    }


def show(result: Mapping[str, Any]) -> None:
    """The table a person reads."""
    for name, found in result["datasets"].items():
        rows: list[list[object]] = [
            [yardstick, f"{row['hr@10']:.2f}", f"{row['ndcg@10']:.2f}", "", "", "", "", ""]
            for yardstick, row in found["yardsticks"].items()
        ]
        for model, row in found["models"].items():
            mean, paper = row["mean"], row["paper"]
            spread = np.std([run["hr@10"] for run in row["runs"]])
            rows.append([
                model, f"{mean['hr@10']:.2f} ± {spread:.2f}", f"{mean['ndcg@10']:.2f}", f"{mean['of_ease']:.3f}",
                row["target_of_ease"] or "", {True: "yes", False: "NO", None: ""}[row["reached"]],
                f"{paper['hr@10']:.2f}" if paper else "", f"{mean['seconds']:.0f}",
            ])
        columns = ["model", "HR@10", "NDCG@10", "of EASE", "target", "reached", "paper's HR@10", "seconds"]
        show_table(f"{name}, {result['held_out']} held out, {result['seeds']} seeds", columns, rows)


def parse_settings(pairs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """`["ncf.epochs=5"]` to `{"ncf": {"epochs": 5}}`; values are JSON, else text."""
    settings: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        model, dot, setting = name.partition(".")
        if not (equals and dot and model in RECOMMENDERS):
            raise BadInput(f"--set {pair}: write MODEL.SETTING=VALUE with a model of {', '.join(RECOMMENDERS)}")
        try:
            settings.setdefault(model, {})[setting] = json.loads(value)
        except ValueError:
            settings.setdefault(model, {})[setting] = value
    return settings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default="ml-100k,ml-1m", help="names, with commas")
    parser.add_argument("--models", default=",".join(RECOMMENDERS), help="names, with commas")
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0 to this minus one")
    parser.add_argument("--preset", default="default", choices=["default", "paper"])
    parser.add_argument("--set", action="append", default=[], metavar="MODEL.SETTING=VALUE", dest="pairs")
    parser.add_argument("--validation", action="store_true", help="hold out the last training item, for choosing")
    parser.add_argument("--curve", type=int, default=0, metavar="N", help="also measure after every N-th epoch")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--root", type=Path, help="cache of fetched data sets")
    parser.add_argument("--path", type=Path, help="local copy of the data set (with a single --datasets name)")
    parser.add_argument("--out", type=Path, help="JSON file")
    parser.add_argument("--quick", action="store_true", help="ML-100K, one seed, two epochs")
    given = vars(parser.parse_args())
    given["settings"] = parse_settings(given.pop("pairs"))
    for name in ("datasets", "models"):
        given[name] = [part for part in given[name].split(",") if part]
    show(run(given.pop("quick"), **given))


if __name__ == "__main__":
    main()
