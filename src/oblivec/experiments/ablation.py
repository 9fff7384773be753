"""`oblivec reproduce ablation`: what each of LEGO's two steps is good for (the paper's ablation table, NCF on ML-1M).

`d2dfr-fc` has D2DFR for its first step, `ec-ac` the plain mean for its second. With the paper's settings the first step
writes labels instead of removing them, so both ablations are shown with the tuned steps as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oblivec.console import show_table
from oblivec.experiments.cells import Cell
from oblivec.experiments.drawing import COLOURS, page
from oblivec.experiments.printed import COLUMNS, ROWS, printed
from oblivec.experiments.setup import Setup, release_cell
from oblivec.experiments.summaries import Found, over_seeds, row, shown, shown_worst

DATASETS, MODELS = ("ml-1m",), ("ncf",)
"""What the paper shows; others may be asked for."""
TUNED = {"steps_of": "paper-tuned"}
METHODS: dict[str, dict[str, Any]] = {
    "original": {}, "d2dfr-fc": {}, "d2dfr-fc:tuned": TUNED, "ec-ac": {}, "ec-ac:tuned": TUNED, "paper": {},
    "paper-tuned": {}, "lego": {},
}
"""Methods, with the variant behind a colon, and their settings."""


def cells(setup: Setup) -> list[Cell]:
    """One release per data set, model, base seed and method, all attributes protected."""
    return [
        _cell(setup, dataset, model, seed, method)
        for seed in range(setup.seeds) for dataset in setup.datasets for model in setup.models for method in METHODS
    ]


def _cell(setup: Setup, dataset: str, model: str, seed: int, method: str) -> Cell:
    """The step that is kept, or exchanged, has the settings that its own method has."""
    name, _, variant = method.partition(":")
    first_step = {"d2dfr-fc": "d2dfr", "ec-ac": METHODS[method].get("steps_of", "paper")}.get(name, name)
    settings = setup.settings(dataset, model, name if setup.quick else first_step) | METHODS[method]
    return release_cell(setup, dataset, model, seed, name, setup.requirements(dataset)[-1], settings, variant)


def summarise(found: Found) -> dict[str, Any]:
    """Rows in the order of METHODS, with the paper's row beside where it has one."""
    rows = []
    for (dataset, model, method, names), group in over_seeds(found, "release").items():
        own = ROWS.get(method, method.partition(":")[0])
        figures = printed()["ablation"].get(own) if (dataset, model) == ("ml-1m", "ncf") else None
        rows.append({
            "dataset": dataset, "model": model, "method": method, "requirement": names,
            "printed": None if figures is None else {column: figures[i][0] for i, column in enumerate(COLUMNS)},
        } | row(group))
    order = list(METHODS)
    return {"rows": sorted(rows, key=lambda one: (one["dataset"], one["model"], order.index(one["method"])))}


def show(summary: Mapping[str, Any]) -> None:
    """The paper's columns; the paper's figure behind a slash."""
    rows = []
    for one in summary["rows"]:
        pair = [
            f"{shown(one.get(column))} / {one['printed'][column]:.2f}" if one["printed"] else shown(one.get(column))
            for column in COLUMNS
        ]
        rows.append((one["dataset"], one["model"], one["method"], *pair, shown_worst(one), one["seeds"]))
    show_table(
        "Ablation: each of the two steps exchanged",
        ("data", "model", "method", "HR@10", "NDCG@10", "BAcc", "F1", "worst of the panel, points from chance",
         "seeds"),
        rows, "ours / the paper's; percent",
    )


def draw(summary: Mapping[str, Any], target: Path) -> None:
    """BAcc of the paper's attacker against NDCG@10, one point per method; the paper's hollow."""
    with page(target, 2.9) as figure:
        panel = figure.subplots()
        panel.margins(0.12)
        for turn, one in enumerate(summary["rows"]):
            colour = COLOURS.get(one["method"].partition(":")[0], "0.4")
            tuned, place = one["method"].endswith(":tuned"), (one["ndcg@10"]["mean"], one["bacc"]["mean"])
            panel.plot(*place, "s" if tuned else "o", color=colour)
            # Points lie close together: names of squares to their left, of discs to their right at changing heights.
            side, offset = ("right", (-5, -3)) if tuned else ("left", (5, -7 + 7 * (turn % 3)))
            panel.annotate(one["method"], place, fontsize=7, ha=side, xytext=offset, textcoords="offset points")
            if one["printed"] and one["method"] in ("d2dfr-fc", "ec-ac", "paper"):
                panel.plot(one["printed"]["ndcg@10"], one["printed"]["bacc"], "o", color=colour, markerfacecolor="none")
        if summary["rows"]:
            panel.axhline(summary["rows"][0]["chance"], color="0.6", linewidth=0.8, zorder=0)
        panel.set_xlabel("NDCG@10, %")
        panel.set_ylabel("mean BAcc, %\n(line: chance; hollow: the paper)")
