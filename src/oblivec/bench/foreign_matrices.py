"""Does unlearning hold on matrices from elsewhere? Implicit's ALS and BPR, scikit-learn's NMF, and made-up ones with
every known fault.

    factorised/LIBRARY/DATASET/SEED     als, bpr, nmf on ml-1m and (with --path) kuairand-pure; two or three attributes
    made-up/KIND/SEED                   heavy tails, constant and collinear columns, non-linear leaks, rare classes ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from oblivec.attacks.panel import PANEL
from oblivec.bench.factorised import SETTINGS, Library, factorised, is_installed
from oblivec.console import say, show_table
from oblivec.datasets.attributes import Attribute
from oblivec.datasets.foreign import KINDS, foreign_matrix
from oblivec.devices import resolve_device
from oblivec.experiments.base_models import data, models_root
from oblivec.experiments.cells import Cell, finish_cells
from oblivec.experiments.paired import relative_loss
from oblivec.experiments.releases import OUTSIDE, UNTOUCHED, Means, ranked, resemblance, unpack
from oblivec.metrics import factor_scorer, rank_test_items

USERS, DIMENSIONS = 6000, 64
UNATTACKABLE = ("wide",)
"""Too few users to measure anything on; the tests have it."""
FEW_CLASSES, FEW_POINTS, MANY_POINTS, R2 = 10, 2.0, 3.0, 0.02
"""As on MovieLens: 2 points from chance, 3 where there are many classes, R2 of 0.02 for a number."""
QUICK_KINDS, QUICK_USERS, QUICK_DIMENSIONS = ("heavy-tails", "constant-column"), 400, 16
QUICK_ATTACKERS = ("linear", "pairs", "neighbours")


def run(
    quick: bool = False,
    *,
    cells: Sequence[str] = (),
    resume: Path | None = None,
    enough_seconds: float = float("inf"),
    models_folder: Path | None = None,
    root: Path | None = None,
    path: Path | None = None,
    device: str = "auto",
    jobs: int | None = None,
    seeds: int = 3,
    **means: Any,
) -> dict[str, Any]:
    """Every matrix with its figures. `quick`: two small made-up ones and, where implicit is installed, ALS on ML-100K.

    `path` is the folder of KuaiRand-Pure, without which it is left out. `means`: fields of `Means` to overrule.
    """
    if quick:
        means = {"attackers": QUICK_ATTACKERS} | means
    chosen = Means(**({"device": device, "jobs": 1} | means))
    chosen.lego(0)  # an unknown method or setting is refused before anything is factorised
    folder = models_root(models_folder, root)
    users, dimensions = (QUICK_USERS, QUICK_DIMENSIONS) if quick else (USERS, DIMENSIONS)
    kinds = QUICK_KINDS if quick else [kind for kind in KINDS if kind not in UNATTACKABLE]
    cases = _factorised_cases(quick, path)
    everything = []
    kept_under = (chosen, users, dimensions, SETTINGS)
    for seed in range(1 if quick else seeds):
        for library, dataset in cases:
            work = partial(_factorised, chosen, folder, library, dataset, seed, root, path)
            everything.append(Cell(f"factorised/{library}/{dataset}/{seed}", work, settings=kept_under))
        everything += [
            Cell(f"made-up/{kind}/{seed}", partial(_made_up, chosen, kind, users, dimensions, seed),
                 settings=kept_under)
            for kind in kinds
        ]
    finished = finish_cells(everything, patterns=cells, resume=resume, enough_seconds=enough_seconds, jobs=jobs)
    figures = {name: _figures(cell) for name, cell in finished.found.items()}
    return {"means": repr(chosen), "cells": figures, "of": len(everything), "failed": finished.failed}


def show(result: Mapping[str, Any]) -> None:
    """The table a person reads: a row per matrix and attribute."""
    rows = []
    for name, cell in result["cells"].items():
        lost = cell.get("ndcg_lost")
        for attribute, row in cell["attributes"].items():
            rows.append((
                name, attribute, *(_signed(row[kind]) for kind in ("before", "panel", "untouched", "outside")),
                "yes" if row["within"] else "NO", f"{cell['neighbours']:.2f}",
                "" if lost is None else f"{lost['loss_percent']:.1f} [{lost['ci'][0]:.1f}, {lost['ci'][1]:.1f}]",
            ))
    columns = ("matrix", "attribute", "before", "panel", "untouched", "outside", "within", "neighbours", "NDCG lost, %")
    caption = (
        f"points from chance (R2 x 100 for a number) of the attacker farthest from it; untouched by tuning: "
        f"{', '.join(UNTOUCHED)} (but paper was looked at on MultVAE); beside the panel: {', '.join(OUTSIDE)}"
    )
    show_table(f"Matrices from elsewhere, {len(result['cells'])} of {result['of']} cells", columns, rows, caption)


def _factorised_cases(quick: bool, path: Path | None) -> list[tuple[Library, str]]:
    if quick:
        return [("als", "ml-100k")] if is_installed() else []
    if path is None:
        say("kuairand-pure is left out: give its folder with --path")
    return [(library, name) for name in ("ml-1m", *(["kuairand-pure"] if path else [])) for library in SETTINGS]


def _factorised(
    means: Means, folder: Path, library: Library, dataset: str, seed: int, root: Path | None, path: Path | None
) -> dict[str, Any]:
    source, split = data(dataset, root, path if dataset == "kuairand-pure" else None)
    U, items = factorised(folder, library, dataset, split, seed)
    measured, release = _measure(means, U, source.attributes, seed, items)
    place = resolve_device(means.device)
    table = torch.from_numpy(items).to(place)
    scorers = {
        name: factor_scorer(torch.from_numpy(matrix).to(place), table)
        for name, matrix in (("before", U), ("after", release))
    }
    quality = {name: rank_test_items(scorer, split, device=place) for name, scorer in scorers.items()}
    return measured | {"utility": ranked(quality)}


def _made_up(means: Means, kind: str, users: int, dimensions: int, seed: int) -> dict[str, Any]:
    made = foreign_matrix(kind, users, dimensions, seed)
    return _measure(means, made.embeddings, made.attributes, seed)[0]


def _measure(
    means: Means, U: np.ndarray, attributes: Mapping[str, Attribute], seed: int, items: np.ndarray | None = None
) -> tuple[dict[str, Any], np.ndarray]:
    """Protect all attributes at once."""
    lego = means.lego(seed, items=items).fit(U, attributes)
    release = lego.protect(list(attributes))
    found = {"attacks": means.attack(release, attributes, seed, baseline=U), "seconds": dict(lego.seconds)}
    return found | resemblance(U, release, seed, means.device), release


def _figures(cell: Mapping[str, Any]) -> dict[str, Any]:
    """What the table and the JSON have of a cell."""
    attributes = {}
    for name, read in cell["attacks"]["embeddings"].items():
        before = cell["attacks"]["before"].get(name, read)
        continuous = read["chance"] == 0
        few = continuous or 1 / read["chance"] <= FEW_CLASSES
        row = {
            kind: _farthest(read, names, one_sided=continuous)
            for kind, names in (("panel", PANEL), ("untouched", UNTOUCHED), ("outside", OUTSIDE))
        }
        limit = 100 * R2 if continuous else FEW_POINTS if few else MANY_POINTS
        within = row["panel"] is not None and abs(row["panel"]) <= limit
        attributes[name] = row | {
            "before": _farthest(before, PANEL, one_sided=continuous), "within": within, "limit": limit,
            "verdict": read["verdict"], "n": read["n"],
        }
    found = {"attributes": attributes, "neighbours": cell["neighbours"], "moved": cell["moved"],
             "seconds": cell["seconds"], "cell_seconds": cell["cell_seconds"]}
    if "utility" in cell:
        rankings = {name: unpack(row["ranks"]) for name, row in cell["utility"].items()}
        for key, values in (("hr_lost", "hits"), ("ndcg_lost", "gains")):
            pair = [getattr(rankings[name], values)()[None] for name in ("before", "after")]
            found[key] = relative_loss([(pair[0], pair[1])])
        found["utility"] = {name: ranking.summary() for name, ranking in rankings.items()}
    return found


def _farthest(read: Mapping[str, Any], names: Sequence[str], *, one_sided: bool) -> float | None:
    """Points from chance of the attacker farthest from it; a number's R2 counts above 0 only."""
    points = [100 * (score - read["chance"]) for name, score in read["attackers"].items() if name in names]
    if not points:
        return None
    return max(max(points), 0.0) if one_sided else max(points, key=abs)


def _signed(points: float | None) -> str:
    return "" if points is None else f"{points:+.1f}"
