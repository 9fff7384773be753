"""The experiments by name: a module each, with `cells`, `summarise`, `show` and `draw`.

    cells(setup) -> list[Cell]          what has to be measured
    summarise(found) -> dict            from the results there are, by name, to plain JSON; some may be missing
    show(summary)                       the table a person reads
    draw(summary, target)               the figure; the suffix of `target` says which format

`DATASETS` and `MODELS`, where a module has them, are what it measures unless told otherwise. Experiments are imported
when they are run.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from types import ModuleType

from oblivec.errors import BadInput

EXPERIMENTS = ("table1", "efficiency", "epsilon", "ablation", "correlated", "bound")
FOLDER = Path(__file__).parent


def experiments() -> dict[str, str]:
    """Name and one line of every experiment."""
    found = {}
    for name in EXPERIMENTS:
        words = ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))) or ""
        first = words.partition("\n")[0]
        found[name] = first.partition(": ")[2] or first
    return found


def experiment(name: str) -> ModuleType:
    if name not in EXPERIMENTS:
        raise BadInput(f"no experiment '{name}'; there are {', '.join(EXPERIMENTS)}")
    return importlib.import_module(f"oblivec.experiments.{name}")
