"""The root command, and the one place where errors become exit codes."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

import typer

from oblivec import __version__
from oblivec.console import voice
from oblivec.errors import OblivecError, place_of

app = typer.Typer(
    name="oblivec",
    help="Make a trained recommender forget what its users never agreed to reveal, and prove it by attack.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

INTERRUPTED = 130

# Recent Typers carry their own copy of click, older ones use the installed one; usage errors share this base.
_UsageProblem: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


@app.callback()
def root() -> None:
    """Make a trained recommender forget what its users never agreed to reveal, and prove it by attack."""


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 our fault, 2 bad input, 3 leak, 4 limit missed, 130 interrupted."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """`main` without leaving the process; used by tests. `--quiet` and `--verbose` end with the command."""
    try:
        return _run(arguments)
    finally:
        voice.quiet = voice.verbose = False


def _run(arguments: Sequence[str] | None) -> int:
    try:
        result = app(args=list(arguments) if arguments is not None else None, standalone_mode=False)
    except OblivecError as problem:
        return _fail(str(problem), problem.exit_code)
    except _UsageProblem as problem:
        message = str(problem.format_message())  # type: ignore[attr-defined]
        if type(problem).__name__ == "NoArgsIsHelpError":
            typer.echo(message)
            return 0
        return _fail(message + " (see --help)", 2)
    except typer.Exit as stop:
        return stop.exit_code
    except (typer.Abort, KeyboardInterrupt):
        result = INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output (`| head`) has gone: nobody is left to tell, and the interpreter must not try.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as problem:
        return _our_fault(problem)
    if result == INTERRUPTED:  # recent Typers turn Ctrl-C into this number, older ones raise
        return _fail("interrupted", INTERRUPTED)
    return result if isinstance(result, int) else 0


def _our_fault(problem: Exception) -> int:
    """One line that names the place. What the exception says may quote an id or a label: only `--verbose` shows it."""
    if voice.verbose:
        traceback.print_exception(problem)
    where = f"{type(problem).__name__} in {place_of(problem)}"
    advice = "" if voice.verbose else "; run it again with --verbose for the traceback, which may quote your data"
    return _fail(f"internal error: {where}{advice}", 1)


def _fail(message: str, code: int) -> int:
    if message:
        typer.echo("oblivec: " + " ".join(message.split()), err=True)
    return code
