"""`oblivec bench`: measure, with the machine written beside every number."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from oblivec.bench.registry import benchmarks, check_names, run_benchmark, show_benchmark
from oblivec.cli.app import app
from oblivec.cli.options import Jobs, Quiet, Verbose, split_list
from oblivec.console import say, show_table
from oblivec.errors import OblivecError
from oblivec.files.atomic import write_json


@app.command()
def bench(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME ...]", help="Which to run; none: list them.")
    ] = None,
    json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the results here too.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A minute instead of many: shows that it runs; not for publication.")
    ] = False,
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", min=0, help="Long ones begin nothing new after this long; 0: only what is kept."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option("--resume", metavar="FILE", help="Long ones keep every finished piece here and go on from it."),
    ] = None,
    cells: Annotated[
        list[str] | None,
        typer.Option("--cells", metavar="PATTERN", help="Only pieces of such names, e.g. 'release/lightgcn/*'."),
    ] = None,
    models: Annotated[
        Path | None,
        typer.Option("--models", metavar="DIR", help="Trained models; those missing are trained and put there."),
    ] = None,
    root: Annotated[Path | None, typer.Option("--root", metavar="CACHE", help="Where fetched data sets lie.")] = None,
    path: Annotated[
        Path | None, typer.Option("--path", metavar="LOCAL", help="Folder of KuaiRand-Pure, which cannot be fetched.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", metavar="FILE", help="Draw the result (.svg, .pdf or .png).")
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="cpu, cuda or auto (the GPU when there is one).")
    ] = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run benchmarks and print what they found, or list them.

    The JSON holds one record per benchmark: the command, the machine (processor, cores, memory, GPU, library versions;
    never its name), the seconds it took and the result. It is written after every benchmark, so that an interrupted
    run keeps what it has. An option that a benchmark has no use for is refused.
    """
    wanted = split_list(names)
    if not wanted:
        show_table("Benchmarks", ("name", "what it answers"), benchmarks().items())
        return
    check_names(wanted)
    options = {
        "minutes": minutes, "resume": resume, "cells": split_list(cells) or None, "models": models, "root": root,
        "path": path, "figure": figure, "device": device, "jobs": jobs,
    }
    records: list[dict[str, Any]] = []
    for name in wanted:
        say(f"Running {name} ...")
        records.append(run_benchmark(name, quick, **options))
        if json is not None:
            write_json(json, {"benchmarks": records})
        show_benchmark(name, records[-1])
    failed = [cell for record in records for cell in record["result"].get("failed", ())]
    if failed:
        raise OblivecError(f"{len(failed)} pieces failed, each said above; run it again when that is mended")
