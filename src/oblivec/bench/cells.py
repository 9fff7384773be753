"""A long benchmark as named cells: each is run on its own, kept when done, and never run twice.

Names are paths (`release/ml-1m/lightgcn/0/gender`), so that a pattern picks a part: several runs, on several machines,
each with its own part, add up to one result when their files are put together.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from oblivec.bench.kept_audits import SOURCES, KeptAudits, code_digest
from oblivec.console import say
from oblivec.errors import BadInput

METHOD_SOURCES = (
    *SOURCES, "information/*.py", "calibration/*.py", "combination/*.py", "lego.py", "recommenders/*.py",
    "metrics/*.py", "datasets/foreign.py",
)
"""What a cell's figures depend on, where it makes a release and attacks it."""


@dataclass(frozen=True)
class Cell:
    """One measurement."""

    name: str
    work: Callable[[], dict[str, Any]]
    """Returns plain JSON."""
    base: tuple[str, str, int] | None = None
    """Data set, name and seed of the model it starts from, for those who make models before the cells are run."""


def finish_cells(
    cells: Sequence[Cell],
    *,
    settings: object,
    patterns: Sequence[str] = (),
    resume: Path | None = None,
    enough_seconds: float = float("inf"),
    prepare: Callable[[Sequence[Cell]], None] | None = None,
) -> dict[str, dict[str, Any]]:
    """Results by name, of all `cells` that are done: those kept in `resume` and those this call has run.

    `patterns` picks which to run; a kept one counts whether picked or not. `settings` (anything whose `repr` tells two
    settings apart) is part of what a kept line is kept under. No cell is begun after `enough_seconds`. `prepare` is
    told beforehand which cells are to be run.
    """
    picked = [cell.name for cell in cells if not patterns or any(fnmatchcase(cell.name, one) for one in patterns)]
    if not picked:
        raise BadInput(f"--cells {','.join(patterns)}: matches none; a name looks like {cells[0].name}")
    start = time.perf_counter()
    mark = hashlib.sha256(repr(settings).encode()).hexdigest()[:12]
    kept = KeptAudits(resume, code_digest(METHOD_SOURCES)) if resume is not None else None
    done = kept.read() if kept is not None else {}
    to_run = [cell for cell in cells if cell.name in picked and f"{cell.name} ({mark})" not in done]
    if prepare is not None and to_run and enough_seconds > 0:
        prepare(to_run)
    found: dict[str, dict[str, Any]] = {}
    for cell in cells:
        line = f"{cell.name} ({mark})"
        if line in done:
            found[cell.name] = done[line]
        elif cell in to_run and time.perf_counter() - start < enough_seconds:
            say(f"{cell.name} ...")
            before = time.perf_counter()
            result = cell.work() | {"cell_seconds": round(time.perf_counter() - before, 1)}
            found[cell.name] = result
            if kept is not None:
                kept.add(line, result)
    return found
