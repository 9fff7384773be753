"""The grids: which settings are tried for which method and model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

Grid = Mapping[str, Sequence[Any]]
_NOISE: Grid = {"scale": (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)}
_D2DFR = (2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2)
_KEEPING_UP: Grid = {
    "q.learning_rate": (3e-3, 1e-2), "learning_rate": (0.3, 1.0, 3.0), "radius": (0.3, 0.6),
}
GRIDS: dict[str, dict[str, Grid]] = {
    "dp": {"ncf": _NOISE, "lightgcn": _NOISE, "multvae": _NOISE},
    "d2dfr": {
        "ncf": {"learning_rate": _D2DFR}, "multvae": {"learning_rate": _D2DFR},
        "lightgcn": {"learning_rate": _D2DFR, "coefficient": (1e-7, 1e-6, 1e-5)},  # elsewhere it weighs nothing
    },
    "advx": {
        "ncf": {"gradient_scale": (0.01, 0.1, 1.0, 10.0, 100.0)},
        "lightgcn": {"gradient_scale": (0.01, 0.1, 1.0, 10.0, 100.0)},
        "multvae": {"gradient_scale": (60.0, 200.0, 600.0, 2000.0, 6000.0)},
    },
    "paper-tuned": {"ncf": _KEEPING_UP, "lightgcn": _KEEPING_UP, "multvae": _KEEPING_UP},
}
"""By method and model: what is tried, every combination. Settings within a setting are joined by a dot."""
QUICK_GRIDS: dict[str, dict[str, Grid]] = {
    "dp": {"lightgcn": {"scale": (0.5, 4.0)}}, "d2dfr": {"lightgcn": {"learning_rate": (1e-6, 5e-3), "steps": (20,)}},
}


def points(grid: Grid) -> list[dict[str, Any]]:
    """Every combination, flat."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def nested(point: Mapping[str, Any]) -> dict[str, Any]:
    """`{"q.steps": 10}` as the method takes it: `{"q": {"steps": 10}}`."""
    settings: dict[str, Any] = {}
    for name, value in point.items():
        outer, _, inner = name.partition(".")
        settings |= {outer: settings.get(outer, {}) | {inner: value}} if inner else {name: value}
    return settings


def in_words(point: Mapping[str, Any]) -> str:
    """As it stands in the name of a cell."""
    return "+".join(f"{name}={value:g}" for name, value in point.items())
