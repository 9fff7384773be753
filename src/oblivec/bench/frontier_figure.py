"""The privacy-utility frontier as a vector figure that survives a black-and-white printer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oblivec.errors import BadInput
from oblivec.files.atomic import atomic_path

FORMATS = (".svg", ".pdf", ".png")
STYLES = (("#0072B2", "o", "-"), ("#D55E00", "s", "--"), ("#009E73", "^", ":"), ("#CC79A7", "D", "-."))
"""Colours that the colour-blind tell apart, and a marker and a dash for who has none."""
WIDTH, HEIGHT = 7.2, 2.9
"""Inches: the width of a printed page's text."""


def draw_frontier(result: Mapping[str, Any], target: Path) -> None:
    """One panel per attribute: to the left is good ranking, at the bottom is privacy."""
    if target.suffix not in FORMATS:
        raise BadInput(f"{target}: cannot draw into '{target.suffix}'; use {', '.join(FORMATS)}")
    import matplotlib
    from matplotlib.figure import Figure

    points = result["points"]
    methods = list(dict.fromkeys(point["method"] for point in points))
    attributes = list(points[0]["worst"])
    with matplotlib.rc_context({"font.size": 9, "svg.hashsalt": "oblivec", "axes.spines.top": False,
                                "axes.spines.right": False}):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        panels = figure.subplots(1, len(attributes), sharex=True, squeeze=False)[0]
        for panel, attribute in zip(panels, attributes, strict=True):
            for method, (colour, marker, dash) in zip(methods, STYLES, strict=False):
                own = [point for point in points if point["method"] == method]
                # Along the curve the edit is allowed to move users farther and farther.
                own.sort(key=lambda point: float("inf") if point["radius"] == "default" else float(point["radius"]))
                panel.plot(
                    [point["ndcg_lost"]["loss_percent"] for point in own], [point["worst"][attribute] for point in own],
                    dash, color=colour, marker=marker, markersize=5, linewidth=1.3, label=method,
                )
                free = [point for point in own if point["radius"] == "default"]
                panel.plot(
                    [point["ndcg_lost"]["loss_percent"] for point in free],
                    [point["worst"][attribute] for point in free],
                    marker, color=colour, markerfacecolor="white", markersize=5,
                )
            if result["original"] is not None:
                panel.plot(0, result["original"][attribute], "x", color="black", markersize=7, label="original")
            panel.plot([], [], "o", color="black", markerfacecolor="white", markersize=5, label="default radius")
            panel.axhline(0, color="0.6", linewidth=0.8, zorder=0)
            panel.set_title(attribute, fontsize=10)
            panel.set_ylim(bottom=-0.03 * panel.get_ylim()[1])
            panel.grid(axis="y", color="0.92", linewidth=0.6)
            panel.set_axisbelow(True)
        panels[0].set_ylabel("worst attacker,\npoints from chance")
        figure.supxlabel(f"NDCG@10 lost, % ({result['model']} on {result['dataset']})", fontsize=9)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
        with atomic_path(target) as temporary:
            figure.savefig(
                temporary, format=target.suffix[1:], dpi=200, metadata={"Date": None} if target.suffix == ".svg" else {}
            )
