"""A long measurement as named cells: each is run on its own, kept when done, and never run twice.

Names are paths (`release/ml-1m/lightgcn/0/lego/gender`), so that a pattern picks a part: several runs, on several
machines, each with its own part, add up to one result when their files are put together.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from oblivec.console import say, voice
from oblivec.engines.local import map_tasks
from oblivec.errors import BadInput, OblivecError, place_of
from oblivec.experiments.kept import SOURCES, Kept, code_digest
from oblivec.files.atomic import check_writable
from oblivec.machine import describe_machine

METHOD_SOURCES = (
    *SOURCES, "information/*.py", "calibration/*.py", "combination/*.py", "lego.py", "recommenders/*.py",
    "metrics/*.py", "datasets/foreign.py",
)
"""What a cell's figures depend on, where it makes a release by one of our methods and attacks it."""


@dataclass(frozen=True)
class Cell:
    """One measurement, or one piece of work from which several come."""

    name: str
    work: Callable[[], dict[str, Any]]
    """Returns plain JSON. It runs on one thread, in a process of its own where there are several jobs."""
    base: tuple[str, str, int] | None = None
    """Data set, name and seed of the model it starts from, for those who make models before the cells are run."""
    sources: tuple[str, ...] = METHOD_SOURCES
    """Patterns, relative to the package, of the code its result depends on: other code, other result."""
    settings: object = None
    """Whatever else its result depends on; the `repr` must tell two apart."""
    parts: tuple[str, ...] = ()
    """Names of the results where one work gives several: it then returns a mapping from these names."""
    alone: bool = False
    """Whether it measures time, so that nothing else may run beside it."""

    @property
    def results(self) -> tuple[str, ...]:
        return self.parts or (self.name,)

    def line(self, result: str) -> str:
        """What a result is kept under."""
        return f"{result} ({hashlib.sha256(repr(self.settings).encode()).hexdigest()[:12]})"


@dataclass(frozen=True)
class Finished:
    """What is there after a run."""

    found: dict[str, dict[str, Any]]
    """Results by name, in the order of the cells; each with its `cell_seconds`, its `cell_cpu_seconds` (the same
    on a busy machine) and the `machine` it was made on."""
    missing: list[str]
    failed: dict[str, str] = field(default_factory=dict)
    """Cells that were begun in this run and ended in an error, with what went wrong."""
    exit_code: int = 0
    """What the command should end with: 1, or 2 where only input was at fault."""
    earlier: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    """Of those missing, what other code than the present gave: its digest and the result."""


def machines_of(found: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The machines that these results were made on, in the order of the results, each with how many are its own."""
    made_on = [json.dumps(one["machine"]) for one in found.values()]
    return [json.loads(one) | {"cells": count} for one, count in Counter(made_on).items()]


def finish_cells(
    cells: Sequence[Cell],
    *,
    patterns: Sequence[str] = (),
    resume: Path | None = None,
    enough_seconds: float = float("inf"),
    jobs: int | None = None,
    prepare: Callable[[Sequence[Cell]], None] | None = None,
) -> Finished:
    """Results of all `cells` that are done: those kept in the file `resume`, and those this call has run.

    `patterns` picks which to run; a kept one counts whether picked or not. Cells run in `jobs` processes (default: all
    cores), each adding its own line to the file as soon as it is done; those that measure time come last, one by one. A
    cell that fails is said and leaves the others alone. None is begun after `enough_seconds`. `prepare` is told
    beforehand which cells are to be run.
    """
    picked = [cell for cell in cells if not patterns or _matches(cell, patterns)]
    if not picked:
        example = f"; a name looks like {cells[0].name}" if cells else ""
        raise BadInput(f"--cells {','.join(patterns)}: matches none{example}")
    until = time.time() + enough_seconds
    kept = None
    done: dict[str, dict[str, Any]] = {}
    codes = {cell.line(name): code_digest(cell.sources) for cell in cells for name in cell.results}
    if resume is not None:
        check_writable(resume)
        resume.parent.mkdir(parents=True, exist_ok=True)
        kept = Kept(resume)
        done = kept.read(codes)
    to_run = [cell for cell in picked if any(cell.line(name) not in done for name in cell.results)]
    if prepare is not None and to_run and enough_seconds > 0:
        prepare(to_run)
    run = partial(_run, kept, until, voice.quiet, os.getpid())
    beside, alone = ([cell for cell in to_run if cell.alone == kind] for kind in (False, True))
    outcomes = map_tasks(run, beside, jobs, "Cells") + map_tasks(run, alone, 1, "Timed cells")
    ended = dict(zip([cell.name for cell in beside + alone], outcomes, strict=True))
    found: dict[str, dict[str, Any]] = {}
    for cell in cells:
        fresh = getattr(ended.get(cell.name), "results", {})
        for name in cell.results:
            if name in fresh or cell.line(name) in done:
                found[name] = fresh[name] if name in fresh else done[cell.line(name)]
    failures = {name: one for name, one in ended.items() if one is not None and one.problem}
    ends = {one.exit_code for one in failures.values()}
    missing = {name: cell.line(name) for cell in cells for name in cell.results if name not in found}
    earlier = kept.earlier(codes) if kept is not None else {}
    return Finished(
        found, list(missing), {name: one.problem for name, one in failures.items()}, min(ends) if ends else 0,
        {name: earlier[line] for name, line in missing.items() if line in earlier},
    )


@dataclass(frozen=True)
class _Ended:
    results: Mapping[str, dict[str, Any]]
    problem: str = ""
    exit_code: int = 0


def _matches(cell: Cell, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in {cell.name, *cell.results} for pattern in patterns)


def _run(kept: Kept | None, until: float, quiet: bool, parent: int, cell: Cell) -> _Ended | None:
    """Run one cell and keep it; None when time was up. What goes wrong is told in one line that quotes no data."""
    if time.time() >= until:
        return None
    if os.getpid() != parent:
        voice.quiet, voice.counting = quiet, True  # the bar on the screen is the parent's
    start, work_before = time.perf_counter(), time.process_time()
    try:
        result = cell.work()
    except Exception as problem:
        known = isinstance(problem, OblivecError)
        text = " ".join(str(problem).split()) if known else f"{type(problem).__name__} in {place_of(problem)}"
        say(f"{cell.name}: FAILED: {text}")
        return _Ended({}, text, problem.exit_code if isinstance(problem, OblivecError) else 1)
    seconds, work = (
        round((now - then) / len(cell.results), 1)
        for now, then in ((time.perf_counter(), start), (time.process_time(), work_before))
    )
    results = {
        name: one | {"cell_seconds": seconds, "cell_cpu_seconds": work, "machine": describe_machine()}
        for name, one in (result if cell.parts else {cell.name: result}).items()
    }
    if kept is not None:
        for name, one in results.items():
            kept.add(cell.line(name), code_digest(cell.sources), one)
    if not sys.stderr.isatty():  # where there is no bar
        say(f"{cell.name}: {seconds * len(results):.1f} s")
    return _Ended(results)
