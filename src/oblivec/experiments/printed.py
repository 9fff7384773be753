"""Every figure the paper prints, as printed, beside which ours are shown. Nothing here is measured.

`printed.json` holds table 1 in full, the tables of the ablation, of correlated attributes, of the bound and of the data
sets, and the averages that the text states. The figures of efficiency and of epsilon are curves without numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

COLUMNS = ("hr@10", "ndcg@10", "bacc", "micro_f1")
STANDS_FOR = {"kuairand-pure": "kuaisar"}
"""Data sets that stand in for one of the paper's: close in kind, so its figures are shown, as another data set's."""
ROWS = {"paper": "lego", "paper-tuned": "lego"}
"""Methods of ours that a printed row of another name is about."""


@cache
def printed() -> dict[str, Any]:
    """The whole file."""
    return json.loads((files("oblivec.experiments") / "printed.json").read_text(encoding="utf-8"))


def printed_cell(dataset: str, attributes: int, method: str, model: str) -> dict[str, float] | None:
    """Means of table 1 in percent by column, for so many attributes (they are always added in one order).

    None where the paper has no such row. A method may carry a variant (`dp:0.5`), which the paper does not tell apart.
    """
    sets = list(printed()["table1"].get(STANDS_FOR.get(dataset, dataset), {}).values())
    name = method.partition(":")[0]
    row = sets[attributes - 1].get(ROWS.get(name, name)) if 1 <= attributes <= len(sets) else None
    return None if row is None else {column: row[model][i][0] for i, column in enumerate(COLUMNS)}


def printed_drops(method: str, column: str, which: Callable[[str, int, str], bool] = lambda *_: True) -> list[float]:
    """Percent by which `method` is below the original in each cell of table 1 that `which(dataset, attributes, model)`
    picks: what the averages of the text should be averages of."""
    place, found = COLUMNS.index(column), []
    for dataset, sets in printed()["table1"].items():
        for count, methods in enumerate(sets.values(), start=1):
            for model, row in methods[method].items():
                if which(dataset, count, model):
                    before = methods["original"][model][place][0]
                    found.append(100 * (before - row[place][0]) / before)
    return found


def recomputed_aggregates() -> dict[str, Any]:
    """The averages the text states, computed from table 1, all data sets together.

    They do not agree with the text, nor do they without KuaiSAR or as means of means: for the BAcc, 12.77, 20.84, 18.37
    and 24.31 are stated where the table gives 11.79, 16.21, 17.14 and 22.07. No subset that was tried gives them.
    """
    stated: Mapping[str, Any] = printed()["aggregates"]
    found: dict[str, Any] = {}
    for name, by_method in stated.items():
        column = "bacc" if name.startswith("bacc") else "ndcg@10"
        found[name] = {}
        for method, value in by_method.items():
            if isinstance(value, list):
                found[name][method] = [
                    _mean(method, column, lambda _d, count, _m, wanted=wanted: count == wanted)
                    for wanted in range(1, len(value) + 1)
                ]
            elif isinstance(value, dict):
                found[name][method] = {
                    model: _mean(method, column, lambda _d, _c, own, model=model: own == model) for model in value
                }
            else:
                found[name][method] = _mean(method, column)
    return found


def _mean(method: str, column: str, which: Callable[[str, int, str], bool] = lambda *_: True) -> float:
    return round(float(np.mean(printed_drops(method, column, which))), 2)
