"""`oblivec reproduce bound`: is splitting the problem in two worth a loss? P1 against P2 (the paper's table in C.2).

P1 is what LEGO's two steps leave, P2 what solving for matrices and weights together leaves; the paper calls the bound
tight because its two figures are close. Both are vCLUB by a q, and a q that lags behind the matrix reads little from a
matrix that tells much. So every figure stands here twice: by the paper's q, and by a fresh one on held-out users.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from oblivec.calibration.alternating import Alternating
from oblivec.calibration.base import calibrator
from oblivec.console import show_table
from oblivec.devices import resolve_device
from oblivec.errors import OblivecError
from oblivec.experiments.cells import Cell
from oblivec.experiments.drawing import COLOURS, legend_above, page
from oblivec.experiments.end_to_end import solve, told
from oblivec.experiments.methods import make_release, sources
from oblivec.experiments.printed import printed
from oblivec.experiments.setup import Setup
from oblivec.experiments.summaries import Found, mean_and_spread, over_seeds, shown

STEPS_OF = ("paper", "paper-tuned")
"""Whose loop solves both: as printed, and with a q that keeps up."""
KINDS = ("original", "P1", "P2")
ESTIMATES = ("printed_q", "fresh_q")


def cells(setup: Setup) -> list[Cell]:
    """`bound/DATASET/MODEL/SEED/STEPS_OF`, all attributes of the data set."""
    found = []
    for seed in range(setup.seeds):
        for dataset in setup.datasets:
            for model in setup.models:
                for method in STEPS_OF:
                    settings = setup.settings(dataset, model, method)
                    found.append(Cell(
                        f"bound/{dataset}/{model}/{seed}/{method}",
                        partial(_measure, setup, dataset, model, seed, method, settings), (dataset, model, seed),
                        (*sources(method), "recommenders/*.py", "randomness.py", "experiments/end_to_end.py"),
                        (sorted(settings.items()), sorted(setup.base.settings.items()), setup.quick),
                    ))
    return found


def _measure(
    setup: Setup, dataset: str, model: str, seed: int, method: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    base, (_, split) = setup.base.get(dataset, model, seed), setup.data(dataset)
    attributes = setup.attributes(dataset, setup.requirements(dataset)[-1])
    ordered, place = list(attributes.values()), resolve_device(setup.device)
    made = make_release(method, base, split, attributes, seed=seed, device=setup.device, settings=settings)
    how = calibrator(method, **{name: value for name, value in settings.items() if name != "combination"})
    if not isinstance(how, Alternating) or made.release is None:
        raise OblivecError(f"bound: {method} has no loop to solve end to end by")
    U0 = base.users.detach().float().to(place)
    together, facts = solve(U0, ordered, how.config, seed=seed)
    matrices = {"original": U0, "P1": torch.from_numpy(made.release).to(place), "P2": together}
    believed = sum(one.get("vclub_at_last", 0.0) for one in made.facts.values())
    return {
        kind: told(matrix, ordered, seed=seed, quick=setup.quick) for kind, matrix in matrices.items()
    } | {"in_the_loop": {"step 1": believed, "P2": facts["vclub_in_the_loop"]}, "alpha": facts["alpha"]}


def summarise(found: Found) -> dict[str, Any]:
    """Sums over attributes in nats, means over base seeds; the gap P1 - P2 as a share of what the original tells."""
    rows = []
    for (dataset, model, method), group in over_seeds(found, "bound").items():
        figures = printed()["bound"].get(dataset, {})
        one: dict[str, Any] = {
            "dataset": dataset, "model": model, "method": method, "seeds": len(group),
            "printed": {kind: figures[kind][model] for kind in ("P1", "P2")} if figures else None,
            "in_the_loop": {
                kind: mean_and_spread(cell["in_the_loop"][kind] for cell in group) for kind in ("step 1", "P2")
            },
        }
        for estimate in ESTIMATES:
            one[estimate] = {
                kind: mean_and_spread(cell[kind][estimate]["sum"] for cell in group) for kind in KINDS
            }
            one[f"{estimate}_gap_percent"] = round(float(np.mean([
                100 * (cell["P1"][estimate]["sum"] - cell["P2"][estimate]["sum"])
                / max(abs(cell["original"][estimate]["sum"]), 1e-12) for cell in group
            ])), 2)
        rows.append(one)
    return {"rows": rows}


def show(summary: Mapping[str, Any]) -> None:
    rows = []
    for one in summary["rows"]:
        for estimate in ESTIMATES:
            beside = [f"{one['printed'][kind]:.4f}" if one["printed"] else "-" for kind in ("P1", "P2")]
            rows.append((
                one["dataset"], one["model"], one["method"], estimate.replace("_", " "),
                *(shown(one[estimate][kind], 4) for kind in KINDS), f"{one[f'{estimate}_gap_percent']:+.1f} %",
                " and ".join(beside), shown(one["in_the_loop"]["P2"], 2), one["seeds"],
            ))
    show_table(
        "P1, LEGO's two steps, against P2, end to end: sum over attributes of vCLUB, nats",
        ("data", "model", "loop", "estimated by", "original", "P1", "P2", "P1 - P2, of the original",
         "the paper's P1, P2", "P2 as its own loop saw it", "seeds"),
        rows, "printed q: the paper's, on the users it learnt from; fresh q: fast, on users it has not seen",
    )


def draw(summary: Mapping[str, Any], target: Path) -> None:
    """For every case the original, P1 and P2 by both estimates; a panel per loop."""
    rows = summary["rows"]
    if not rows:
        return
    loops = list(dict.fromkeys(one["method"] for one in rows))
    with page(target, 0.5 + 2.4 * len(loops)) as figure:
        panels = figure.subplots(len(loops), 1, squeeze=False)[:, 0]
        for panel, loop in zip(panels, loops, strict=True):
            own = [one for one in rows if one["method"] == loop]
            turn = 0
            for estimate, hatch in zip(ESTIMATES, ("", "///"), strict=True):
                for kind, colour in zip(KINDS, ("0.35", COLOURS["paper"], COLOURS["lego"]), strict=True):
                    panel.bar(
                        [place + (turn - 2.5) * 0.13 for place in range(len(own))],
                        [one[estimate][kind]["mean"] for one in own], 0.12, color=colour, hatch=hatch,
                        edgecolor="white", linewidth=0.2, label=f"{kind}, {estimate.replace('_', ' ')}",
                    )
                    turn += 1
            panel.set_xticks(range(len(own)), [f"{one['model']}\n{one['dataset']}" for one in own])
            panel.set_ylabel(f"vCLUB, nats\n({loop})")
            panel.axhline(0, color="0.6", linewidth=0.8)
        legend_above(figure, panels)
