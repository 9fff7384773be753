"""Geometry of the report's pictures: where things go, not how they are drawn (`report_charts.html.j2` draws them).

Horizontal places are percentages, so that a chart fills a phone and a desk without its text being scaled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oblivec.audit.result import SMALLEST_CELL, AttributeResult, DensityView
from oblivec.audit.wording import THIRDS, class_name, hundred

ROW, PAIR = 40, 52
"""Height of one row in pixels: a line of text above one interval, or above two."""
INSET = 3.0
"""Percent kept free at both sides, for the outermost tick labels."""
NOTABLE = 2.5
"""Standard deviations by which a class must differ in a cell to be coloured: one cell in eighty does so by luck."""
LONGEST_NAME = 20
MAPS = 6
"""Maps drawn per attribute; more cannot be compared by eye."""


@dataclass(frozen=True)
class Mark:
    """A dot with its interval, in percent of the width."""

    at: str
    low: str
    high: str
    kind: str
    outside: bool = False
    """The dot itself lies left of the picture."""


@dataclass(frozen=True)
class Row:
    name: str
    value: str
    marks: tuple[Mark, ...]
    y: int
    strong: bool = False


@dataclass(frozen=True)
class IntervalChart:
    title: str
    description: str
    axis: str
    height: int
    rows: tuple[Row, ...]
    ticks: tuple[tuple[str, str], ...]
    """Place and text."""
    chance: str
    band: tuple[str, str]
    """Left edge and width of the margin around chance."""


@dataclass(frozen=True)
class ClassMap:
    """Where one class is more or less common than in the whole drawn population."""

    name: str
    squares: tuple[tuple[str, str, str, str], ...]
    """Left, top, side, and `more`, `usual` or `less`."""
    more: int
    usual: int
    less: int


@dataclass(frozen=True)
class ClassMaps:
    columns: int
    rows: int
    maps: tuple[ClassMap, ...]
    left_out: int
    """Classes without a map of their own."""


class Scale:
    """From values out of 100 to percent of the width."""

    def __init__(self, values: Sequence[float], floor: float = -math.inf):
        low, high = max(min(values), floor), max(values)
        pad = 0.04 * (high - low) or 1.0
        self.low, self.high = low - pad, high + pad

    def __call__(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        return INSET + (100 - 2 * INSET) * (inside - self.low) / (self.high - self.low)

    def at(self, value: float) -> str:
        return f"{self(value):.2f}%"

    def ticks(self) -> tuple[tuple[str, str], ...]:
        rough = (self.high - self.low) / 7
        power = 10 ** math.floor(math.log10(rough))
        step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
        places = (step * k for k in range(math.ceil(self.low / step), math.floor(self.high / step) + 1))
        return tuple((self.at(place), hundred(place / 100)) for place in places)

    def mark(self, score: float, ci: tuple[float, float], kind: str) -> Mark:
        return Mark(self.at(score), self.at(ci[0]), self.at(ci[1]), kind, outside=score < self.low)


def attacker_chart(found: AttributeResult, margin: float) -> IntervalChart:
    """Every attacker with its interval, against chance and the margin around it."""
    span = 100 * margin
    chance = 100 * found.chance
    spread = [100 * edge for attacker in found.attackers.values() for edge in (*attacker.ci, attacker.score)]
    scale = _scale(spread, chance, span, found.continuous)
    rows = []
    for name, attacker in found.attackers.items():
        worst = name == found.worst
        low, high = (hundred(edge) for edge in attacker.ci)
        mark = scale.mark(
            100 * attacker.score, (100 * attacker.ci[0], 100 * attacker.ci[1]), found.verdict if worst else "other"
        )
        value = f"{hundred(attacker.score)} ({low} to {high})"
        rows.append(Row(_shortened(name), value, (mark,), ROW * len(rows), worst))
    said = "; ".join(f"{name} {row.value}" for name, row in zip(found.attackers, rows, strict=True))
    return _chart(
        rows, scale, chance, span, ROW,
        title=f"Attackers on {found.name} against guessing",
        description=f"Guessing: {hundred(found.chance)}. Each attacker with its 95 % interval: {said}.",
        axis="parts of the variation explained, out of 100" if found.continuous else "users told right, out of 100",
    )


def change_chart(
    pairs: Sequence[tuple[AttributeResult, AttributeResult]], margin: float, continuous: bool
) -> IntervalChart:
    """The worst attacker before and after, per attribute, as distance from what guessing gives."""
    span = 100 * margin
    measured = [(_from_chance(before), _from_chance(after)) for before, after in pairs]
    scale = _scale([value for pair in measured for score, ci in pair for value in (score, *ci)], 0.0, span, continuous)
    rows = []
    for (before, after), (was, now) in zip(pairs, measured, strict=True):
        marks = (scale.mark(*was, "before"), scale.mark(*now, after.verdict))
        scores = (hundred(found.attackers[found.worst].score) for found in (before, after))
        value = f"{' → '.join(scores)} (guessing {hundred(after.chance)})"
        rows.append(Row(_shortened(after.name), value, marks, PAIR * len(rows), strong=True))
    said = "; ".join(f"{after.name}: {row.value}" for (_, after), row in zip(pairs, rows, strict=True))
    return _chart(
        rows, scale, 0.0, span, PAIR,
        title="The best attacker before and after" + (", continuous attributes" if continuous else ""),
        description=f"Out of 100, before and after: {said}.",
        axis="parts of the variation explained, out of 100" if continuous else "users told right, out of 100",
    )


def class_maps(view: DensityView, continuous: bool) -> ClassMaps | None:
    """A map per class, or None when no cell holds enough users.

    A square's size says how many users the cell holds, in four steps; its colour whether the class is more or less
    common there than overall. A cell is coloured `more` only when it holds at least `SMALLEST_CELL` of that class.
    """
    totals = view.cells.sum(axis=0)
    if not totals.any():
        return None
    n_classes, rows, columns = view.cells.shape
    drawn = min(n_classes, MAPS)
    overall = view.cells.sum(axis=(1, 2)) / totals.sum()
    maps = []
    for c in range(drawn):
        expected = totals * overall[c]
        deviation = np.sqrt(np.maximum(expected * (1 - overall[c]), 1e-12))
        notable = (view.cells[c] - expected) / deviation
        more = (notable > NOTABLE) & (view.cells[c] >= SMALLEST_CELL)
        tone = np.where(more, "more", np.where(notable < -NOTABLE, "less", "usual"))
        squares = []
        for i, j in zip(*np.nonzero(totals), strict=True):
            side = (math.ceil(4 * totals[i, j] / totals.max()) / 4) ** 0.5 * 0.96
            left, top = j + (1 - side) / 2, rows - 1 - i + (1 - side) / 2
            squares.append((f"{left:.3f}", f"{top:.3f}", f"{side:.3f}", str(tone[i, j])))
        name = THIRDS[c] if continuous else class_name(c, n_classes)
        tones = [square[3] for square in squares]
        maps.append(ClassMap(name, tuple(squares), tones.count("more"), tones.count("usual"), tones.count("less")))
    return ClassMaps(columns, rows, tuple(maps), n_classes - drawn)


def _from_chance(found: AttributeResult) -> tuple[float, tuple[float, float]]:
    """The worst attacker's score and interval, out of 100, less what guessing gives."""
    worst = found.attackers[found.worst]
    return 100 * (worst.score - found.chance), (100 * (worst.ci[0] - found.chance), 100 * (worst.ci[1] - found.chance))


def _shortened(name: str) -> str:
    """A name that leaves room for the numbers on a phone; the description has it in full."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _scale(spread: list[float], chance: float, span: float, continuous: bool) -> Scale:
    """Room for everything and for twice the margin; an R2 far under zero says nothing and is cut off."""
    values = [*spread, chance - 2 * span, chance + 2 * span]
    return Scale(values, floor=-max(10.0, max(values) / 2) if continuous else -math.inf)


def _chart(
    rows: list[Row], scale: Scale, chance: float, span: float, height: int, *, title: str, description: str, axis: str
) -> IntervalChart:
    left, right = scale(chance - span), scale(chance + span)
    return IntervalChart(
        title, description, axis, height * len(rows) + 24, tuple(rows), scale.ticks(), scale.at(chance),
        (f"{left:.2f}%", f"{right - left:.2f}%"),
    )
