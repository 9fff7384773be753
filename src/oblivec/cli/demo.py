"""`oblivec demo`: the whole story on a small data set, in a few minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oblivec.cli.app import app
from oblivec.cli.options import Device, Jobs, Quiet, Seed, Verbose
from oblivec.demo import tell
from oblivec.devices import resolve_device


@app.command()
def demo(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where the model and the audit go.")
    ] = Path("demo-output"),
    root: Annotated[
        Path | None,
        typer.Option("--root", metavar="CACHE", help="Where fetched data is kept "
                                                     "[default: $OBLIVEC_DATA, else ~/.cache/oblivec]."),
    ] = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    device: Device = "auto",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Fetch MovieLens 100K, train a recommender, measure it, and audit what its user matrix gives away.

    A few minutes on two cores, no GPU needed. DIR receives the model, audit.json and audit.html. Where the data cannot
    be fetched, made-up users stand in, with a notice.
    """
    tell(out, root=root, seed=seed, device=resolve_device(device), jobs=jobs)
