"""`oblivec doctor`: is everything there, and what to do when not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oblivec.cli.app import app
from oblivec.cli.options import Quiet, Verbose
from oblivec.console import show_table
from oblivec.doctor import examine


@app.command()
def doctor(
    root: Annotated[
        Path | None,
        typer.Option("--root", metavar="CACHE", help="Where fetched data is kept "
                                                     "[default: $OBLIVEC_DATA, else ~/.cache/oblivec]."),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Look at the environment, the machine and the data, and say what to do about what is missing.

    Nothing is changed. Exit code 0, or 1 when something required is broken. With --quiet only what is not in order is
    listed.
    """
    findings = examine(root)
    shown = [found for found in findings if not (quiet and found.state == "ok")]
    if shown:
        rows = [(found.what, found.state, found.found, found.advice) for found in shown]
        show_table("Oblivec on this machine", ("what", "state", "found", "what to do"), rows)
    if any(found.state == "broken" for found in findings):
        raise typer.Exit(1)
