"""`oblivec reproduce correlated`: what protecting one attribute does to another (LightGCN on ML-1M).

Two tables. The paper's: gender and occupation attacked after neither, one or both were protected. And its first
challenge, which it states without a figure: what is read of the attributes that sequential unlearning removed *before*,
after each of its steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from oblivec.console import show_table
from oblivec.experiments.cells import Cell
from oblivec.experiments.drawing import legend_above, line_style, page
from oblivec.experiments.measuring import measure_release, prefixes
from oblivec.experiments.methods import chain, make_release, sources
from oblivec.experiments.printed import printed
from oblivec.experiments.releases import Means
from oblivec.experiments.setup import ATTRIBUTES, MEASURING, Setup
from oblivec.experiments.summaries import Found, over_seeds, row, shown

DATASETS, MODELS = ("ml-1m",), ("lightgcn",)
"""What the paper shows; others may be asked for."""
METHODS = ("paper", "paper-tuned", "lego")


def pair(dataset: str) -> tuple[str, str]:
    """The two attributes of the first table: gender and occupation, elsewhere the first and the last."""
    names = ATTRIBUTES[dataset]
    return names[0], names[-1]


def cells(setup: Setup) -> list[Cell]:
    """`correlated/DATASET/MODEL/SEED/METHOD/PROTECTED` and `sequence/DATASET/MODEL/SEED/d2dfr/PROTECTED`."""
    found = []
    for seed in range(setup.seeds):
        for dataset in setup.datasets:
            first, last = pair(dataset)
            for model in setup.models:
                of = f"{dataset}/{model}/{seed}"
                for method, protected in (("original", ()), *(
                    (method, names) for method in METHODS for names in ((first,), (last,), (first, last))
                )):
                    settings = setup.settings(dataset, model, method)
                    work = partial(_protect, setup, dataset, model, seed, method, protected, settings)
                    name = f"correlated/{of}/{method}/{'+'.join(protected) or 'nothing'}"
                    found.append(_cell(setup, name, work, (dataset, model, seed), method, settings))
                settings = setup.settings(dataset, model, "d2dfr")
                parts = tuple(f"sequence/{of}/d2dfr/{'+'.join(names)}" for names in prefixes(ATTRIBUTES[dataset]))
                work = partial(_sequence, setup, dataset, model, seed, settings, parts)
                found.append(_cell(setup, parts[-1], work, (dataset, model, seed), "d2dfr", settings, parts))
    return found


def _cell(
    setup: Setup, name: str, work: Any, base: tuple[str, str, int], method: str, settings: Mapping[str, Any],
    parts: tuple[str, ...] = (),
) -> Cell:
    kept_under = (sorted(settings.items()), setup.attackers, sorted(setup.base.settings.items()))
    return Cell(name, work, base, (*MEASURING, *sources(method)), kept_under, parts)


def _protect(
    setup: Setup, dataset: str, model: str, seed: int, method: str, protected: Sequence[str],
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Protect these, attack both of the pair."""
    base, (_, split) = setup.base.get(dataset, model, seed), setup.data(dataset)
    attacked = setup.attributes(dataset, pair(dataset))
    wanted = setup.attributes(dataset, protected or pair(dataset))  # the original looks at none
    made = make_release(method, base, split, wanted, seed=seed, device=setup.device, settings=settings)
    return measure_release(
        made, base, split, attacked, seed=seed, means=_means(setup), p_values=False, refit_epochs=0
    )


def _sequence(
    setup: Setup, dataset: str, model: str, seed: int, settings: Mapping[str, Any], parts: Sequence[str]
) -> dict[str, Any]:
    """All attributes attacked after each step."""
    base, (_, split) = setup.base.get(dataset, model, seed), setup.data(dataset)
    attributes = setup.attributes(dataset, ATTRIBUTES[dataset])
    steps = chain("d2dfr", base, split, attributes, seed=seed, device=setup.device, settings=settings)
    return {
        part: measure_release(
            made, base, split, attributes, seed=seed, means=_means(setup), p_values=False, refit_epochs=0
        )
        for part, (_, made) in zip(parts, steps, strict=True)
    }


def _means(setup: Setup) -> Means:
    return Means(attackers=setup.attackers, device=setup.device, jobs=1)


def summarise(found: Found) -> dict[str, Any]:
    """`rows`: the paper's table. `steps`: sequential unlearning, with what each earlier attribute went back up by."""
    rows = []
    for (dataset, model, method, protected), group in over_seeds(found, "correlated").items():
        shown_by_paper = (dataset, model) == ("ml-1m", "lightgcn")
        own = "original" if method == "original" else protected
        rows.append({
            "dataset": dataset, "model": model, "method": method, "protected": protected,
            "printed": printed()["correlated"].get(own) if shown_by_paper else None,
        } | row(group))
    steps: list[dict[str, Any]] = []
    for (dataset, model, method, removed), group in over_seeds(found, "sequence").items():
        steps.append({"dataset": dataset, "model": model, "method": method, "removed": removed} | row(group))
    for one in steps:
        one["came_back"] = _came_back(one, steps)
    return {"rows": rows, "steps": steps}


def _came_back(one: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """For each attribute removed before the last step: its worst attacker's points above those right after its own
    removal. Above 0, later steps have undone a part of it."""
    names = one["removed"].split("+")
    found = {}
    for position, name in enumerate(names[:-1], start=1):
        then = [step for step in steps if step["removed"] == "+".join(names[:position])
                and (step["dataset"], step["model"]) == (one["dataset"], one["model"])]
        if then:
            found[name] = round(abs(one["worst"][name]["points"]) - abs(then[0]["worst"][name]["points"]), 4)
    return found


def show(summary: Mapping[str, Any]) -> None:
    rows = []
    for one in summary["rows"]:
        by_name = []
        for name, score in one["bacc_by_attribute"].items():
            figures = (one["printed"] or {}).get(name)
            beside = f" / {figures['bacc']:.2f}" if figures else ""
            by_name.append(f"{shown(score)}{beside} ({one['worst'][name]['points']:+.1f})")
        rows.append((one["dataset"], one["model"], one["method"], one["protected"], *by_name, shown(one["ndcg@10"])))
    caption = "BAcc of the paper's attacker / as printed (worst of the panel, points from chance)"
    if rows:
        pairs = {one["dataset"]: tuple(one["bacc_by_attribute"]) for one in summary["rows"]}
        columns = next(iter(pairs.values())) if len(set(pairs.values())) == 1 else ("first", "second")
        headings = ("data", "model", "method", "protected", *columns, "NDCG@10")
        show_table("Correlated attributes", headings, rows, caption)
    show_table(
        "Sequential unlearning: what is read after each step",
        ("data", "model", "removed so far", "BAcc (worst of the panel, points from chance)", "came back", "NDCG@10"),
        [
            (one["dataset"], one["model"], one["removed"], ", ".join(
                f"{name} {shown(score)} ({one['worst'][name]['points']:+.1f})"
                for name, score in one["bacc_by_attribute"].items()
            ), ", ".join(f"{name} {points:+.1f}" for name, points in one["came_back"].items()) or "-",
             shown(one["ndcg@10"]))
            for one in summary["steps"]
        ],
    )


def draw(summary: Mapping[str, Any], target: Path) -> None:
    """A panel per attribute of the paper's table, its points by what was protected; hollow: the paper's."""
    rows = summary["rows"]
    if not rows:
        return
    dataset, model = rows[0]["dataset"], rows[0]["model"]
    rows = [one for one in rows if (one["dataset"], one["model"]) == (dataset, model)]
    kinds = list(dict.fromkeys(one["protected"] for one in rows))
    with page(target, 2.8) as figure:
        names = list(rows[0]["bacc_by_attribute"])
        panels = figure.subplots(1, len(names), squeeze=False)[0]
        for panel, name in zip(panels, names, strict=True):
            for method in dict.fromkeys(one["method"] for one in rows):
                own = [one for one in rows if one["method"] == method]
                places = [kinds.index(one["protected"]) for one in own]
                style = line_style(method) | {"linestyle": "none"}
                panel.plot(places, [one["bacc_by_attribute"][name]["mean"] for one in own], label=method, **style)
            printed_points = {kinds.index(one["protected"]): one["printed"][name]["bacc"] for one in rows
                              if one["printed"]}
            panel.plot(list(printed_points), list(printed_points.values()), "o", color="black", markersize=8,
                       markerfacecolor="none", label="the paper's LEGO")
            panel.axhline(rows[0]["worst"][name]["bacc"] - rows[0]["worst"][name]["points"], color="0.6", linewidth=0.8)
            panel.set_xticks(range(len(kinds)), [kind.replace("+", "\n+ ") for kind in kinds])
            panel.set_title(f"{name} attacked")
        panels[0].set_ylabel("BAcc, % (line: chance)")
        figure.supxlabel(f"protected ({model}, {dataset})", fontsize=8)
        legend_above(figure, panels)
