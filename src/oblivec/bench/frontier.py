"""How much privacy for how much ranking? The worst attacker against the NDCG lost, swept over the radius of the edit.

`paper`, `lego` and `lego` in label-free form on the same axes: LightGCN, all attributes at once. Cells are called
`frontier/METHOD/RADIUS`; the radius bounds a user's move relative to the length of the row, `default` is the method as
it comes (for `paper`: as printed). `frontier/original` is where all of them start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from oblivec.attacks.panel import PANEL
from oblivec.bench.frontier_figure import draw_frontier
from oblivec.console import show_table
from oblivec.experiments.base_models import BaseModels, data, models_root
from oblivec.experiments.cells import Cell, finish_cells
from oblivec.experiments.paired import relative_loss
from oblivec.experiments.releases import Means, resemblance, unpack, utility
from oblivec.experiments.setup import QUICK_ATTACKERS, QUICK_TRAINING

METHODS: dict[str, dict[str, Any]] = {
    "paper": {"method": "paper"},
    "lego": {"method": "lego"},
    "lego-label-free": {"method": "lego", "label_free": True},
}
BOUNDED: dict[str, dict[str, Any]] = {"paper": {"ball": "relative-row"}}
"""What else a method must be told when its radius is to be each user's, relative to the row."""
RADII: tuple[float | None, ...] = (0.05, 0.1, 0.2, 0.35, 0.6, None)
QUICK_RADII: tuple[float | None, ...] = (0.1, None)


def run(
    quick: bool = False,
    *,
    cells: Sequence[str] = (),
    resume: Path | None = None,
    enough_seconds: float = float("inf"),
    models_folder: Path | None = None,
    root: Path | None = None,
    figure: Path | None = None,
    device: str = "auto",
    jobs: int | None = None,
    methods: Mapping[str, Mapping[str, Any]] = METHODS,
    **means: Any,
) -> dict[str, Any]:
    """The points of every curve. `quick`: ML-100K, a model of a few epochs, two radii, four attackers.

    `figure` is drawn from the points that are done. `methods` maps a curve's name to `method` and its settings.
    """
    folder, dataset, training = models_root(models_folder, root), "ml-1m", {}
    if quick:
        folder, dataset, training = folder / "quick", "ml-100k", QUICK_TRAINING
        means = {"attackers": QUICK_ATTACKERS} | means
    chosen = Means(**({"device": device, "jobs": 1} | means))
    for settings in methods.values():  # an unknown method or setting is refused before anything is trained
        _bounded(chosen, settings, 1.0).lego(0)
    models = BaseModels(folder, training, device, root)
    work = partial(_point, chosen, models, dataset)
    kept_under, base = (chosen, dataset, training, dict(methods), BOUNDED), (dataset, "lightgcn", 0)
    everything = [Cell("frontier/original", partial(work, None, None), base, settings=kept_under)] + [
        Cell(f"frontier/{curve}/{'default' if radius is None else radius}", partial(work, dict(settings), radius), base,
             settings=kept_under)
        for radius in (QUICK_RADII if quick else RADII) for curve, settings in methods.items()
    ]
    finished = finish_cells(
        everything, patterns=cells, resume=resume, enough_seconds=enough_seconds, jobs=jobs,
        prepare=lambda _: models.train_missing([base], jobs),
    )
    found = finished.found
    original = found.pop("frontier/original", None)
    points = [_figures(name, cell) for name, cell in found.items()]
    result = {
        "dataset": dataset, "model": "lightgcn", "of": len(everything) - 1,
        "original": _worst(original) if original is not None else None, "points": points, "failed": finished.failed,
    }
    if figure is not None and points:
        draw_frontier(result, figure)
    return result


def show(result: Mapping[str, Any]) -> None:
    """The table a person reads: a row per point."""
    rows = [
        (point["method"], point["radius"], f"{point['ndcg_lost']['loss_percent']:.1f}", f"{point['neighbours']:.2f}",
         " ".join(f"{name} {value:.1f}" for name, value in point["worst"].items()))
        for point in result["points"]
    ]
    columns = ("method", "radius", "NDCG lost, %", "neighbours", "worst attacker, points from chance")
    title = f"{result['model']} on {result['dataset']}, {len(rows)} of {result['of']} points"
    show_table(title, columns, rows)


def _point(
    means: Means, base: BaseModels, dataset: str, settings: Mapping[str, Any] | None, radius: float | None
) -> dict[str, Any]:
    """One release, or without `settings` the original."""
    model = base.get(dataset, "lightgcn", 0)
    source, split = data(dataset, base.root)
    U, attributes = model.user_matrix(), source.attributes
    release = U
    if settings is not None:
        lego = _bounded(means, settings, radius).lego(0, items=model.item_matrix())
        release = lego.fit(U, attributes).protect(list(attributes))
    return {
        "attacks": means.attack(release, attributes, 0),
        "utility": utility(model, model.with_user_matrix(release), split, refit_epochs=0, seed=0),
    } | resemblance(U, release, 0, means.device)


def _bounded(means: Means, settings: Mapping[str, Any], radius: float | None) -> Means:
    """The means with a curve's method and settings, and its radius where there is one."""
    others = {name: value for name, value in settings.items() if name != "method"}
    bound = {} if radius is None else {"radius": radius} | BOUNDED.get(settings["method"], {})
    return replace(means, method=settings["method"], settings=others | bound)


def _figures(name: str, cell: Mapping[str, Any]) -> dict[str, Any]:
    _, method, radius = name.split("/")
    before, after = (unpack(cell["utility"][kind]["ranks"]).gains()[None] for kind in ("before", "after"))
    return {
        "method": method, "radius": radius, "ndcg_lost": relative_loss([(before, after)]),
        "worst": _worst(cell), "neighbours": cell["neighbours"], "moved": cell["moved"],
        "cell_seconds": cell["cell_seconds"],
    }


def _worst(cell: Mapping[str, Any]) -> dict[str, float]:
    """Per attribute, points from chance (above or below) of the panel member farthest from it."""
    return {
        name: 100 * max(
            abs(score - read["chance"]) for attacker, score in read["attackers"].items() if attacker in PANEL
        )
        for name, read in cell["attacks"]["embeddings"].items()
    }
