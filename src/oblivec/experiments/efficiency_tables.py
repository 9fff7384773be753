"""The table and the figure of `efficiency`, and its three targets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oblivec.console import show_table
from oblivec.experiments.drawing import COLOURS, legend_above, page
from oblivec.experiments.summaries import Found

METHODS = ("original", "advx", "d2dfr", "d2dfr-stored", "paper", "lego")
CHANGES = ("increase", "decrease", "alter")
TARGETS = {"d2dfr": 10.0, "advx": 50.0, "original": 50.0}
"""How many times faster than these a change with lego is to be."""


def summarise(found: Found) -> dict[str, Any]:
    """Seconds by data set, model, method and requirement; the ratios that the targets are about."""
    cases, targets = [], []
    for name, cell in found.items():
        kind, dataset, model = name.split("/")[:3]
        if kind != "efficiency":
            continue
        seconds = _seconds(cell)
        slowest = {
            method: min(seconds[method][what] / max(seconds["lego"][what], 1e-9) for what in CHANGES)
            for method in (*TARGETS, "d2dfr-stored", "paper")
        }
        cases.append({
            "dataset": dataset, "model": model, "cores": cell["cores"], "users": cell["users"],
            "requirements": cell["requirements"], "seconds": seconds, "times_faster_than": slowest,
            "d2dfr_floor": _floor(cell), "stored_bytes": cell["d2dfr-stored"]["bytes"],
            "threads": {"original": cell["original"]["threads"]}, "runs": _runs(cell),
        })
        targets += [
            {"dataset": dataset, "model": model, "against": method, "limit": limit, "times": slowest[method],
             "reached": slowest[method] >= limit}
            for method, limit in TARGETS.items()
        ]
    return {"cases": cases, "targets": targets}


def _seconds(cell: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """By method and requirement. Whoever trains the recommender trains it anew for every requirement."""
    asked = cell["requirements"]
    found = {method: dict(cell[method]["seconds"]) for method in ("d2dfr", "d2dfr-stored", "paper", "lego")}
    found["original"] = dict.fromkeys(asked, cell["original"]["seconds"])
    found["advx"] = {what: cell["advx"][str(len(names))]["seconds"] for what, names in asked.items()}
    return {method: found[method] for method in METHODS}


def _floor(cell: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """For each attribute: D2DFR's seconds over those its products alone would take at the rate of large matrices."""
    rate = cell["d2dfr"]["product_rate"]
    return {
        name: {"seconds": one["seconds"], "floor_seconds": one["flops"] / rate["square"],
               "times_the_floor": one["seconds"] / (one["flops"] / rate["square"]),
               "times_the_floor_of_narrow_products": one["seconds"] / (one["flops"] / rate["narrow"])}
        for name, one in cell["d2dfr"]["removals"].items()
    }


def _runs(cell: Mapping[str, Any]) -> dict[str, Any]:
    """What was run and what was scaled up from it."""
    def said(one: Mapping[str, Any]) -> str:
        return f"{one['steps_run']} of {one['steps']}"

    return {
        "original": f"{said(cell['original'])} epochs", "advx": f"{said(next(iter(cell['advx'].values())))} epochs",
        "d2dfr": f"{said(next(iter(cell['d2dfr']['removals'].values())))} steps",
        "paper": f"{said(next(iter(cell['paper']['runs'].values())))} steps", "lego": "whole",
    }


def show(summary: Mapping[str, Any]) -> None:
    rows = [
        (case["dataset"], case["model"], method, *(_short(value) for value in by.values()))
        for case in summary["cases"] for method, by in case["seconds"].items()
    ]
    if not rows:
        return
    asked = max((case["requirements"] for case in summary["cases"]), key=len)
    columns = ["data", "model", "method", *(f"{what} attr." if what.isdigit() else what for what in asked)]
    padded = [(*row[:3], *_aligned(row[3:], len(asked))) for row in rows]
    runs = summary["cases"][0]["runs"]
    show_table("Seconds to meet a requirement, and to follow a change of it", columns, padded,
               f"cores: {summary['cases'][0]['cores']}; scaled up from: "
               + ", ".join(f"{method} {run}" for method, run in runs.items() if run != "whole"))
    show_table(
        "How many times faster a change is with lego (the slowest of the three changes)",
        ("data", "model", "against", "times", "limit", ""),
        [(one["dataset"], one["model"], one["against"], f"{one['times']:.0f}", f"{one['limit']:.0f}",
          "reached" if one["reached"] else "NOT REACHED") for one in summary["targets"]],
    )
    show_table(
        "D2DFR against the floor of its products",
        ("data", "model", "attribute", "seconds", "floor", "times the floor", "with narrow products"),
        [(case["dataset"], case["model"], name, _short(one["seconds"]), _short(one["floor_seconds"]),
          f"{one['times_the_floor']:.1f}", f"{one['times_the_floor_of_narrow_products']:.1f}")
         for case in summary["cases"] for name, one in case["d2dfr_floor"].items()],
    )
    show_table(
        "Bytes of D2DFR's stored intermediate matrices",
        ("data", "model", "after all changes, MB"),
        [(case["dataset"], case["model"], f"{max(case['stored_bytes'].values()) / 1e6:.1f}")
         for case in summary["cases"]],
    )


def _aligned(cells: tuple[str, ...], width: int) -> tuple[str, ...]:
    """The changes stand in the last columns, also where there are fewer attributes."""
    counts = len(cells) - len(CHANGES)
    return (*cells[:counts], *("-",) * (width - len(cells)), *cells[counts:])


def _short(seconds: float) -> str:
    return f"{seconds:.3g}" if seconds < 1000 else f"{seconds:.0f}"


def draw(summary: Mapping[str, Any], target: Path) -> None:
    """Bars on a logarithmic scale, a panel per case; the dashed line is the training of the recommender."""
    cases = summary["cases"]
    if not cases:
        return
    columns = min(len(cases), 2)
    lines = -(-len(cases) // columns)
    with page(target, 0.4 + 2.3 * lines) as figure:
        panels = figure.subplots(lines, columns, squeeze=False).ravel()
        for panel, case in zip(panels, cases, strict=False):
            methods = [method for method in case["seconds"] if method != "original"]
            asked = list(case["requirements"])
            training = next(iter(case["seconds"]["original"].values()))
            for turn, method in enumerate(methods):
                places = [place + (turn - len(methods) / 2 + 0.5) * 0.16 for place in range(len(asked))]
                heights = [max(100 * case["seconds"][method][what] / training, 1e-3) for what in asked]
                hatch = "///" if method == "d2dfr-stored" else ""
                panel.bar(places, heights, 0.15, color=COLOURS.get(method, "0.4"), hatch=hatch, edgecolor="white",
                          linewidth=0.2, label=method)
            panel.axhline(100, color="black", linestyle="--", linewidth=1, label="training the recommender")
            panel.set_yscale("log")
            panel.set_xticks(range(len(asked)), asked, fontsize="small")
            panel.set_title(f"{case['model']}, {case['dataset']}")
            panel.set_ylabel("% of a training's time")
        for panel in panels[len(cases):]:
            panel.set_visible(False)
        legend_above(figure, panels[: len(cases)])
