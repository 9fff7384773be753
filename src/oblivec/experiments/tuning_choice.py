"""Which point of a grid wins, and the file that the tables read it from.

`python -m oblivec.experiments.tuning_choice FILE` takes what `oblivec bench tuning --json FILE` chose into tuned.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oblivec.experiments.cells import Cell
from oblivec.experiments.printed import printed_cell
from oblivec.experiments.tuned import FILE, tuned
from oblivec.experiments.tuning_grids import nested
from oblivec.files.atomic import write_json

MOST_LOST_PERCENT = 10.0
TIE_POINTS = 1.0
Tried = Mapping[str, Mapping[str, float]]
"""Points of a grid, in words, and their figures."""


def choose(expected: Sequence[Cell], found: Mapping[str, Mapping[str, Any]], command: str) -> dict[str, Any]:
    """By data set, model and method: the winner and every point. A grid with a point missing has no winner.

    The winner is the nearest to chance (mean over attributes and attackers of the distance, above or below) among
    those that lose less than 10 % of NDCG@10, or among all where none does; within a point of the nearest, the one with
    the highest NDCG@10. For `dp` it is the one whose loss of HR@10 is closest to the paper's. For `d2dfr`, which in the
    paper pays more than that, the nearest at any price is named too where it is another.
    """
    grids: dict[tuple[str, str, str], dict[str, list[Mapping[str, Any]]]] = {}
    incomplete = set()
    for cell in expected:
        _, dataset, model, _, method, point = cell.name.split("/")
        if cell.name in found:
            grids.setdefault((dataset, model, method), {}).setdefault(point, []).append(found[cell.name])
        else:
            incomplete.add((dataset, model, method))
    chosen: dict[str, Any] = {}
    for (dataset, model, method), by_point in grids.items():
        tried = {point: _figures(group) for point, group in by_point.items()}
        entry: dict[str, Any] = {"command": command, "tried": tried}
        if (dataset, model, method) not in incomplete:
            best = _best_match(tried, dataset, model) if method == "dp" else _nearest(_affordable(tried))
            entry |= {"settings": nested(by_point[best][0]["point"]), "chosen": best}
            if method == "d2dfr" and (at_any_price := _nearest(tried)) != best:
                entry |= {"settings_at_any_price": nested(by_point[at_any_price][0]["point"])}
        chosen.setdefault(dataset, {}).setdefault(model, {})[method] = entry
    return chosen


def _figures(group: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Means over base seeds."""
    found = {
        f"{metric}_lost": float(np.mean([
            100 * (1 - one["utility"]["after"][metric] / one["utility"]["before"][metric]) for one in group
        ]))
        for metric in ("hr@10", "ndcg@10")
    }
    if "points_from_chance" in group[0]:
        found["distance"] = float(np.mean([
            abs(points) for one in group for by in one["points_from_chance"].values() for points in by.values()
        ]))
    return {name: round(value, 3) for name, value in found.items()}


def _affordable(tried: Tried) -> Tried:
    return {point: one for point, one in tried.items() if one["ndcg@10_lost"] < MOST_LOST_PERCENT} or tried


def _nearest(tried: Tried) -> str:
    least = min(one["distance"] for one in tried.values())
    near = [point for point, one in tried.items() if one["distance"] <= least + TIE_POINTS]
    return min(near, key=lambda point: tried[point]["ndcg@10_lost"])


def _best_match(tried: Tried, dataset: str, model: str) -> str:
    before, after = (printed_cell(dataset, 1, method, model) or {} for method in ("original", "dp"))
    wanted = 100 * (1 - after["hr@10"] / before["hr@10"])
    return min(tried, key=lambda point: abs(tried[point]["hr@10_lost"] - wanted))


def take_over(source: Path, target: Path) -> None:
    """Put what a finished search chose into the file that the tables read; what others chose before stays."""
    (record,) = [one for one in json.loads(source.read_text())["benchmarks"] if one["benchmark"] == "tuning"]
    known = tuned()
    for dataset, by_model in record["result"]["chosen"].items():
        for model, by_method in by_model.items():
            for method, entry in by_method.items():
                if "settings" in entry:
                    known.setdefault(dataset, {}).setdefault(model, {})[method] = entry
    write_json(target, known)


if __name__ == "__main__":
    take_over(Path(sys.argv[1]), Path(__file__).with_name(FILE))
