"""From finished cells of `lego-targets` to the targets: each with its figure, its limit, and reached or not.

A target is judged when all of its cells are there; until then its figure is that of the cells so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from oblivec.attacks.panel import PANEL
from oblivec.console import show_table
from oblivec.experiments.paired import Pair, relative_loss
from oblivec.experiments.releases import OUTSIDE, UNTOUCHED, unpack

Cells = Mapping[str, Mapping[str, Any]]
POINTS = {"gender": 2.0, "age": 2.0, "occupation": 3.0}
LOSS_PERCENT, LOSS_ALONE_PERCENT = 3.4, 1.0
CHANGE_SHARE = 1 / 50
UNLABELLED_POINTS, DIFFERENCING_POINTS = 4.0, 1.0
R2, NEIGHBOURS = 0.02, 0.35
ALL, ALONE = "gender+age+occupation", "gender"


@dataclass(frozen=True)
class Target:
    number: int
    what: str
    limit: str
    cells: Sequence[str]
    """Patterns of the names of its cells."""
    judge: Callable[[Cells], tuple[str, bool, dict[str, Any]]]
    """Figure in words, whether it is within the limit, and the numbers behind it."""


def summarise(expected: Sequence[str], found: Cells, attackers: Sequence[str]) -> dict[str, Any]:
    """All targets. `expected` names every cell there should be."""
    targets = []
    for target in TARGETS:
        wanted = [name for name in expected if any(fnmatchcase(name, pattern) for pattern in target.cells)]
        there = {name: found[name] for name in wanted if name in found}
        figure, within, numbers = target.judge(there) if there else ("", False, {})
        whole = len(there) == len(wanted)
        targets.append({
            "target": target.number, "what": target.what, "limit": target.limit, "figure": figure,
            "reached": within if whole and there else None, "cells": len(there), "of": len(wanted),
        } | numbers)
    seconds = {name: cell["cell_seconds"] for name, cell in found.items()}
    return {"attackers": list(attackers), "targets": targets, "cells": _slim(found), "cell_seconds": seconds}


def show_targets(result: Mapping[str, Any]) -> None:
    """The table a person reads."""
    words = {True: "reached", False: "NOT REACHED", None: "incomplete"}
    rows = [
        (row["target"], row["what"], row["limit"], row["figure"] or "-", f"{row['cells']}/{row['of']}",
         words[row["reached"]])
        for row in result["targets"]
    ]
    caption = (
        f"untouched by tuning: {', '.join(UNTOUCHED)} (but paper was looked at on MultVAE); "
        f"beside the panel: {', '.join(OUTSIDE)}"
    )
    show_table("Targets", ("", "what", "limit", "figure", "cells", ""), rows, caption)


# --- privacy ----------------------------------------------------------------------------------------------------------


def distances(cells: Cells, threat: str, attackers: Iterable[str]) -> dict[str, dict[str, dict[str, float]]]:
    """Points above chance, mean over base seeds: by model, attribute and attacker."""
    wanted = set(attackers)
    gathered: dict[tuple[str, str, str], list[float]] = {}
    for name, cell in cells.items():
        model = name.split("/")[2]
        for attribute, read in cell["attacks"][threat].items():
            for attacker, score in read["attackers"].items():
                if attacker.partition("@")[0] in wanted:
                    gathered.setdefault((model, attribute, attacker), []).append(100 * (score - read["chance"]))
    found: dict[str, dict[str, dict[str, float]]] = {}
    for (model, attribute, attacker), points in gathered.items():
        found.setdefault(model, {}).setdefault(attribute, {})[attacker] = float(np.mean(points))
    return found


def farthest(by_model: Mapping[Any, Any]) -> dict[str, float]:
    """By attribute: the farthest from chance over models and attackers, with its sign."""
    found: dict[str, float] = {}
    for by_attribute in by_model.values():
        for attribute, by_attacker in by_attribute.items():
            for points in by_attacker.values():
                if abs(points) >= abs(found.get(attribute, 0.0)):
                    found[attribute] = points
    return found


def _privacy(cells: Cells) -> tuple[str, bool, dict[str, Any]]:
    kinds = {"panel": PANEL, "untouched": UNTOUCHED, "outside": OUTSIDE}
    points = {kind: distances(cells, "embeddings", names) for kind, names in kinds.items()}
    worst = {kind: farthest(found) for kind, found in points.items()}
    within = all(abs(value) <= POINTS[name] for name, value in worst["panel"].items())
    figure = "\n".join(f"{kind} {_points(found)}" for kind, found in worst.items() if found)
    single = [distances({name: cell}, "embeddings", PANEL) for name, cell in cells.items()]
    numbers = {"points_above_chance": {kind: points[kind] for kind in ("panel", "outside")}, "worst": worst}
    numbers["worst_of_any_base_seed"] = farthest(dict(enumerate(by for one in single for by in one.values())))
    return figure, within, numbers


def _unlabelled(cells: Cells) -> tuple[str, bool, dict[str, Any]]:
    worst = {}
    for form in ("label-free", "label-aware"):
        chosen = {name: cell for name, cell in cells.items() if name.endswith(form)}
        found = distances(chosen, "unlabelled", PANEL)
        worst[form] = {
            attribute: max(max(by[attribute].values()) for by in found.values() if attribute in by)
            for attribute in {name for by in found.values() for name in by}
        }
    within = all(value <= UNLABELLED_POINTS for value in worst["label-free"].values())
    figure = "\n".join(f"{form} {_points(found)}" for form, found in worst.items() if found)
    return figure, within, {"worst": worst}


def _later(cells: Cells) -> tuple[str, bool, dict[str, Any]]:
    points = {kind: distances(cells, "embeddings", names) for kind, names in (("panel", PANEL), ("outside", OUTSIDE))}
    worst = {kind: farthest(found) for kind, found in points.items()}
    within = all(value <= UNLABELLED_POINTS for value in worst["panel"].values())
    figure = "\n".join(f"{kind} {_points(found)}" for kind, found in worst.items() if found)
    return figure, within, {"worst": worst, "points_above_chance": points}


def _differencing(cells: Cells) -> tuple[str, bool, dict[str, Any]]:
    """Best attacker on the difference against the best on the original: means over seeds, attribute by attribute."""
    difference, original = (distances(cells, threat, PANEL) for threat in ("differencing", "before"))
    gained = {
        model: {name: max(by[name].values()) - max(original[model][name].values()) for name in by}
        for model, by in difference.items()
    }
    worst = max(value for by in gained.values() for value in by.values())
    numbers = {"gained_points": gained, "difference": difference, "original": original}
    return f"{worst:+.1f} points", worst <= DIFFERENCING_POINTS, numbers


# --- ranking ----------------------------------------------------------------------------------------------------------


def losses(cells: Cells, before: str, after: str) -> dict[str, dict[str, Any]]:
    """HR@10 and NDCG@10 lost from one to the other: the mean over models, and `by_model`."""
    found = {}
    for metric, values in (("hr@10", "hits"), ("ndcg@10", "gains")):
        pairs: dict[str, Pair] = {}
        for model in dict.fromkeys(name.split("/")[2] for name in cells):
            own = [cell["utility"] for name, cell in cells.items() if name.split("/")[2] == model]
            old, new = (
                np.stack([getattr(unpack(row[kind]["ranks"]), values)() for row in own]) for kind in (before, after)
            )
            pairs[model] = old, new
        found[metric] = relative_loss(list(pairs.values())) | {
            "by_model": {model: relative_loss([pair]) for model, pair in pairs.items()}
        }
    return found


def _two_losses(cells: Cells) -> dict[str, dict[str, Any]]:
    found = {"without refit": losses(cells, "before", "after")}
    if all("refit" in cell["utility"] for cell in cells.values()):
        found["refit against control"] = losses(cells, "control", "refit")
    return found


def _ranking(cells: Cells) -> tuple[str, bool, dict[str, Any]]:
    found = _two_losses(cells)
    within = any(all(row["loss_percent"] <= LOSS_PERCENT for row in by.values()) for by in found.values())
    return "\n".join(f"{kind} {_losses(by)}" for kind, by in found.items()), within, {"losses": found}


def _alone(cells: Cells) -> tuple[str, bool, dict[str, Any]]:
    found = _two_losses(cells)
    text, near, numbers = _privacy(cells)
    small = any(by["ndcg@10"]["loss_percent"] <= LOSS_ALONE_PERCENT for by in found.values())
    shown = "\n".join(f"{kind} {_losses(by)}" for kind, by in found.items())
    return f"{shown}\n{text}", near and small, {"losses": found} | numbers


# --- the rest ---------------------------------------------------------------------------------------------------------


def _change(cells: Cells) -> tuple[str, bool, dict[str, Any]]:
    """The slowest change of any model as a share of the fastest training."""
    slowest = {name: max(cell["changes"].values()) for name, cell in cells.items() if name.startswith("change/")}
    training = {name: cell["seconds"] for name, cell in cells.items() if name.startswith("training/")}
    numbers = {"slowest_change_seconds": slowest, "training_seconds": training}
    if not (slowest and training):
        return "", False, numbers
    worst, shortest = max(slowest.values()), min(training.values())
    figure = f"1/{shortest / max(worst, 1e-9):.0f} ({worst:.1f} s of {shortest:.0f} s)"
    return figure, worst <= CHANGE_SHARE * shortest, numbers


def _continuous(cells: Cells) -> tuple[str, bool, dict[str, Any]]:
    """Best R2, mean over base seeds."""
    gathered: dict[str, dict[str, list[float]]] = {}
    for name, cell in cells.items():
        case = "/".join(name.split("/")[1:-1])
        for read in cell["attacks"]["embeddings"].values():
            for attacker, score in read["attackers"].items():
                gathered.setdefault(case, {}).setdefault(attacker, []).append(score)
    means = {case: {name: float(np.mean(scores)) for name, scores in by.items()} for case, by in gathered.items()}
    best = {case: max(score for name, score in by.items() if name not in OUTSIDE) for case, by in means.items()}
    figure = "\n".join(f"{case} {value:.3f}" for case, value in best.items())
    return figure, max(best.values()) <= R2, {"best_r2": best, "r2": means}


def _neighbours(cells: Cells) -> tuple[str, bool, dict[str, Any]]:
    found = {name: cell["neighbours"] for name, cell in cells.items()}
    least = min(found, key=lambda name: found[name])
    return f"{found[least]:.2f}\n{least}", found[least] >= NEIGHBOURS, {"neighbours": found}


TARGETS = (
    Target(1, "every panel member near chance, three attributes", "2, 2 and 3 points, above or below",
           [f"release/*/{ALL}"], _privacy),
    Target(2, "HR@10 and NDCG@10 lost, three attributes, mean over models", f"{LOSS_PERCENT} %",
           [f"release/*/{ALL}"], _ranking),
    Target(3, "gender alone", f"NDCG {LOSS_ALONE_PERCENT} %, 2 points", [f"release/*/{ALONE}"], _alone),
    Target(4, "requirement change from a warm store, share of training", "1/50", ["change/*", "training/*"],
           _change),
    Target(5, "half the labels hidden, label-free: above chance", f"{UNLABELLED_POINTS:g} points", ["unlabelled/*"],
           _unlabelled),
    Target(6, "label-free: the difference reads more than the original", f"{DIFFERENCING_POINTS:g} point",
           ["differencing/*"], _differencing),
    Target(7, "continuous: best regressor's R2", f"{R2}", ["continuous/*"], _continuous),
    Target(8, "least overlap of 50 nearest in any cell", f"{NEIGHBOURS}",
           ["release/*", "differencing/*", "unlabelled/*", "continuous/*"], _neighbours),
    Target(9, "beyond the targets: users who come later", f"{UNLABELLED_POINTS:g} points", ["later/*"], _later),
)


def _slim(found: Cells) -> dict[str, Any]:
    """Cells without the rank of every single user."""
    slim: dict[str, Any] = {}
    for name, cell in found.items():
        slim[name] = {key: value for key, value in cell.items() if key != "machine"}
        if "utility" in cell:
            slim[name]["utility"] = {
                kind: {key: value for key, value in row.items() if key != "ranks"}
                for kind, row in cell["utility"].items()
            }
    return slim


def _points(by_attribute: Mapping[str, float]) -> str:
    return " ".join(f"{name} {value:+.1f}" for name, value in by_attribute.items())


def _losses(by_metric: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{metric.upper()} {row['loss_percent']:.1f} % [{row['ci'][0]:.1f}, {row['ci'][1]:.1f}]"
        for metric, row in by_metric.items()
    )
