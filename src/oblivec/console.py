"""What a person sees: one console, one progress bar style, one table style.

Everything goes to standard error except what a command was asked for (tables, listings), which goes to standard
output. Labels, user ids and deltas never pass through here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

PLAIN_WIDTH = 160


class _Voice:
    """How much is said. Set once by the command line."""

    quiet = False
    verbose = False
    counting = False
    """Whether a progress bar is on the screen."""


voice = _Voice()


def out() -> Console:
    """Where results go. Built on each call so that redirected streams are respected."""
    return _console(sys.stdout)


def err() -> Console:
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    """A file or a pipe has no width of its own: tables get room, text is left unbroken."""
    plain = not stream.isatty()
    return Console(file=stream, highlight=False, soft_wrap=plain, width=PLAIN_WIDTH if plain else None)


def say(message: str) -> None:
    """A remark a user should read, unless `--quiet`."""
    if not voice.quiet:
        err().print(message, markup=False)


def heading(text: str) -> None:
    """The title of a step in a longer story, unless `--quiet`."""
    if not voice.quiet:
        err().print(f"\n{text}", style="bold", markup=False)


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
    """The one progress bar. Silent when quiet, inside another, or when standard error is not a terminal."""
    if voice.quiet or voice.counting or not sys.stderr.isatty():
        yield Tick(None, None)
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TimeRemainingColumn(), TextColumn("{task.fields[note]}"),
    )
    voice.counting = True
    try:
        with Progress(*columns, console=err(), transient=True) as bar:
            yield Tick(bar, bar.add_task(label, total=total, note=""))
    finally:
        voice.counting = False
