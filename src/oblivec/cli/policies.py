"""`oblivec plan` and `oblivec apply`: a file of named requirements, carried out for no more than what is new."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from oblivec.audit.table import VERDICTS
from oblivec.cli.app import app
from oblivec.cli.method_options import Attackers, How, LabelFree, Method, Settings, Types, how
from oblivec.cli.options import Device, Jobs, Quiet, Seed, Verbose
from oblivec.console import say, show_table
from oblivec.errors import LimitMissed
from oblivec.files.atomic import check_writable, write_json
from oblivec.policies.applying import Applied, apply_policies
from oblivec.policies.file import read_policies
from oblivec.policies.planning import Plan, make_plan
from oblivec.policies.work import Work, open_work
from oblivec.store import Store

File = Annotated[Path, typer.Argument(metavar="POLICIES.toml", help="[source], [output] and one table per policy.")]
Directory = Annotated[
    Path, typer.Option("--store", metavar="DIR", help="Where calibrations, releases and audits are kept. As sensitive "
                                                      "as the labels.")
]
Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON.")]


@app.command()
def plan(
    policies: File, store: Directory, json: Json = None, method: Method = "lego", label_free: LabelFree = False,
    settings: Settings = None, attackers: Attackers = None, types: Types = None, seed: Seed = 0, jobs: Jobs = None,
    device: Device = "auto", quiet: Quiet = False, verbose: Verbose = False,
) -> None:
    """Say what `apply` would compute, what it would find in the store, and how long it would take.

    The time comes from how long the like took before; where the store has nothing of the kind, from trying it on some
    hundred users. Nothing is written but --json. Give the same options as to `apply`.
    """
    del quiet, verbose
    start, loading = time.perf_counter(), time.process_time()  # so far: what `apply` will need to load, too
    if json is not None:
        check_writable(json)
    chosen = how(method, settings, label_free, attackers, types, seed=seed, jobs=jobs, device=device)
    opened = Store(store, create=False) if store.exists() and (store.is_file() or any(store.iterdir())) else None
    work = _open(policies, opened, chosen)
    found = make_plan(work, loading + time.perf_counter() - start)
    if json is not None:
        write_json(json, found.to_json())
    _show_plan(policies, found)


@app.command()
def apply(
    policies: File, store: Directory, json: Json = None, method: Method = "lego", label_free: LabelFree = False,
    settings: Settings = None, attackers: Attackers = None, types: Types = None, seed: Seed = 0, jobs: Jobs = None,
    device: Device = "auto", quiet: Quiet = False, verbose: Verbose = False,
) -> None:
    """Carry out every policy: calibrate what is missing, combine, audit, and write each release with its report.

    [output] dir receives NAME.<suffix>, NAME.json and NAME.html. A release that misses a limit of its policy is not
    written, its reports are, and an older release of that policy is renamed NAME.superseded.<suffix>; exit code 4. Run
    it again after a change, or after it was stopped: only what is new is computed.
    """
    del quiet, verbose
    start = time.perf_counter()
    if json is not None:
        check_writable(json)
    chosen = how(method, settings, label_free, attackers, types, seed=seed, jobs=jobs, device=device)
    read_policies(policies)  # before a store is made
    work = _open(policies, Store(store), chosen)
    applied = apply_policies(work)
    if json is not None:
        write_json(json, {
            "policies": {done.name: _summary(work, done) for done in applied},
            "seconds": round(time.perf_counter() - start, 3),
        })
    _show_applied(work, applied)
    missed = [f"{done.name} ({'; '.join(done.missed)})" for done in applied if not done.written]
    if missed:
        raise LimitMissed(f"{policies}: {len(missed)} of {len(applied)} policies missed a limit and were not written: "
                          f"{', '.join(missed)}")


def _open(path: Path, store: Store | None, chosen: How) -> Work:
    work = open_work(path, store, chosen.lego, chosen.attackers, chosen.types)
    for note in work.given.notes:
        say(f"note: {note}")
    return work


def _show_plan(path: Path, found: Plan) -> None:
    rows = [
        (name, ", ".join(step.compute) or "nothing", ", ".join(step.reuse) or "nothing", f"{step.seconds:.1f}")
        for name, step in found.steps.items()
    ]
    source = f"{' and '.join(found.probed)} probed on some hundred users" if found.probed else "from earlier runs"
    show_table(
        f"{path}: about {found.seconds:.0f} seconds", ("step", "to compute", "in the store", "seconds"),
        [*rows, ("reading, measuring, writing", "", "", f"{found.rest_seconds:.1f}")],
        caption=f"an estimate, {source}; expect it to be right within a factor of three",
    )


def _summary(work: Work, done: Applied) -> dict[str, Any]:
    after, utility = done.outcome.after, done.outcome.utility
    return {
        "written": done.written, "missed": done.missed,
        "release": str(work.file.release(done.name)) if done.written else None,
        "requirement": done.outcome.requirement, "neighbours": done.outcome.neighbours,
        "verdicts": None if after is None else {name: one.verdict for name, one in after.main.attributes.items()},
        "ndcg_loss_percent": None if utility is None else utility.loss_percent(),
    }


def _show_applied(work: Work, applied: list[Applied]) -> None:
    rows = []
    for done in applied:
        after, utility = done.outcome.after, done.outcome.utility
        found = {} if after is None else after.main.attributes
        verdicts = [f"{name} {VERDICTS[one.verdict]}" for name, one in found.items()]
        rows.append((
            done.name, ", ".join(done.outcome.requirement), ", ".join(verdicts) or "not attacked",
            "" if utility is None else f"{-utility.loss_percent():+.2f} %",
            "written" if done.written else "not written: " + "; ".join(done.missed),
        ))
    show_table(str(work.file.output.dir), ("policy", "protects", "verdicts", "NDCG@10", "release"), rows)
    for note in dict.fromkeys(note for done in applied for note in done.outcome.notes):
        if note not in work.given.notes:
            say(f"note: {note}")
