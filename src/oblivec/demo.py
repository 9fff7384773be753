"""The story `oblivec demo` tells: a recommender, what its user matrix gives away, and how that is taken back."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from oblivec.audit.report import render_report
from oblivec.audit.result import AuditResult
from oblivec.audit.run import audit
from oblivec.audit.table import show_audit
from oblivec.audit.wording import headline
from oblivec.console import err, heading, say, show_table
from oblivec.datasets import registry
from oblivec.datasets.attributes import Attribute
from oblivec.datasets.dataset import Dataset
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.engines.local import run_single_threaded
from oblivec.errors import FetchFailed
from oblivec.files.atomic import write_json, write_text
from oblivec.files.directories import check_directory_target
from oblivec.lego import Lego
from oblivec.metrics import rank_test_items
from oblivec.recommenders import Ease, MostPopular, Recommender, recommender
from oblivec.recommenders.export import write_trained
from oblivec.recommenders.storage import MODEL_FILE

DATASET, LAST_RESORT = "ml-100k", "synthetic"
MODEL = "lightgcn"
ATTRIBUTES, LATER = ("gender", "age"), "occupation"
"""Protected at first, and what a later requirement adds."""
SETTINGS: dict[str, Any] = {"epochs": 30, "learning_rate": 5e-3, "steps_per_epoch": 100}
"""Fewer and longer steps than the default: half a minute. Chosen on the last training items of ML-100K."""


@dataclass(frozen=True)
class Story:
    """What the demo found."""

    dataset: Dataset
    quality: dict[str, dict[str, float]]
    """HR@10 and NDCG@10 in percent by recommender."""
    """Also of the releases, under the names of what they protect."""
    audit: AuditResult
    released: AuditResult
    """The audit of the release that protects the first requirement."""


def tell(
    out: Path,
    *,
    root: Path | None = None,
    seed: int = 0,
    device: torch.device,
    jobs: int | None = None,
    settings: Mapping[str, Any] = SETTINGS,
) -> Story:
    """Fetch, train, compare, audit, unlearn, audit again, follow changes of the requirement.

    `out` receives the model's directory, the store, and the audits before and after as JSON and as a page.
    """
    folder = out / "model"
    check_directory_target(folder, MODEL_FILE)

    heading("1. The data: who watched what, and what must stay private about whom")
    dataset = _dataset(root)
    split = dataset.split()
    _introduce(dataset, split)

    heading("2. A recommender: LightGCN learns one vector per user and one per item")
    model, seconds = _train(split, seed, device, settings)
    rows, dimensions = model.users.shape
    say(f"Trained in {seconds:.0f} seconds. A row of the user matrix ({rows} x {dimensions}) is all the recommender "
        "knows about a user.")

    heading("3. Is it any good? Next to the same list for everyone and to EASE, a strong simple model")
    quality = _compare(model, dataset, split, device)
    metrics = quality[MODEL] | {
        "dataset": dataset.name, "model": MODEL, "tie_rule": split.tie_rule, "seed": seed, "seconds": seconds,
    }
    write_trained(folder, model, dataset, split, metrics)

    heading("4. The audit: what can be inferred about users from their vectors alone?")
    say("Several attackers, each with some users' vectors and labels, guess the labels of the others ...")
    attributes = {name: dataset.attributes[name] for name in ATTRIBUTES}
    options = {"seed": seed, "jobs": jobs, "device": str(device)}
    found = _audit(model.user_matrix(), attributes, options)
    write_json(out / "audit.json", found.to_json())
    write_text(out / "audit.html", render_report(found, title=f"{MODEL} on {dataset.name}"))

    heading(f"5. Unlearning: take {_names(ATTRIBUTES)} out of the vectors, without training again")
    lego = Lego(store=out / "store", **options).fit(model.user_matrix(), attributes)
    release = lego.protect(ATTRIBUTES)
    taken = lego.seconds["calibrate"] + lego.seconds["combine"]
    say(f"Done in {taken:.0f} seconds. The same attackers, on the release:")
    after = _audit(release, attributes, options)
    write_json(out / "release.json", after.to_json())
    write_text(out / "release.html", render_report(after, title=f"{MODEL} on {dataset.name}, released"))

    heading(f"6. Requirements change: {LATER} as well, then no longer {ATTRIBUTES[1]}")
    if LATER in dataset.attributes:
        lego.add(LATER, dataset.attributes[LATER])
    quality |= _follow(lego, model, split, device)

    heading("7. Yours next")
    _point_on(out)
    return Story(dataset, quality, found, after)


def _dataset(root: Path | None) -> Dataset:
    """ML-100K, or made-up users, with a notice nobody can miss, where no source has it."""
    try:
        return registry.load(DATASET, root=root)
    except FetchFailed as problem:
        say(str(problem))
    notice = f"NOTICE: {DATASET} cannot be had here. What follows is about made-up users"
    err().print(f"{notice} and says nothing about real ones.", style="bold yellow", markup=False)
    return registry.load(LAST_RESORT, root=root)


def _introduce(dataset: Dataset, split: LeaveOneOut) -> None:
    found = dataset.statistics()
    show_table(dataset.name, ("users", "items", "interactions", "attributes"),
               [(f"{found.users:,}", f"{found.items:,}", f"{found.ratings:,}", ", ".join(dataset.attributes))])
    say("Each user's last interaction is held out and must be found again among all the items they have not seen.")
    for note in (*dataset.notes, *dataset.split_notes(split)):
        say(f"- {note}")


def _train(
    split: LeaveOneOut, seed: int, device: torch.device, settings: Mapping[str, Any]
) -> tuple[Recommender, float]:
    model = recommender(MODEL, **settings)
    say(f"{model.config.epochs} passes over {split.train.nnz:,} interactions; under a minute, as a rule ...")
    start = time.perf_counter()
    # One thread: a step is too small to be shared, and threads that wait for each other on a busy machine cost minutes.
    run_single_threaded(lambda untrained: untrained.fit(split, seed=seed, device=device), model)
    return model, round(time.perf_counter() - start, 3)


def _compare(
    model: Recommender, dataset: Dataset, split: LeaveOneOut, device: torch.device
) -> dict[str, dict[str, float]]:
    quality = {kind.name: rank_test_items(kind.fit(split).scores, split).summary() for kind in (MostPopular(), Ease())}
    quality[model.name] = rank_test_items(model.scores, split, device=device).summary()
    tied = dataset.users_decided_by_ties() / max(len(split.tested_users), 1)
    show_table(
        f"{dataset.name}, leave-one-out, ties in time by {split.tie_rule}",
        ("recommender", "HR@10 (%)", "NDCG@10 (%)"),
        [(name, f"{row['hr@10']:.2f}", f"{row['ndcg@10']:.2f}") for name, row in quality.items()],
    )
    say(f"HR@10: how often the held-out item is among the first ten. For {tied:.0%} of users a tie in time decides "
        "which item is held out, so numbers under another tie rule are not comparable.")
    return quality


def _audit(U: np.ndarray, attributes: Mapping[str, Attribute], options: Mapping[str, Any]) -> AuditResult:
    found = audit(U, attributes, **options)
    show_audit(found)
    say(headline([result.verdict for result in found.main.attributes.values()]))
    return found


def _follow(lego: Lego, model: Recommender, split: LeaveOneOut, device: torch.device) -> dict[str, dict[str, float]]:
    """The requirements one after the other from the same calibrations, and what each costs in ranking quality."""
    requirements = [ATTRIBUTES, (*ATTRIBUTES, LATER), (ATTRIBUTES[0], LATER)]
    measured = {"as trained": rank_test_items(model.scores, split, device=device).summary()}
    rows = [("nothing", "", *_percent(measured["as trained"]))]
    for wanted in requirements:
        names = [name for name in wanted if name in lego.attributes]
        before = lego.seconds["combine"]
        edited = model.with_user_matrix(lego.protect(names))
        measured[_names(names)] = rank_test_items(edited.scores, split, device=device).summary()
        seconds = lego.seconds["combine"] - before
        rows.append((_names(names), f"{seconds:.1f}", *_percent(measured[_names(names)])))
    show_table("Each from the stored calibrations", ("protected", "seconds", "HR@10 (%)", "NDCG@10 (%)"), rows)
    return measured


def _percent(quality: Mapping[str, float]) -> tuple[str, str]:
    return f"{quality['hr@10']:.2f}", f"{quality['ndcg@10']:.2f}"


def _names(attributes: Sequence[str]) -> str:
    return " and ".join(attributes)


def _point_on(out: Path) -> None:
    say(f"Reports to send on: {out / 'audit.html'} (before) and {out / 'release.html'} (after); for programs, the same "
        f"as JSON. The model: {out / 'model'}. The calibrations, as sensitive as the labels: {out / 'store'}.")
    say("With your own data (user_id, item_id, timestamp; user_id and one column per attribute):")
    say("  oblivec train --interactions interactions.csv --attributes attributes.csv --out model")
    say("  oblivec audit model/users.safetensors --attributes model/attributes.csv --html audit.html")
    say("  oblivec unlearn model/users.safetensors --attributes model/attributes.csv --protect gender,age "
        "--out release.safetensors")
