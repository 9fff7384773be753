"""`oblivec reproduce table1`: what attackers read and what ranking is left, every method beside the paper's figures.

Three models, data sets and requirements as in the paper's table 1. A row has what the paper prints (HR@10, NDCG@10, and
BAcc and F1 of its attacker, averaged over attributes) and beside it chance and the attacker of the panel that is
farthest from it. Where the grid search chose a setting (`oblivec bench tuning`) it is used, and said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from oblivec.console import show_table
from oblivec.experiments.cells import Cell
from oblivec.experiments.drawing import legend_above, line_style, page
from oblivec.experiments.measuring import prefixes
from oblivec.experiments.methods import in_order
from oblivec.experiments.printed import COLUMNS, printed_cell
from oblivec.experiments.releases import ranked
from oblivec.experiments.setup import ATTRIBUTES, BLIND, JUDGED, Setup, chain_cell, release_cell
from oblivec.experiments.summaries import Found, over_seeds, row, shown, shown_worst
from oblivec.experiments.table1_aggregates import aggregates, shown_aggregates
from oblivec.experiments.table1_targets import duels, show_duels, show_targets, targets
from oblivec.metrics import rank_test_items
from oblivec.recommenders import Ease

DP_SCALES = {"0.5": 0.5, "1": 1.0}
"""Variants of `dp` for every model; a third has the paper's loss of HR@10, found on the validation item."""
DP_UNMATCHED = {"2": 2.0}
"""The third where that was not searched for."""
CHAINED = ("d2dfr", "paper", "paper-tuned")
"""Methods whose requirements share most of the work."""
ONE_BY_ONE = ("leace", "lego", "advx")
AT_ANY_PRICE = "nearest"
"""Variant at the settings nearest to chance of all that were tried, where those lose 10 % of NDCG@10 or more."""
SHOWN = ("original", "dp", "d2dfr", "advx", "leace", "random-moments", "most-popular", "paper", "paper-tuned", "lego")
VARIANTS = ("", "matched", "tuned", AT_ANY_PRICE, *DP_SCALES, *DP_UNMATCHED)
"""Of methods, as far as the table shows them."""
EASE_FITS = ("ml-100k", "ml-1m", "kuairand-pure")
"""Data sets whose catalogue is small enough for EASE."""


def cells(setup: Setup) -> list[Cell]:
    """Whole seeds first: a run that is cut short has as many seeds of everything as it can."""
    found = [
        Cell(f"yardstick/{dataset}/ease", partial(_ease, setup, dataset),
             sources=("recommenders/yardsticks.py", "metrics/*.py", "datasets/splits.py"))
        for dataset in setup.datasets if dataset in EASE_FITS
    ]
    for seed in range(setup.seeds):
        for dataset in setup.datasets:
            for model in setup.models:
                found += _of_one_base(setup, dataset, model, seed)
    return found


def _of_one_base(setup: Setup, dataset: str, model: str, seed: int) -> Iterator[Cell]:
    everything = ATTRIBUTES[dataset]

    def settings(method: str) -> dict[str, Any]:
        return setup.settings(dataset, model, method)

    for method in BLIND:
        for variant, given in (_dp(setup, dataset, model) if method == "dp" else {"": {}}).items():
            yield release_cell(setup, dataset, model, seed, method, everything, given, variant)
    for method in CHAINED:
        yield chain_cell(setup, dataset, model, seed, method, everything, settings(method))
        if dear := {} if setup.quick else setup.chosen(dataset, model, method, "settings_at_any_price"):
            yield chain_cell(setup, dataset, model, seed, method, everything, dear, AT_ANY_PRICE)
    for method in ONE_BY_ONE:
        printed = {} if method == "advx" else settings(method)
        for names in prefixes(everything):
            yield release_cell(setup, dataset, model, seed, method, names, printed)
            if method == "advx" and settings(method):
                yield release_cell(setup, dataset, model, seed, method, names, settings(method), "tuned")


def _dp(setup: Setup, dataset: str, model: str) -> dict[str, dict[str, float]]:
    matched = setup.chosen(dataset, model, "dp")
    third = {"matched": matched["scale"]} if matched else DP_UNMATCHED
    return {variant: {"scale": scale} for variant, scale in (DP_SCALES | third).items()}


def _ease(setup: Setup, dataset: str) -> dict[str, Any]:
    _, split = setup.data(dataset)
    return {"utility": ranked({"after": rank_test_items(Ease().fit(split).scores, split)})}


# --- from cells to rows -----------------------------------------------------------------------------------------------


def summarise(found: Found) -> dict[str, Any]:
    """Rows by data set, requirement, model and method; aggregate lines; duels and targets of `lego`."""
    rows = []
    for (dataset, model, method, names), group in over_seeds(found, "release").items():
        name = method.partition(":")[0]
        if name not in SHOWN or method.partition(":")[2] not in VARIANTS:
            continue
        protected = tuple(names.split("+"))
        for wanted in prefixes(protected) if name in BLIND else [protected]:
            judged = {"verdicts": _verdicts(group, wanted)} if name in JUDGED else {}
            rows.append({
                "dataset": dataset, "model": model, "method": method, "requirement": "+".join(wanted),
                "settings": group[0]["settings"], "printed": printed_cell(dataset, len(wanted), method, model),
            } | row(group, wanted if "paper" in group[0] else None) | judged | _refitted(group))
    rows.sort(key=_place)
    ease = {
        name.split("/")[1]: {metric: cell["utility"]["after"][metric] for metric in ("hr@10", "ndcg@10")}
        for name, cell in found.items() if name.startswith("yardstick/")
    }
    against = duels(found)
    return {
        "rows": rows, "ease": ease, "aggregates": aggregates(rows), "duels": against,
        "targets": targets(rows, against, ease),
    }


def _place(one: Mapping[str, Any]) -> tuple[Any, ...]:
    return one["dataset"], one["requirement"].count("+"), one["model"], in_order(one["method"])


def _verdicts(group: list[Mapping[str, Any]], names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """By attribute: how often each verdict was given, and the smallest corrected p-value."""
    found = {}
    for name in names:
        reads = [cell["attacks"]["embeddings"][name] for cell in group]
        given = [read["verdict"] for read in reads]
        found[name] = {
            "verdicts": {verdict: given.count(verdict) for verdict in sorted(set(given))},
            "smallest_p_value": min(read["p_value"] for read in reads),
        }
    return found


def _refitted(group: list[Mapping[str, Any]]) -> dict[str, Any]:
    """NDCG@10 with the item side refitted, beside the original refitted the same way."""
    kinds = [kind for kind in ("control", "refit") if all(kind in cell["utility"] for cell in group)]
    return {f"{kind}_ndcg@10": sum(cell["utility"][kind]["ndcg@10"] for cell in group) / len(group) for kind in kinds}


# --- what a person sees -----------------------------------------------------------------------------------------------


def show(summary: Mapping[str, Any]) -> None:
    """A table per data set and requirement, then the aggregate lines, the duels and the targets."""
    rows = summary["rows"]
    columns = ("model", "method", "HR@10", "NDCG@10", "BAcc", "F1", "worst of the panel, points from chance", "seeds")
    for dataset, requirement in dict.fromkeys((one["dataset"], one["requirement"]) for one in rows):
        own = [one for one in rows if (one["dataset"], one["requirement"]) == (dataset, requirement)]
        chance = next((f"; chance {one['chance']:.2f}" for one in own if "chance" in one), "")
        changed = sorted({one["method"] for one in own if one["settings"] and one["method"] not in _SCALED})
        caption = (
            f"ours / the paper's, percent{chance}; "
            f"not at their default settings: {', '.join(changed) or 'none'}"
        )
        show_table(f"{dataset}, {requirement}", columns, [
            (one["model"], one["method"], *(_beside(one, column) for column in COLUMNS), shown_worst(one),
             one["seeds"])
            for one in own
        ], caption)
    for title, headings, lines in shown_aggregates(summary["aggregates"]):
        show_table(title, headings, lines)
    show_duels(summary["duels"])
    show_targets(summary["targets"])


_SCALED = tuple(f"dp:{variant}" for variant in (*DP_SCALES, *DP_UNMATCHED))


def _beside(one: Mapping[str, Any], column: str) -> str:
    ours = shown(one.get(column))
    return f"{ours} / {one['printed'][column]:.2f}" if one["printed"] else ours


def draw(summary: Mapping[str, Any], target: Path) -> None:
    """Ranking lost against the worst attacker, a panel per data set and model; a method's line goes from one attribute
    to all of them. Below left is good."""
    rows = [one for one in summary["rows"] if "worst_points" in one]
    datasets, models = ([*dict.fromkeys(one[key] for one in rows)] for key in ("dataset", "model"))
    if not rows:
        return
    with page(target, 0.5 + 2.3 * len(datasets)) as figure:
        panels = figure.subplots(len(datasets), len(models), squeeze=False)
        for (line, dataset), (column, model) in ((a, b) for a in enumerate(datasets) for b in enumerate(models)):
            panel = panels[line, column]
            own = [one for one in rows if (one["dataset"], one["model"]) == (dataset, model)]
            for method in dict.fromkeys(one["method"] for one in own):
                points = [one for one in own if one["method"] == method]
                panel.plot(
                    [one["ndcg@10_lost"]["mean"] for one in points], [one["worst_points"] for one in points],
                    label=method, **line_style(method),
                )
            panel.axhline(0, color="0.6", linewidth=0.8, zorder=0)
            panel.set_title(f"{model}, {dataset}")
            if column == 0:
                panel.set_ylabel("worst attacker,\npoints from chance")
        figure.supxlabel("NDCG@10 lost, %", fontsize=8)
        legend_above(figure, panels.flat)
