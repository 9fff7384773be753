"""LightGCN on request, ours or RecBole's: the two processes that `lightgcn_speed` compares.

    python lightgcn_workers.py {Oblivec,RecBole} FOLDER

FOLDER holds `settings.json` and the split, in both formats. Each line of standard input is a request, a method of the
worker; each is answered with one line of JSON: what was found, the seconds, and by how much memory grew at its peak.
RecBole's process runs in an environment of its own, where Oblivec is not installed.

RecBole 1.2.1 was published for numpy 1 and the scipy of its time. What it misses is given back to it here; nothing
that is timed is touched:

- numpy 2 dropped `float_`, `complex_` and `unicode_`, which its configuration asks for;
- scipy 1.13 dropped `dok_matrix._update`, with which it fills the adjacency matrix.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import torch


class Oblivec:
    def __init__(self, folder: Path, settings: dict[str, Any]):
        from oblivec.datasets.interactions import LeaveOneOut
        from oblivec.metrics import rank_test_items
        from oblivec.recommenders import recommender

        train = scipy.sparse.csr_matrix(scipy.sparse.load_npz(folder / "train.npz"))
        self.folder = folder
        self.split = LeaveOneOut(train, np.load(folder / "test_items.npy"), settings["tie_rule"])
        self.model = recommender("lightgcn", **settings["oblivec"])
        self.trainer = self.model._trainer(self.split, 0, torch.device("cpu"))
        self.rank = rank_test_items

    def epoch(self) -> dict[str, Any]:
        return {"loss": self.trainer.epoch()}

    def evaluate(self) -> dict[str, Any]:
        """Propagation included."""
        self.model.tensors = self.trainer.tensors()
        return self.rank(self.model.scores, self.split).summary()

    def evaluate_matrices(self) -> dict[str, Any]:
        """Our evaluation of the embeddings RecBole wrote down: must be what RecBole found."""
        self.model.tensors = {
            name: torch.from_numpy(np.load(self.folder / f"{name}.npy")) for name in ("users", "items")
        }
        return self.rank(self.model.scores, self.split).summary()


class RecBole:
    def __init__(self, folder: Path, settings: dict[str, Any]):
        give_back_what_was_dropped()
        logging.disable(logging.CRITICAL)
        from recbole.config import Config  # type: ignore[import-not-found]
        from recbole.data import create_dataset, data_preparation  # type: ignore[import-not-found]
        from recbole.model.general_recommender.lightgcn import LightGCN  # type: ignore[import-not-found]
        from recbole.trainer import Trainer  # type: ignore[import-not-found]
        from recbole.utils import init_seed  # type: ignore[import-not-found]

        os.chdir(folder)  # RecBole writes its logs where it stands
        self.folder = folder
        config = Config(model="LightGCN", dataset="data", config_dict=settings["recbole"])
        init_seed(config["seed"], True)
        self.dataset = create_dataset(config)
        # The second part is evaluated: when testing on the third, RecBole takes the items of the second for seen.
        self.train, self.test, _ = data_preparation(config, self.dataset)
        default = Config("LightGCN", "data", config_dict=settings["recbole"] | {"eval_batch_size": 4096})
        self.test_by_default = type(self.test)(default, self.test._dataset, self.test._sampler)
        self.model = LightGCN(config, self.train._dataset)
        self.trainer = Trainer(config, self.model)
        self.trainer.eval_collector.data_collect(self.train)
        self.epochs = 0

    def epoch(self) -> dict[str, Any]:
        loss = self.trainer._train_epoch(self.train, self.epochs)
        self.epochs += 1
        return {"loss": loss / len(self.train)}

    def evaluate(self) -> dict[str, Any]:
        """As many users at a time as RecBole is fastest with. Propagation included."""
        return self._evaluate(self.test)

    def evaluate_by_default(self) -> dict[str, Any]:
        """With RecBole's own evaluation batch: on a catalogue of more than 2048 items, one user at a time."""
        return self._evaluate(self.test_by_default)

    def _evaluate(self, test: Any) -> dict[str, Any]:
        self.model.restore_user_e = self.model.restore_item_e = None  # as after an epoch
        found = self.trainer.evaluate(test, load_best_model=False)
        return {"hr@10": 100 * float(found["hit@10"]), "ndcg@10": 100 * float(found["ndcg@10"])}

    def write_matrices(self) -> dict[str, Any]:
        """The final embeddings, rows in the order of our numbers; of a catalogue in which nothing is untouched."""
        with torch.no_grad():
            tables = dict(zip(("user", "item"), self.model.forward(), strict=True))
        for name, table in tables.items():
            numbers = self.dataset.field2id_token[f"{name}_id"][1:].astype(np.int64)  # its number 0 is padding
            rows = np.empty((len(numbers), table.shape[1]), dtype=np.float32)
            rows[numbers] = table[1:].numpy()
            np.save(self.folder / f"{name}s.npy", rows)
        return {}


def give_back_what_was_dropped() -> None:
    for name, kind in {"float_": np.float64, "complex_": np.complex128, "unicode_": np.str_}.items():
        if not hasattr(np, name):
            setattr(np, name, kind)
    if not hasattr(scipy.sparse.dok_matrix, "_update"):
        scipy.sparse.dok_matrix._update = lambda self, cells: self._dict.update(cells)  # type: ignore[attr-defined]


class PeakMemory:
    """By how much this process grew at its peak since `start`; None where the system cannot say (not Linux)."""

    def start(self) -> None:
        try:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak becomes the present
            self.before = _status_mb("VmRSS")
        except OSError:
            self.before = None

    def growth_mb(self) -> float | None:
        return None if self.before is None else round(_status_mb("VmHWM") - self.before, 1)


def _status_mb(field: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints is no answer
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[2]).absolute()
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    torch.set_num_threads(settings["threads"])
    worker = {"Oblivec": Oblivec, "RecBole": RecBole}[sys.argv[1]](folder, settings)
    versions = {"torch": torch.__version__, "numpy": np.__version__, "scipy": scipy.__version__}
    print(json.dumps(versions), file=answers, flush=True)
    memory = PeakMemory()
    for line in sys.stdin:
        memory.start()
        began, began_cpu = time.perf_counter(), time.process_time()
        answer = getattr(worker, line.strip())()
        answer |= {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - began_cpu}
        print(json.dumps(answer | {"growth_mb": memory.growth_mb()}), file=answers, flush=True)


if __name__ == "__main__":
    main()
