"""Does a data set of KuaiSAR's size fit? One epoch and an evaluation of every model, time and peak memory of each.

    python -m oblivec.bench.kuaisar_scale --out benchmarks/results/kuaisar-scale.json

The data are made up (`datasets.synthetic.large`: 25,473 users, 284,996 items, 4.6 million interactions), so only time
and memory mean anything. Every model runs in a process of its own, whose peak resident memory counts: interpreter,
data, training and evaluation together. Losses are exact; no item is sampled away from MultVAE's softmax.

Everybody is evaluated on the full catalogue where that takes at most four minutes, else as many random users as fit.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix, load_npz, save_npz

from oblivec.console import say, show_table
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.datasets.synthetic import large
from oblivec.errors import OblivecError
from oblivec.files.atomic import write_json
from oblivec.machine import describe_machine
from oblivec.metrics import Ranking, rank_test_items
from oblivec.randomness import numpy_rng
from oblivec.recommenders import RECOMMENDERS, Recommender, recommender

SETTINGS: dict[str, dict[str, Any]] = {
    # Adam passes over every row of every table at each step: few large batches.
    "ncf": {"batch_size": 65_536}, "lightgcn": {"batch_size": 65_536, "steps_per_epoch": 1},
    # 256 users are 300 MB of logits, held about four times over during a step.
    "multvae": {"batch_size": 256, "steps_per_epoch": 1},
}
TARGET_GB = 10.0
EVALUATION_SECONDS = 240
_PROBED_USERS = 128
_QUICK = {"users": 300, "items": 2000, "interactions": 9000}


def run(
    quick: bool = False, *, models: Sequence[str] = tuple(RECOMMENDERS), threads: int | None = None
) -> dict[str, Any]:
    """Seconds, peak memory and the target as plain data. `quick`: 300 users and 2,000 items."""
    began = time.perf_counter()
    dataset = large(**_QUICK) if quick else large()
    split = dataset.split()
    seconds = time.perf_counter() - began
    threads = threads or torch.get_num_threads()
    result: dict[str, Any] = {
        "users": split.n_users, "items": split.n_items, "interactions": len(dataset.interactions),
        "data": {"seconds": round(seconds, 1), "peak_gb": round(peak_gb(), 2)}, "threads": threads, "models": {},
    }
    del dataset
    with tempfile.TemporaryDirectory() as folder:
        save_npz(Path(folder) / "train.npz", split.train)
        np.save(Path(folder) / "test_items.npy", split.test_items)
        for model in models:
            result["models"][model] = row = _in_a_process_of_its_own(model, Path(folder), threads)
            say(f"{model}: {json.dumps(row)}")
    peaks = [row["peak_gb"] for row in result["models"].values()]
    return result | {
        "target_gb": TARGET_GB, "reached": max(peaks) < TARGET_GB, "machine": describe_machine(),
    }


def peak_gb() -> float:
    """The most resident memory this process ever had."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def measure(model: Recommender, split: LeaveOneOut) -> dict[str, Any]:
    """Train one epoch, evaluate, in this process."""
    began = time.perf_counter()
    model.fit(split, device="cpu")
    trained = time.perf_counter()
    after_training = peak_gb()
    ranking, full_seconds = evaluate(model, split, EVALUATION_SECONDS)
    return {
        "epoch_seconds": round(trained - began, 1),
        "evaluation_seconds": round(time.perf_counter() - trained, 1),
        "evaluated_users": len(ranking.ranks), "all_users_would_take_seconds": round(full_seconds, 1),
        "peak_gb_after_training": round(after_training, 2), "peak_gb": round(peak_gb(), 2),
        "loss": round(model.losses[-1], 4), "hr@10": round(ranking.hit_ratio(), 3),
        "settings": model.config.model_dump(mode="json"),
    }


def evaluate(model: Recommender, split: LeaveOneOut, budget_seconds: float) -> tuple[Ranking, float]:
    """The ranks of all tested users, or of as many random ones as the budget allows; and what all would take."""
    order = numpy_rng(0, "kuaisar-scale", "users").permutation(split.tested_users)
    began = time.perf_counter()
    probe = rank_test_items(model.scores, _only(split, order[:_PROBED_USERS]))
    full_seconds = (time.perf_counter() - began) * len(order) / max(len(probe.ranks), 1)
    if len(order) <= _PROBED_USERS:
        return probe, full_seconds
    share = min(1.0, budget_seconds / full_seconds)
    began = time.perf_counter()
    ranking = rank_test_items(model.scores, _only(split, order[: max(1, int(share * len(order)))]))
    return ranking, (time.perf_counter() - began) * len(order) / len(ranking.ranks)


def _only(split: LeaveOneOut, users: np.ndarray) -> LeaveOneOut:
    test_items = np.full_like(split.test_items, -1)
    test_items[users] = split.test_items[users]
    return dataclasses.replace(split, test_items=test_items)


def _in_a_process_of_its_own(model: str, folder: Path, threads: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "oblivec.bench.kuaisar_scale", "--only", model, str(folder)]
    command += ["--threads", str(threads)]
    surroundings = os.environ | {"OMP_WAIT_POLICY": "PASSIVE"}  # threads that wait leave a shared machine to others
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=surroundings)
    if done.returncode:
        raise OblivecError(f"{model}: the process of the benchmark ended with {done.returncode}; see above")
    return json.loads(done.stdout)


def _measure_in(name: str, folder: Path) -> dict[str, Any]:
    split = LeaveOneOut(csr_matrix(load_npz(folder / "train.npz")), np.load(folder / "test_items.npy"), "file-order")
    return measure(recommender(name, epochs=1, **SETTINGS[name]), split)


def show(result: dict[str, Any]) -> None:
    """The table a person reads."""
    rows = [
        [name, f"{row['epoch_seconds']:.0f}", f"{row['evaluation_seconds']:.0f}", f"{row['evaluated_users']:,}",
         f"{row['peak_gb']:.1f}"]
        for name, row in result["models"].items()
    ]
    caption = f"target (under {TARGET_GB:g} GB): {'reached' if result['reached'] else 'MISSED'}"
    columns = ["model", "epoch, seconds", "evaluation, seconds", "users evaluated", "peak, GB"]
    title = f"{result['users']:,} users, {result['items']:,} items, {result['interactions']:,} interactions"
    show_table(title, columns, rows, caption)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(RECOMMENDERS), help="names, with commas")
    parser.add_argument("--threads", type=int, help="threads of each process [default: all cores]")
    parser.add_argument("--out", type=Path, help="JSON file")
    parser.add_argument("--quick", action="store_true", help="300 users and 2,000 items")
    parser.add_argument("--only", nargs=2, metavar=("MODEL", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    if given.only:
        sys.stdout.write(json.dumps(_measure_in(given.only[0], Path(given.only[1]))))
        return
    result = run(given.quick, models=given.models.split(","), threads=given.threads)
    show(result)
    if given.out:
        write_json(given.out, result)


if __name__ == "__main__":
    main()
