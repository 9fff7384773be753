"""Every error a caller may want to catch, in one place.

Each class carries the exit code the command line ends with. Messages name files, columns and row numbers and say what
to do; they never contain a user id or a label.
"""

from __future__ import annotations

import traceback
from pathlib import Path

PACKAGE = Path(__file__).parent


class OblivecError(Exception):
    """Base of everything Oblivec raises on purpose."""

    exit_code = 1


class BadInput(OblivecError):
    """The input is at fault: a file, a column, an option. One clear line, exit code 2."""

    exit_code = 2


class FetchFailed(BadInput):
    """A data set could be had from none of its sources; the message says where to get it by hand."""


class StoreDamaged(BadInput):
    """An entry of a store is not what was once written: a flipped bit, a missing file. The message says which."""


class LeakFound(OblivecError):
    """`--fail-on-leak` was given and the audit found a leak."""

    exit_code = 3


class LimitMissed(OblivecError):
    """A release missed a limit of its policy and was not written."""

    exit_code = 4


def place_of(problem: BaseException) -> str:
    """File and line of this package where an unforeseen error arose: says where, and quotes nothing."""
    frames = traceback.extract_tb(problem.__traceback__)
    own = (frame for frame in reversed(frames) if Path(frame.filename).is_relative_to(PACKAGE))
    place = next(own, frames[-1] if frames else None)
    return f"{Path(place.filename).name}, line {place.lineno}" if place is not None else "an unknown place"
