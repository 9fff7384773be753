"""`oblivec reproduce epsilon`: how far a user may be moved, against what is then read and recommended (figure 4).

The paper varies epsilon / N over 0, 0.1, ... 0.4 and infinity, as the radius of one ball around the whole matrix. Read
that way it never binds, so here it is every user's radius: in the matrix's own units for `paper`, as a share of the
length of the user's row for `paper-tuned` and `lego`. A radius of 0 is the original.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oblivec.console import show_table
from oblivec.experiments.cells import Cell
from oblivec.experiments.drawing import legend_above, line_style, page
from oblivec.experiments.setup import Setup, release_cell
from oblivec.experiments.summaries import Found, row, shown, shown_worst

RADII = ("0", "0.1", "0.2", "0.3", "0.4", "inf")
QUICK_RADII = ("0", "0.2", "inf")
METHODS = ("paper", "paper-tuned", "lego")
UNITS = {"paper": "absolute", "paper-tuned": "share of the row", "lego": "share of the row"}


def cells(setup: Setup) -> list[Cell]:
    """All attributes of the data set protected. Where a point is a release of table 1, it is that very cell."""
    made: dict[str, Cell] = {}
    for seed in range(setup.seeds):
        for dataset in setup.datasets:
            for model in setup.models:
                for method in METHODS:
                    for radius in QUICK_RADII if setup.quick else RADII:
                        cell = _cell(setup, dataset, model, seed, method, radius)
                        made[cell.name] = cell  # the original is one for all methods
    return list(made.values())


def _cell(setup: Setup, dataset: str, model: str, seed: int, method: str, radius: str) -> Cell:
    names = setup.requirements(dataset)[-1]
    if radius == "0":
        return release_cell(setup, dataset, model, seed, "original", names)
    if method == "lego" and radius == "inf":
        return release_cell(setup, dataset, model, seed, method, names)
    settings = setup.settings(dataset, model, method) | {"radius": radius if radius == "inf" else float(radius)}
    settings |= {"ball": "row"} if method == "paper" else {}
    return release_cell(setup, dataset, model, seed, method, names, settings, f"radius-{radius}")


def summarise(found: Found) -> dict[str, Any]:
    """A curve per data set, model and method, by radius; `original` is its first point.

    All points of a curve are of the same base seeds: base models differ by more than a step along it.
    """
    bases: dict[tuple[str, str], dict[str, dict[str, Mapping[str, Any]]]] = {}
    for name, cell in found.items():
        _, dataset, model, seed, variant, _ = name.split("/")
        bases.setdefault((dataset, model), {}).setdefault(seed, {})[variant] = cell
    rows = []
    for (dataset, model), by_seed in bases.items():
        for method in METHODS:
            curve = {radius: _variant(method, radius) for radius in RADII}
            curve = {radius: name for radius, name in curve.items() if any(name in own for own in by_seed.values())}
            whole = [own for own in by_seed.values() if own.keys() >= set(curve.values())]
            rows += [{"dataset": dataset, "model": model, "method": method, "radius": radius, "unit": UNITS[method]}
                     | row([own[name] for own in whole]) for radius, name in curve.items() if whole]
    return {"rows": rows}


def _variant(method: str, radius: str) -> str:
    """The method's part of the cell's name."""
    if radius == "0":
        return "original"
    return method if (method, radius) == ("lego", "inf") else f"{method}:radius-{radius}"


def show(summary: Mapping[str, Any]) -> None:
    show_table(
        "How far users may move",
        ("data", "model", "method", "radius", "NDCG@10", "BAcc", "chance", "worst of the panel, points from chance",
         "seeds"),
        [
            (one["dataset"], one["model"], one["method"], one["radius"], shown(one["ndcg@10"]), shown(one.get("bacc")),
             f"{one['chance']:.2f}", shown_worst(one), one["seeds"])
            for one in summary["rows"]
        ],
        "radius of every user: in units of the matrix for paper, of the user's row for paper-tuned and lego; percent",
    )


def draw(summary: Mapping[str, Any], target: Path) -> None:
    """For every data set two rows of panels, BAcc and NDCG@10, and a column per model. The paper's figure 4."""
    rows = summary["rows"]
    datasets, models = ([*dict.fromkeys(one[key] for one in rows)] for key in ("dataset", "model"))
    if not rows:
        return
    with page(target, 0.4 + 3.2 * len(datasets)) as figure:
        panels = figure.subplots(2 * len(datasets), len(models), squeeze=False, sharex=True)
        for line, dataset in enumerate(datasets):
            for column, model in enumerate(models):
                own = [one for one in rows if (one["dataset"], one["model"]) == (dataset, model)]
                for offset, key in enumerate(("bacc", "ndcg@10")):
                    panel = panels[2 * line + offset, column]
                    for method in METHODS:
                        curve = [one for one in own if one["method"] == method and key in one]
                        panel.errorbar(
                            [RADII.index(one["radius"]) for one in curve], [one[key]["mean"] for one in curve],
                            yerr=[one[key]["spread"] or 0.0 for one in curve], label=method, elinewidth=0.7,
                            **line_style(method) | ({} if len(curve) > 2 else {"linestyle": "none"}),
                        )
                    if key == "bacc" and own:
                        panel.axhline(own[0]["chance"], color="0.6", linewidth=0.8, zorder=0)
                        panel.set_title(f"{model}, {dataset}")
                    panel.set_xticks(range(len(RADII)), [radius.replace("inf", "∞") for radius in RADII])
                    if column == 0:
                        panel.set_ylabel("BAcc, %" if key == "bacc" else "NDCG@10, %")
        figure.supxlabel("radius of a user", fontsize=8)
        legend_above(figure, panels.flat)
