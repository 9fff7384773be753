"""From measured releases to rows of a table: means over base seeds, averages over attributes, the worst attacker.

Everything is in percent. The paper averages the BAcc over attributes and stops there; an attribute that leaks hides
behind others that do not, so the attacker of the panel that is farthest from chance stands beside it, per attribute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from oblivec.attacks.panel import PANEL

Found = Mapping[str, Mapping[str, Any]]
"""Results of cells by name."""
SEED = 3
"""Which part of a name (`release/DATASET/MODEL/SEED/...`) is the base seed."""


def over_seeds(found: Found, kind: str) -> dict[tuple[str, ...], list[Mapping[str, Any]]]:
    """The cells of one kind by the rest of their name, the seed left out."""
    gathered: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for name, cell in found.items():
        parts = name.split("/")
        if parts[0] == kind:
            gathered.setdefault((*parts[1:SEED], *parts[SEED + 1 :]), []).append(cell)
    return gathered


def mean_and_spread(values: Iterable[float]) -> dict[str, float | None]:
    """The mean and, where there are several, the standard deviation."""
    known = [float(value) for value in values]
    spread = round(float(np.std(known, ddof=1)), 4) if len(known) > 1 else None
    return {"mean": round(float(np.mean(known)), 4), "spread": spread}


def row(cells: Sequence[Mapping[str, Any]], attributes: Sequence[str] | None = None) -> dict[str, Any]:
    """One row of a table from the same release on several base seeds; attacks on `attributes` only, where named."""
    names = list(attributes) if attributes is not None else list(cells[0].get("paper", {}))
    after, before = ([cell["utility"][kind] for cell in cells] for kind in ("after", "before"))
    found: dict[str, Any] = {"seeds": len(cells), "attributes": names}
    for metric in ("hr@10", "ndcg@10"):
        found[metric] = mean_and_spread(one[metric] for one in after)
        found[f"original_{metric}"] = mean_and_spread(one[metric] for one in before)
        found[f"{metric}_lost"] = mean_and_spread(
            100 * (old[metric] - new[metric]) / max(old[metric], 1e-12) for old, new in zip(before, after, strict=True)
        )
    if names and "paper" in cells[0]:
        for score in ("bacc", "micro_f1"):
            by_name = {name: [100 * cell["paper"][name][score] for cell in cells] for name in names}
            found[score] = mean_and_spread(np.mean(list(by_name.values()), axis=0))
            found[f"{score}_by_attribute"] = {name: mean_and_spread(values) for name, values in by_name.items()}
        read = [cell["attacks"]["embeddings"] for cell in cells]
        found["chance"] = round(100 * float(np.mean([read[0][name]["chance"] for name in names])), 4)
        found["worst"] = {name: worst_attacker([one[name] for one in read]) for name in names}
        found["worst_points"] = round(float(np.mean([abs(one["points"]) for one in found["worst"].values()])), 4)
    return found


def worst_attacker(reads: Sequence[Mapping[str, Any]], attackers: Sequence[str] = PANEL) -> dict[str, Any]:
    """The attacker farthest from chance on one attribute, its points above chance (or below), means over seeds."""
    points = {
        name: float(np.mean([100 * (one["attackers"][name] - one["chance"]) for one in reads]))
        for name in reads[0]["attackers"]
        if name.partition("@")[0] in attackers
    }
    worst = max(points, key=lambda name: abs(points[name]))
    chance = 100 * float(np.mean([one["chance"] for one in reads]))
    return {"attacker": worst, "points": round(points[worst], 4), "bacc": round(chance + points[worst], 4)}


# --- words ------------------------------------------------------------------------------------------------------------


def shown(figure: Mapping[str, Any] | None, digits: int = 2) -> str:
    """A mean with its spread, as the paper prints them."""
    if figure is None:
        return "-"
    spread = "" if figure["spread"] is None else f" ± {figure['spread']:.{digits}f}"
    return f"{figure['mean']:.{digits}f}{spread}"


def shown_worst(found: Mapping[str, Any]) -> str:
    """The worst attacker of every attribute: points above or below chance."""
    return ", ".join(f"{name} {one['points']:+.1f}" for name, one in found.get("worst", {}).items()) or "-"
