"""Options that mean the same in every command, and the one way lists are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from oblivec.console import voice
from oblivec.errors import BadInput


def _set_quiet(value: bool) -> bool:
    voice.quiet = voice.quiet or value
    return value


def _set_verbose(value: bool) -> bool:
    voice.verbose = voice.verbose or value
    return value


Seed = Annotated[
    int, typer.Option("--seed", min=0, help="Seed of every random choice; the same seed gives the same result.")
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", min=1, help="Worker processes [default: all cores]. Never changes a result.")
]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda or auto (the GPU when there is one).")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", callback=_set_quiet, help="Say nothing but errors and results.")
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", callback=_set_verbose, help="Say more about what is being done.")
]


def split_list(values: Sequence[str] | None) -> list[str]:
    """Lists are accepted with commas and by repeating the option: `--protect a,b --protect c`."""
    parts = (part.strip() for value in values or () for part in value.split(","))
    return list(dict.fromkeys(part for part in parts if part))


def split_types(values: Sequence[str] | None) -> dict[str, str]:
    """`--type A=continuous --type B=categorical`, or with commas, as a mapping."""
    types: dict[str, str] = {}
    for pair in split_list(values):
        name, equals, kind = pair.rpartition("=")
        if not (equals and name and kind):
            raise BadInput(f"--type {pair}: write ATTRIBUTE=continuous or ATTRIBUTE=categorical")
        types[name] = kind
    return types
