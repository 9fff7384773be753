"""`oblivec unlearn`: one requirement on bare files. A matrix and a table in, a release with its evidence out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oblivec.audit.report import render_report
from oblivec.cli.app import app
from oblivec.cli.method_options import Attackers, LabelFree, Method, Settings, Types, how
from oblivec.cli.options import Device, Jobs, Quiet, Seed, Verbose, split_list
from oblivec.console import say
from oblivec.errors import BadInput
from oblivec.files.atomic import write_json, write_text
from oblivec.files.embeddings import check_target, write_embeddings
from oblivec.lego import Lego
from oblivec.policies.auditing import Auditor, with_before
from oblivec.policies.source import Given, Source, read_source
from oblivec.policies.table import show_outcome
from oblivec.policies.targets import check_items_target, check_targets, write_item_side
from oblivec.policies.unlearning import Outcome
from oblivec.policies.unlearning import unlearn as unlearn_one
from oblivec.policies.utility import REFIT_EPOCHS


@app.command()
def unlearn(
    embeddings: Annotated[
        Path, typer.Argument(metavar="EMBEDDINGS", help="The user matrix: .npy, .safetensors, .parquet or .csv.")
    ],
    attributes: Annotated[
        Path, typer.Option("--attributes", metavar="TABLE", help="Users' attributes: .csv or .parquet with user_id.")
    ],
    protect: Annotated[
        list[str], typer.Option("--protect", metavar="A,B", help="Attributes the release must protect; with commas, or "
                                                                 "repeat the option.")
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The release: same suffix, rows, order, type and ids.")
    ],
    items: Annotated[
        Path | None, typer.Option("--items", metavar="EMBEDDINGS", help="The item matrix, where the score is a dot "
                                                                        "product: spares the directions items look at.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--model", metavar="DIR", help="Instead of --items: a directory written by `oblivec "
                                                                 "train`.")
    ] = None,
    interactions: Annotated[
        Path | None, typer.Option("--interactions", metavar="TABLE", help="user_id, item_id, optional timestamp and "
                                                                          "split: measures HR@10 and NDCG@10.")
    ] = None,
    refit: Annotated[
        bool, typer.Option("--refit", help="Refit the item side to the release, which stays as it is; reported beside "
                                           "the original refitted the same way.")
    ] = False,
    items_out: Annotated[
        Path | None, typer.Option("--items-out", metavar="FILE", help="Where the refitted item side goes.")
    ] = None,
    refit_epochs: Annotated[
        int, typer.Option("--refit-epochs", min=1, help="Passes over the interactions for --refit.")
    ] = REFIT_EPOCHS,
    label_free: LabelFree = False, method: Method = "lego", settings: Settings = None,
    store: Annotated[
        Path | None, typer.Option("--store", metavar="DIR", help="Keep calibrations here and compute none twice. As "
                                                                 "sensitive as the labels.")
    ] = None,
    json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON.")] = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page for people.")] = None,
    no_audit: Annotated[
        bool, typer.Option("--no-audit", help="Attack neither before nor after: faster, and nothing is known.")
    ] = False,
    attackers: Attackers = None, types: Types = None,
    id_column: Annotated[
        str | None, typer.Option("--id-column", metavar="NAME", help="The id column of the tables.")
    ] = None,
    seed: Seed = 0, jobs: Jobs = None, device: Device = "auto", quiet: Quiet = False, verbose: Verbose = False,
) -> None:
    """Remove attributes from a user matrix, and say by attack what is left and by ranking what it cost.

    The release drops into the same recommender: load it where EMBEDDINGS was loaded. With --interactions and an item
    side, quality is measured by leave-one-out. Whoever holds both the old matrix and the release can compare them; if
    the old one is already out, use --label-free.
    """
    del quiet, verbose
    wanted = split_list(protect)
    if not wanted:
        raise BadInput("--protect: names no attribute; name at least one")
    if refit != (items_out is not None) or (refit and (interactions is None or (items is None and model is None))):
        raise BadInput("--refit: goes with --items-out, --interactions, and --items or --model; give all or none")
    if no_audit and html is not None:
        raise BadInput("--html: is the audit's page; leave out --no-audit")
    chosen = how(method, settings, label_free, attackers, types, seed=seed, jobs=jobs, device=device)
    source = Source(embeddings=embeddings, attributes=attributes, id_column=id_column, items=items, model=model,
                    interactions=interactions)
    targets = {"--out": out, "--items-out": items_out, "--json": json, "--html": html}
    check_targets(targets, source, in_place=True)
    given = read_source(source, wanted, chosen.types)
    check_target(out, given.matrix)
    if items_out is not None:
        _check_refit(items_out, given)
    lego = Lego(**chosen.lego, store=store, items=given.items)
    auditor = None if no_audit else Auditor(lego.store, chosen.attackers, seed=seed, jobs=jobs, device=device)
    outcome = unlearn_one(given, wanted, lego, auditor, refit_epochs=refit_epochs if refit else 0)

    write_embeddings(out, given.matrix, outcome.release)
    if items_out is not None and outcome.served_by is not None:
        write_item_side(items_out, outcome.served_by, given.item_file)
    if json is not None:
        write_json(json, outcome.to_json())
    if html is not None and outcome.after is not None:
        write_text(html, render_report(with_before(outcome.after, outcome.before)))
    for note in outcome.notes:
        say(f"note: {note}")
    show_outcome(outcome, f"{out}: what can be inferred")
    _point_on(outcome, embeddings, out, items_out, store, label_free)


def _check_refit(items_out: Path, given: Given) -> None:
    check_items_target(items_out, given)
    if given.split is None:
        raise BadInput("--refit: no user has an item to test; give more interactions")


def _point_on(
    outcome: Outcome, embeddings: Path, out: Path, items_out: Path | None, store: Path | None, label_free: bool
) -> None:
    """What to do next."""
    if outcome.leaking:
        say(f"This release still gives away {', '.join(outcome.leaking)}: do not hand it out as it is. Try another "
            "--method, or a setting that moves users further.")
    beside = "" if items_out is None else f", and {items_out} as its item side"
    old = "comparing it with the old matrix tells no more than that one does" if label_free else (
        "give the old matrix to nobody, since the difference tells who is who"
    )
    say(f"Next: load {out} where {embeddings} was loaded{beside}; {old}.")
    if store is None:
        say("With --store DIR the next requirement costs only what is new.")
