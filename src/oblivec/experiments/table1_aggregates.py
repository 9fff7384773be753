"""The averages that the paper's text draws from its table: how much a method took from BAcc and from NDCG@10.

A drop is relative to the original's figure in the same cell, in percent, as in the paper. By BAcc alone a method that
goes below chance looks best; the mean distance of the worst attacker from chance stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from oblivec.experiments.methods import in_order
from oblivec.experiments.printed import ROWS, printed, recomputed_aggregates

COUNTS = {1: "one attribute", 2: "two", 3: "three"}


def aggregates(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """By method: the averages over all its cells, by number of attributes, and by model; beside them the paper's."""
    originals = {_cell(one): one for one in rows if one["method"] == "original"}
    drops: dict[str, list[dict[str, Any]]] = {}
    for one in rows:
        before = originals.get(_cell(one))
        if one["method"] != "original" and before is not None and "bacc" in one:
            drops.setdefault(one["method"], []).append({
                "attributes": one["requirement"].count("+") + 1, "model": one["model"],
                "bacc_drop": 100 * (1 - one["bacc"]["mean"] / before["bacc"]["mean"]),
                "ndcg_drop": one["ndcg@10_lost"]["mean"], "worst_points": one["worst_points"],
            })
    return {
        "ours": {
            method: _means(found) | {
                "by_attributes": {str(count): _means([one for one in found if one["attributes"] == count])
                                  for count in sorted({one["attributes"] for one in found})},
                "by_model": {model: _means([one for one in found if one["model"] == model])
                             for model in dict.fromkeys(one["model"] for one in found)},
            }
            for method, found in sorted(drops.items(), key=lambda drop: in_order(drop[0]))
        },
        "printed": printed()["aggregates"], "recomputed_from_the_printed_table": recomputed_aggregates(),
    }


def shown_aggregates(found: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...], list[tuple[Any, ...]]]]:
    """Title, headings and lines of the one table there is to print."""
    lines = []
    for method, ours in found["ours"].items():
        own = ROWS.get(method, method.partition(":")[0])
        stated, recomputed = (
            [by.get(kind, {}).get(own) for kind in ("bacc_drop", "ndcg_drop")]
            for by in (found["printed"], found["recomputed_from_the_printed_table"])
        )
        by_count = [ours["by_attributes"].get(str(count)) for count in COUNTS]
        lines.append((
            method, f"{ours['bacc_drop']:.1f}", _two(stated[0], recomputed[0]), f"{ours['ndcg_drop']:.1f}",
            _two(stated[1], recomputed[1]), f"{ours['worst_points']:.1f}",
            *("-" if one is None else f"{one['bacc_drop']:.1f}, {one['ndcg_drop']:.1f}" for one in by_count),
        ))
    headings = (
        "method", "BAcc drop, %", "paper: stated, from its table", "NDCG@10 drop, %", "paper: stated, from its table",
        "worst attacker, points from chance", *COUNTS.values(),
    )
    yield "Averages over cells (by number of attributes: BAcc drop, NDCG@10 drop)", headings, lines


def _cell(one: Mapping[str, Any]) -> tuple[str, str, str]:
    return one["dataset"], one["model"], one["requirement"]


def _means(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    keys = ("bacc_drop", "ndcg_drop", "worst_points")
    return {key: round(float(np.mean([one[key] for one in found])), 4) for key in keys} | {"cells": len(found)}


def _two(stated: float | None, recomputed: float | None) -> str:
    return "-" if stated is None else f"{stated:.1f}, {recomputed:.1f}"
