"""`oblivec reproduce`: the paper's tables and figures, each beside what the paper prints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oblivec.cli.app import app
from oblivec.cli.options import Device, Jobs, Quiet, Verbose, split_list
from oblivec.console import show_table
from oblivec.errors import BadInput, OblivecError


@app.command()
def reproduce(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Which one; none: list them.")] = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option("--dataset", metavar="NAME", help="ml-100k, ml-1m, kuairand-pure or kuaisar; repeatable."),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", metavar="NAME", help="ncf, lightgcn or multvae; repeatable.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, help="Pairs of base and method seed, from 0 [default: 5].")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where finished cells, the JSON and the figure go.")
    ] = Path("reproduced"),
    cells: Annotated[
        list[str] | None,
        typer.Option("--cells", metavar="PATTERN", help="Run only cells of such names, e.g. 'release/ml-1m/ncf/*'."),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option("--minutes", min=0.0, help="Begin no new cell after this long.")
    ] = None,
    models: Annotated[
        Path | None,
        typer.Option("--models", metavar="DIR", help="Trained models, DATASET-MODEL-SEED; those missing are trained "
                                                     "and put there [default: beside the data]."),
    ] = None,
    root: Annotated[Path | None, typer.Option("--root", metavar="CACHE", help="Where fetched data sets lie.")] = None,
    path: Annotated[
        Path | None, typer.Option("--path", metavar="LOCAL", help="Folder of kuairand-pure or kuaisar, which cannot be "
                                                                  "fetched.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="ML-100K, one seed, a model of a few epochs: shows that it runs.")
    ] = False,
    device: Device = "auto",
    jobs: Jobs = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Repeat a table or figure of the paper and show it beside what the paper prints.

    The work is cut into cells, each kept in DIR/cells.jsonl as soon as it is done: a run that is stopped, or killed,
    goes on from there, and files made on several machines are put together with `cat`. The table and the figure are
    made from whatever is done; `--minutes 0` measures nothing and only writes them anew.
    """
    from oblivec.experiments.registry import experiments
    from oblivec.experiments.running import Options, run_experiment

    if name is None:
        show_table("Experiments", ("name", "what it repeats"), experiments().items())
        return
    datasets, wanted = split_list(dataset), split_list(model)
    options = Options(
        datasets, wanted, seeds, quick, split_list(cells), minutes, jobs, device, root, path, models,
    )
    finished = run_experiment(name, out, options)
    if finished.failed:
        kind = BadInput if finished.exit_code == BadInput.exit_code else OblivecError
        raise kind(f"{len(finished.failed)} cells failed, each said above; the others are kept")
