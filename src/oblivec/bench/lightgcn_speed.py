"""How long do an epoch of LightGCN and a full-catalogue evaluation take, next to RecBole's?

    python -m oblivec.bench.lightgcn_speed --out benchmarks/results/lightgcn-speed.json

Both train on the same split of ML-1M with the same batch size, dimension, layers, loss and one uniform negative per
pair, on two threads and the same version of torch. Each is a process of its own that waits while the other works; they
take turns, and what counts is the median of the ratios, so that a busy machine slows both. Waiting threads sleep
instead of spinning (OMP_WAIT_POLICY), in both.

RecBole's evaluation is timed with as many users per batch as fit, which is several times faster than its default; the
default is timed as well. Our evaluation of RecBole's embeddings must give RecBole's numbers.

RecBole is installed from the package index into an environment of its own, kept in the cache of the data sets.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import save_npz

from oblivec.bench import lightgcn_workers
from oblivec.console import say, show_table
from oblivec.datasets.fetch import cache_root
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.datasets.registry import load as load_dataset
from oblivec.errors import OblivecError
from oblivec.files.atomic import write_json
from oblivec.machine import describe_machine

RECBOLE = "recbole==1.2.1"
THREADS = 2
EVALUATIONS = 5
"""Per round: an evaluation is short."""
TARGET_RATIO = 3.0
TARGET_GROWTH_MB = 1024
SHARED = {"dimensions": 32, "layers": 3, "batch_size": 2048, "negatives": 1, "learning_rate": 1e-3, "l2": 1e-4}

Pair = tuple[dict[str, Any], dict[str, Any]]
"""The answers of ours and of theirs to the same request."""
Round = dict[str, list[Pair]]


def run(
    quick: bool = False, *, rounds: int = 3, root: Path | None = None, path: Path | None = None
) -> dict[str, Any]:
    """Times, ratios and targets as plain data. `quick`: the small synthetic data set, one round."""
    name, rounds = ("synthetic", 1) if quick else ("ml-1m", rounds)
    split = load_dataset(name, root=root, path=path).split()
    python = recbole_environment(cache_root(root) / "environments" / RECBOLE.replace("==", "-"))
    with tempfile.TemporaryDirectory() as folder:
        write_split(split, Path(folder))
        with worker("Oblivec", Path(folder)) as ours, worker("RecBole", Path(folder), python) as theirs:
            first = ours.ask("evaluate"), theirs.ask("evaluate")  # pays for what is set up on demand: not timed
            taken = [_round(ours, theirs) for _ in range(rounds)]
            theirs.ask("write_matrices")
            agreement = {"recbole": theirs.ask("evaluate"), "oblivec": ours.ask("evaluate_matrices")}
    return {
        "dataset": name, "users": split.n_users, "items": split.n_items, "interactions": int(split.train.nnz),
        "settings": SHARED | {"threads": THREADS, "omp_wait_policy": "passive"},
        "recbole": {"requirement": RECBOLE} | theirs.versions,
        "rounds": rounds, **_summary(taken, first),
        "recbole_embeddings_evaluated_by": {who: _quality(answer) for who, answer in agreement.items()},
        "machine": describe_machine(),
    }


def recbole_environment(folder: Path) -> Path:
    """The Python of an environment with RecBole in it; made on first use."""
    python, ready = folder / "bin" / "python", folder / "ready"
    if ready.exists():
        return python
    say(f"Installing {RECBOLE} into {folder}")
    torch_first = f"torch=={torch.__version__.partition('+')[0]}"  # the version that ours runs on
    steps = [[sys.executable, "-m", "venv", "--clear", str(folder)]] + [
        [str(python), "-m", "pip", "install", "--quiet", "--no-input", requirement]
        for requirement in (torch_first, RECBOLE)
    ]
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise OblivecError(f"RecBole's environment could not be made in {folder}: {last}")
    ready.touch()
    return python


def write_split(split: LeaveOneOut, folder: Path) -> None:
    """The split and the settings where both workers find them."""
    save_npz(folder / "train.npz", split.train)
    np.save(folder / "test_items.npy", split.test_items)
    users, items = split.train.nonzero()
    tested = split.tested_users
    (folder / "data").mkdir()
    parts = {"train": (users, items)} | dict.fromkeys(("valid", "test"), (tested, split.test_items[tested]))
    for part, pairs in parts.items():
        np.savetxt(
            folder / "data" / f"data.{part}.inter", np.stack(pairs, axis=1), fmt="%d", delimiter="\t",
            header="user_id:token\titem_id:token", comments="",
        )
    recbole = {
        "data_path": str(folder), "checkpoint_dir": str(folder / "saved"), "benchmark_filename": list(parts),
        "load_col": {"inter": ["user_id", "item_id"]}, "USER_ID_FIELD": "user_id", "ITEM_ID_FIELD": "item_id",
        "embedding_size": SHARED["dimensions"], "n_layers": SHARED["layers"], "learning_rate": SHARED["learning_rate"],
        "train_batch_size": SHARED["batch_size"], "reg_weight": SHARED["l2"], "require_pow": True,
        "train_neg_sample_args": {"distribution": "uniform", "sample_num": SHARED["negatives"], "dynamic": False},
        "eval_batch_size": 4096 * split.n_items, "metrics": ["Hit", "NDCG"], "topk": [10], "valid_metric": "NDCG@10",
        "metric_decimal_place": 8, "use_gpu": False, "show_progress": False, "state": "ERROR", "seed": 0,
    }
    own = {name: SHARED[name] for name in ("dimensions", "layers", "batch_size", "learning_rate", "l2")}
    own |= {"candidates": SHARED["negatives"], "steps_per_epoch": 1}  # a batch is never made smaller
    own["initial_std"] = (2 / (split.n_users + SHARED["dimensions"])) ** 0.5  # as RecBole starts
    settings = {"threads": THREADS, "tie_rule": split.tie_rule, "oblivec": own, "recbole": recbole}
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")


class Worker:
    """A process that does one thing at a time on request."""

    def __init__(self, process: subprocess.Popen[str], name: str):
        self._process, self._name = process, name
        self.versions = self._answer()

    def ask(self, request: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise OblivecError(f"the {self._name} process of the benchmark died; what it said stands above")
        return json.loads(line)


@contextmanager
def worker(name: str, folder: Path, python: Path | None = None) -> Iterator[Worker]:
    """Start a worker of `lightgcn_workers`, and end it."""
    command = [str(python or sys.executable), lightgcn_workers.__file__, name, str(folder)]
    surroundings = os.environ | {"OMP_NUM_THREADS": str(THREADS), "OMP_WAIT_POLICY": "PASSIVE", "PYTHONSAFEPATH": "1"}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=surroundings
    )
    try:
        yield Worker(process, name)
    finally:
        process.kill()
        process.communicate()


def _round(ours: Worker, theirs: Worker) -> Round:
    """One epoch and some evaluations each, taking turns."""
    taken: Round = {"epoch": [(ours.ask("epoch"), theirs.ask("epoch"))], "evaluation": [], "evaluation_by_default": []}
    for _ in range(EVALUATIONS):
        taken["evaluation"].append((ours.ask("evaluate"), theirs.ask("evaluate")))
        taken["evaluation_by_default"].append((ours.ask("evaluate"), theirs.ask("evaluate_by_default")))
    say(f"epoch: {taken['epoch'][0][0]['seconds']:.1f} s, RecBole {taken['epoch'][0][1]['seconds']:.1f} s")
    return taken


def _summary(rounds: list[Round], first: Pair) -> dict[str, Any]:
    """Medians over all repeats. Memory is that of the first evaluation: later ones reuse what it took."""
    found: dict[str, Any] = {}
    for part in rounds[0]:
        pairs = [pair for taken in rounds for pair in taken[part]]
        found[part] = {"repeats": len(pairs)}
        for unit in ("seconds", "cpu_seconds"):
            times = np.array([[one[unit] for one in pair] for pair in pairs])
            ours, theirs = (round(float(median), 4) for median in np.median(times, axis=0))
            ratio = round(float(np.median(times[:, 1] / times[:, 0])), 2)
            found[part][unit] = {"oblivec": ours, "recbole": theirs, "ratio": ratio}
    found["evaluation"]["peak_memory_growth_mb"] = {"oblivec": first[0]["growth_mb"], "recbole": first[1]["growth_mb"]}
    ours, theirs = rounds[-1]["evaluation"][-1]
    found["quality_after_the_last_epoch"] = {"oblivec": _quality(ours), "recbole": _quality(theirs)}
    found["targets"] = {"ratio": TARGET_RATIO, "evaluation_growth_mb": TARGET_GROWTH_MB}
    found["reached"] = bool(
        min(found[part]["seconds"]["ratio"] for part in ("epoch", "evaluation")) >= TARGET_RATIO
        and (first[0]["growth_mb"] or 0) < TARGET_GROWTH_MB
    )
    return found


def _quality(answer: dict[str, Any]) -> dict[str, float]:
    return {key: round(answer[key], 4) for key in ("hr@10", "ndcg@10")}


def show(result: dict[str, Any]) -> None:
    """The table a person reads."""
    rows = []
    for part in ("epoch", "evaluation", "evaluation_by_default"):
        row = result[part]
        for unit in ("seconds", "cpu_seconds"):
            times = row[unit]
            label = f"{part.replace('_', ' ')}, {unit.replace('_', ' ')}"
            rows.append([label, f"{times['oblivec']:.3f}", f"{times['recbole']:.3f}", f"{times['ratio']:.1f}"])
    columns = ["median", "Oblivec", "RecBole", "times faster"]
    grown = result["evaluation"]["peak_memory_growth_mb"]["oblivec"]
    caption = (
        f"Our evaluation grows by {grown} MB at its peak. "
        f"Targets (at least {TARGET_RATIO:g} times, under 1 GB): {'reached' if result['reached'] else 'MISSED'}."
    )
    show_table(f"LightGCN on {result['dataset']}, {THREADS} threads", columns, rows, caption)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="an epoch each per round")
    parser.add_argument("--root", type=Path, help="cache of fetched data sets and of RecBole's environment")
    parser.add_argument("--path", type=Path, help="local copy of ML-1M")
    parser.add_argument("--out", type=Path, help="JSON file")
    parser.add_argument("--quick", action="store_true", help="the small synthetic data set, one round")
    given = parser.parse_args()
    result = run(given.quick, rounds=given.rounds, root=given.root, path=given.path)
    show(result)
    if given.out:
        write_json(given.out, result)


if __name__ == "__main__":
    main()
