"""The one style of all figures: as wide as a printed page's text, vectors, readable without colour.

What a figure shows is said in the text that it stands in, so figures have no titles of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oblivec.errors import BadInput
from oblivec.files.atomic import atomic_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".svg", ".pdf")
WIDTH = 7.2
"""Inches."""
LETTERS = 100
"""About as many stand in one line."""
COLOURS = {
    "original": "#000000", "paper": "#0072B2", "paper-tuned": "#56B4E9", "lego": "#D55E00", "d2dfr": "#009E73",
    "d2dfr-stored": "#009E73", "advx": "#CC79A7", "d2dfr-fc": "#E69F00", "ec-ac": "#999933",
    "leace": "#882255", "dp": "0.45", "random-moments": "0.7",
}
"""By method; colours that the colour-blind tell apart."""
MARKERS = {"original": "x", "paper": "o", "paper-tuned": "v", "lego": "s", "d2dfr": "^", "d2dfr:nearest": "1",
           "d2dfr-stored": "P", "advx": "D", "advx:tuned": "d", "d2dfr-fc": "<", "ec-ac": ">", "leace": "*",
           "dp:0.5": "+", "dp:1": "2", "dp:2": "3", "dp:matched": "4", "random-moments": "p"}
DASHES = {"paper": "-", "paper-tuned": "--", "lego": "-.", "d2dfr": ":", "d2dfr-stored": ":", "advx": "--",
          "advx:tuned": ":", "d2dfr:nearest": "-"}


def line_style(method: str) -> dict[str, Any]:
    """Colour, marker and dash of a method, the same in every figure; a variant without its own has its method's."""
    own, _, _ = method.partition(":")
    return {
        "color": COLOURS.get(method, COLOURS.get(own, "0.4")), "marker": MARKERS.get(method, MARKERS.get(own, ".")),
        "markersize": 5.5, "linestyle": DASHES.get(method, DASHES.get(own, "-")), "linewidth": 1.2,
    }


@contextmanager
def page(target: Path, height: float) -> Iterator[Figure]:
    """An empty figure of that height in inches, written to `target` when the block is left."""
    if target.suffix not in FORMATS:
        raise BadInput(f"{target}: cannot draw into '{target.suffix}'; use {', '.join(FORMATS)}")
    import matplotlib
    from matplotlib.figure import Figure

    style: Any = {
        "font.size": 8, "axes.titlesize": 8.5, "axes.spines.top": False, "axes.spines.right": False,
        "axes.grid": True, "axes.grid.axis": "y", "grid.color": "0.92", "grid.linewidth": 0.6, "axes.axisbelow": True,
        "legend.frameon": False, "svg.hashsalt": "oblivec", "svg.fonttype": "path", "pdf.fonttype": 42,
    }
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        yield figure
        # No date, so that the same figures give the same file.
        undated = {"Date": None} if target.suffix == ".svg" else {"CreationDate": None}
        with atomic_path(target) as temporary:
            figure.savefig(temporary, format=target.suffix[1:], metadata=undated)


def legend_above(figure: Figure, panels: Any) -> None:
    """One legend for all panels, each name once."""
    found: dict[str, Any] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        columns = max(1, int(LETTERS // (max(map(len, found)) + 6)))
        figure.legend(found.values(), found.keys(), loc="outside upper center", ncols=min(len(found), columns))
