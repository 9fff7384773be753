"""`oblivec bench`: measure, with the machine written beside every number."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from oblivec.bench.registry import benchmarks, check_names, run_benchmark, show_benchmark
from oblivec.cli.app import app
from oblivec.cli.options import Quiet, Verbose, split_list
from oblivec.console import say, show_table
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
        float | None, typer.Option("--minutes", min=0.1, help="Simulations begin nothing new after this long.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option("--resume", metavar="FILE", help="Simulations keep every finished audit here and go on from it."),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run benchmarks and print what they found, or list them.

    The JSON holds one record per benchmark: the command, the machine (processor, cores, memory, GPU, library versions;
    never its name), the seconds it took and the result. It is written after every benchmark, so that an interrupted
    run keeps what it has.
    """
    wanted = split_list(names)
    if not wanted:
        show_table("Benchmarks", ("name", "what it answers"), benchmarks().items())
        return
    check_names(wanted)
    records: list[dict[str, Any]] = []
    for name in wanted:
        say(f"Running {name} ...")
        records.append(run_benchmark(name, quick, minutes, resume))
        if json is not None:
            write_json(json, {"benchmarks": records})
        show_benchmark(name, records[-1])
