"""Run an experiment: measure what is missing, keep every finished cell, write the JSON and the figure, print the table.

In `out` lie

    cells.jsonl            every finished cell, of all experiments run into this folder
    NAME.json              the summary, with the command, the machines, the settings and what is still missing
    NAME-cells.jsonl       the record: the same lines for the cells behind it, without anything about a single user
    NAME.svg, NAME.pdf     the figure

A later run goes on from the cells and from the records: where only a record came along, nothing is measured again. What
the present code has not measured yet is shown as earlier code measured it; the record says of every line by which code,
and `earlier` in the JSON names these cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oblivec.console import say
from oblivec.errors import BadInput
from oblivec.experiments.base_models import BaseModels, models_root
from oblivec.experiments.cells import Cell, Finished, finish_cells, machines_of
from oblivec.experiments.kept import Kept, code_digest, kept_line
from oblivec.experiments.registry import experiment
from oblivec.experiments.setup import ATTRIBUTES, QUICK_ATTACKERS, QUICK_TRAINING, Setup
from oblivec.experiments.tuned import tuned
from oblivec.files.atomic import write_json, write_text
from oblivec.machine import describe_machine
from oblivec.recommenders import RECOMMENDERS

KEPT, RECORD = "cells.jsonl", "-cells.jsonl"
FIGURES = (".svg", ".pdf")
SEEDS = 5
QUICK_DATASETS, QUICK_MODELS = ("ml-100k",), ("lightgcn",)


@dataclass(frozen=True)
class Options:
    """What a run may be told. What is left out is the experiment's own choice."""

    datasets: Sequence[str] = ()
    models: Sequence[str] = ()
    seeds: int | None = None
    """Pairs of base and method seed, 0 and up."""
    quick: bool = False
    """One seed, ML-100K, LightGCN of a few epochs, few attackers: shows that it runs."""
    cells: Sequence[str] = ()
    """Patterns of the names of the cells to run."""
    minutes: float | None = None
    jobs: int | None = None
    device: str = "auto"
    root: Path | None = None
    path: Path | None = None
    models_folder: Path | None = None

    def command(self, name: str) -> str:
        """What to type; paths differ from machine to machine and stand as PATH."""
        given = {
            "dataset": ",".join(self.datasets), "model": ",".join(self.models), "seeds": self.seeds,
            "cells": ",".join(self.cells), "minutes": self.minutes, "path": self.path and "PATH",
        }
        words = [f"--{option} {value}" for option, value in given.items() if value]
        return " ".join(["oblivec reproduce", name, *words, *(["--quick"] if self.quick else [])])


def setup_for(name: str, options: Options) -> Setup:
    """What the cells of this experiment share."""
    module, folder = experiment(name), models_root(options.models_folder, options.root)
    datasets = tuple(options.datasets) or (QUICK_DATASETS if options.quick else getattr(module, "DATASETS", ()))
    models = tuple(options.models) or (QUICK_MODELS if options.quick else getattr(module, "MODELS", ()))
    for option, given, known in (("--dataset", datasets, ATTRIBUTES), ("--model", models, RECOMMENDERS)):
        for one in given:
            if one not in known:
                raise BadInput(f"{option} {one}: not known to the experiments; use {', '.join(known)}")
    chosen: dict[str, Any] = {"seeds": options.seeds or (1 if options.quick else SEEDS)}
    chosen |= ({"datasets": datasets} if datasets else {}) | ({"models": models} if models else {})
    if options.quick:
        base = BaseModels(folder / "quick", QUICK_TRAINING, options.device, options.root, options.path)
        return Setup(base, quick=True, attackers=QUICK_ATTACKERS, outside=(), refit_epochs=1, **chosen)
    base = BaseModels(folder, {}, options.device, options.root, options.path)
    return Setup(base, tuned=tuned(), **chosen)


def run_experiment(name: str, out: Path, options: Options) -> Finished:
    """Finish the cells, then write and print what there is; what is missing is said, and stands in the JSON."""
    module, setup = experiment(name), setup_for(name, options)
    cells: list[Cell] = module.cells(setup)
    for dataset in setup.datasets:
        setup.data(dataset)  # a data set that is not there is told before anything is trained
    for record in sorted(out.glob(f"*{RECORD}")):
        Kept(out / KEPT).take_in(record)
    finished = finish_cells(
        cells, patterns=options.cells, resume=out / KEPT, jobs=options.jobs,
        enough_seconds=float("inf") if options.minutes is None else 60 * options.minutes,
        prepare=lambda chosen: setup.base.train_missing([cell.base for cell in chosen if cell.base], options.jobs),
    )
    shown = _in_order(cells, finished)
    if shown:
        summary = module.summarise(shown)
        write_json(out / f"{name}.json", {
            "experiment": name, "command": options.command(name), "machine": describe_machine(),
            "machines": machines_of(shown),
            "datasets": setup.datasets, "models": setup.models, "seeds": list(range(setup.seeds)),
            "quick": setup.quick, "training": dict(setup.base.settings), "attackers": setup.attackers,
            "attackers_beside": setup.outside, "tuned": _settings_only(setup.tuned),
            "cells": {"done": len(shown), "missing": [name for name in finished.missing if name not in shown],
                      "earlier": list(finished.earlier), "failed": finished.failed},
            "result": summary,
        })
        write_text(out / f"{name}{RECORD}", _record(cells, shown, finished.earlier))
        for suffix in FIGURES:
            module.draw(summary, out / f"{name}{suffix}")
        module.show(summary)
    if finished.missing:
        say(f"{name}: {len(finished.found)} of {len(finished.found) + len(finished.missing)} cells are done; "
            "the same command goes on from here")
    return finished


def _settings_only(chosen: Mapping[str, Any]) -> dict[str, Any]:
    return {
        dataset: {model: {method: one["settings"] for method, one in methods.items()} for model, methods in by.items()}
        for dataset, by in chosen.items()
    }


def _in_order(cells: Sequence[Cell], finished: Finished) -> dict[str, dict[str, Any]]:
    """What there is of all cells, by the present code or else by earlier code."""
    either = {name: result for name, (_, result) in finished.earlier.items()} | finished.found
    return {name: either[name] for cell in cells for name in cell.results if name in either}


def _record(
    cells: Sequence[Cell], found: Mapping[str, Mapping[str, Any]], earlier: Mapping[str, tuple[str, Any]]
) -> str:
    """The lines of the finished cells, rounded, and without where every user's test item stood."""
    lines = []
    for cell in cells:
        for name in cell.results:
            if name in found:
                one = dict(found[name])
                if "utility" in one:
                    one["utility"] = {
                        kind: {key: value for key, value in row.items() if key != "ranks"}
                        for kind, row in one["utility"].items()
                    }
                code = earlier[name][0] if name in earlier else code_digest(cell.sources)
                lines.append(kept_line(cell.line(name), code, _rounded(one)))
    return "".join(f"{line}\n" for line in lines)


def _rounded(value: Any) -> Any:
    """Six digits are enough for whoever reads."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value
