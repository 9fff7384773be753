"""`oblivec audit`: what can be inferred from a user matrix, as a table, as JSON and as a page for a privacy officer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer

from oblivec.attacks.panel import PANEL
from oblivec.attacks.threats import THREATS, Evidence
from oblivec.audit.report import render_report
from oblivec.audit.run import MARGIN, check_options, run_audit
from oblivec.audit.table import show_audit
from oblivec.cli.app import app
from oblivec.cli.options import Device, Jobs, Quiet, Seed, Verbose, split_list, split_types
from oblivec.console import detail, say
from oblivec.datasets.splits import leave_one_out
from oblivec.errors import BadInput, LeakFound
from oblivec.files.atomic import write_json, write_text
from oblivec.files.embeddings import EmbeddingFile, embeddings_from, read_embeddings
from oblivec.files.matching import match_attributes, match_embeddings, match_interactions
from oblivec.files.table_sources import open_table
from oblivec.files.tables import read_attributes, read_interactions
from oblivec.recommenders.aligned import load_aligned

_THREAT_HELP = "What the attacker holds; repeatable: " + "; ".join(
    f"{threat.name} ({threat.who.rstrip('.')})" for threat in THREATS.values()
)


@app.command()
def audit(
    embeddings: Annotated[
        Path, typer.Argument(metavar="EMBEDDINGS", help="The user matrix: .npy, .safetensors, .parquet or .csv.")
    ],
    attributes: Annotated[
        Path, typer.Option("--attributes", metavar="TABLE", help="Users' attributes: .csv or .parquet with user_id.")
    ],
    attribute: Annotated[
        list[str] | None, typer.Option("--attribute", metavar="A", help="Attributes to audit [default: all columns].")
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="A=TYPE", help="Overrule an attribute's type: categorical or continuous."),
    ] = None,
    threat: Annotated[
        list[str] | None, typer.Option("--threat", metavar="T", help=_THREAT_HELP + " [default: embeddings].")
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option("--baseline", metavar="EMBEDDINGS", help="An older matrix: shows before and after, "
                                                                           "and allows --threat differencing.")
    ] = None,
    items: Annotated[
        Path | None, typer.Option("--items", metavar="EMBEDDINGS", help="The item matrix, where the score is a dot "
                                                                        "product; for --threat recommendations.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--model", metavar="DIR", help="A directory written by `oblivec train`; for --threat "
                                                                 "recommendations and parameters.")
    ] = None,
    interactions: Annotated[
        Path | None, typer.Option("--interactions", metavar="TABLE", help="user_id, item_id, optional timestamp and "
                                                                          "split; for --threat interactions.")
    ] = None,
    hidden_labels: Annotated[
        Path | None, typer.Option("--hidden-labels", metavar="TABLE", help="True labels of users who have none in "
                                                                           "--attributes; for --threat unlabelled.")
    ] = None,
    protocol: Annotated[
        str, typer.Option("--protocol", help="panel: every labelled user, classes weighed alike; paper: classes "
                                             "undersampled once to the smallest.")
    ] = "panel",
    margin: Annotated[
        float, typer.Option("--margin", metavar="POINTS", min=0.01, max=50, help="Within how many points of chance "
                                                                                 "counts as at chance.")
    ] = 100 * MARGIN,
    attackers: Annotated[
        list[str] | None,
        typer.Option("--attacker", metavar="K", help=f"Members of the panel [default: {', '.join(PANEL)}]."),
    ] = None,
    json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON.")] = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page for people.")] = None,
    fail_on_leak: Annotated[
        bool, typer.Option("--fail-on-leak", help="Exit with code 3 when any verdict is a leak, in either direction.")
    ] = False,
    id_column: Annotated[
        str | None, typer.Option("--id-column", metavar="NAME", help="The id column of the tables.")
    ] = None,
    seed: Seed = 0, jobs: Jobs = None, device: Device = "auto", quiet: Quiet = False, verbose: Verbose = False,
) -> None:
    """Attack a user matrix with a panel of attackers and say what can be inferred about each attribute.

    A verdict is two-sided: an attacker reliably below chance reads the attribute with its sign flipped. `at chance`
    means that every attacker's interval lies within the margin; `undecided` that there is too little data to tell.
    """
    del quiet, verbose
    threats = split_list(threat) or ["embeddings"]
    names = split_list(attackers) or list(PANEL)
    check_options(threats, names, protocol)
    wanted = split_list(attribute)
    evidence, notes = _gather(
        read_embeddings(embeddings, id_column), attributes, wanted, split_types(types), baseline, items, model,
        interactions, hidden_labels, id_column, seed,
    )
    result = run_audit(
        evidence, threats=threats, named=bool(wanted), protocol=protocol,  # type: ignore[arg-type]
        margin=margin / 100, seed=seed, jobs=jobs, device=device, attackers=names, notes=notes,
    )
    for note in result.notes:
        say(f"note: {note}")
    show_audit(result)
    if json is not None:
        write_json(json, result.to_json())
    if html is not None:
        write_text(html, render_report(result))
        detail(f"report written to {html}")
    if fail_on_leak and result.leaks:
        raise LeakFound("a leak was found; the table says where")


def _gather(
    matrix: EmbeddingFile, attributes: Path, wanted: list[str], types: dict[str, str], baseline: Path | None,
    items: Path | None, model: Path | None, interactions: Path | None, hidden_labels: Path | None,
    id_column: str | None, seed: int,
) -> tuple[Evidence, list[str]]:
    """Read everything, matched to the rows of the user matrix."""
    table = read_attributes(attributes, id_column=id_column, types=types, only=wanted or None)
    found, notes = match_attributes(matrix, table)
    older = None
    if baseline is not None:
        before = read_embeddings(baseline, id_column)
        rows, older_rows, more = match_embeddings(matrix, before)
        notes += more
        if len(rows) < len(matrix):
            raise BadInput(f"{baseline}: lacks {len(matrix) - len(rows)} of the {len(matrix)} users of {matrix.source}")
        older = before.values[older_rows]
    item_file = read_embeddings(items) if items is not None else None
    trained = load_aligned(model, matrix) if model is not None else None
    if item_file is None and trained is not None:
        vectors = trained.item_matrix()
        catalogue = vectors if vectors is not None else np.zeros((trained.scores(torch.arange(1)).shape[1], 1))
        item_rows = embeddings_from(catalogue)  # items are numbered by row, as `oblivec train` writes them
    else:
        vectors = None if item_file is None else item_file.values
        item_rows = item_file
    history = None
    if interactions is not None:
        rows, more = match_interactions(read_interactions(interactions, id_column=id_column), matrix, item_rows)
        history = leave_one_out(rows).train  # what each user met, without the held-out item
        notes += more
    hidden = {}
    if hidden_labels is not None:
        own = {name: "continuous" if attr.is_continuous else "categorical" for name, attr in found.items()}
        if not wanted:  # the table may hold some of the attributes only
            held = open_table(hidden_labels).names
            own = {name: kind for name, kind in own.items() if name in held} or own
        truth = read_attributes(hidden_labels, id_column=id_column, types=own, only=list(own))
        hidden, more = match_attributes(matrix, truth)
        notes += more
    return Evidence(matrix.values, found, older, vectors, trained, history, hidden, seed), notes
