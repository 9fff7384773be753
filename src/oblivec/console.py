"""What a person sees: one console, one progress bar style, one table style.

Everything goes to standard error except what a command was asked for (tables, listings), which goes to standard
output. Labels, user ids and deltas never pass through here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text


class _Voice:
    """How much is said. Set once by the command line."""

    quiet = False
    verbose = False


voice = _Voice()


def out() -> Console:
    """Where results go. Built on each call so that redirected streams are respected."""
    return Console(file=sys.stdout, highlight=False, soft_wrap=not sys.stdout.isatty())


def err() -> Console:
    return Console(file=sys.stderr, highlight=False, soft_wrap=not sys.stderr.isatty())


def say(message: str) -> None:
    """A remark a user should read, unless `--quiet`."""
    if not voice.quiet:
        err().print(message, markup=False)


def detail(message: str) -> None:
    """A remark for `--verbose`."""
    if voice.verbose:
        err().print(message, markup=False)


def show_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str | None = None
) -> None:
    """The one table style: text columns left, everything else right. All text is shown as it is, brackets included."""
    rows = [[str(cell) for cell in row] for row in rows]
    table = Table(title=escape(title), box=SIMPLE_HEAD, title_justify="left", caption_justify="left")
    table.caption = None if caption is None else escape(caption)
    for i, column in enumerate(columns):
        numeric = bool(rows) and all(row[i][:1] in "0123456789+-–—." or not row[i] for row in rows)
        table.add_column(escape(column), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    out().print(table)


class Tick:
    """Handle of a running progress bar: call it once per finished step."""

    def __init__(self, progress: Progress | None, task: object):
        self._progress, self._task = progress, task

    def __call__(self, steps: float = 1, note: str | None = None) -> None:
        if self._progress is not None:
            if note is not None:
                self._progress.update(self._task, note=note)  # type: ignore[arg-type]
            self._progress.advance(self._task, steps)  # type: ignore[arg-type]


@contextmanager
def progress(label: str, total: float | None) -> Iterator[Tick]:
    """The one progress bar. Silent when quiet or when standard error is not a terminal."""
    if voice.quiet or not sys.stderr.isatty():
        yield Tick(None, None)
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TimeRemainingColumn(), TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=err(), transient=True) as bar:
        yield Tick(bar, bar.add_task(label, total=total, note=""))
