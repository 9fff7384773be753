"""Options that say how attributes are removed and who attacks the result: the same for `unlearn`, `plan`, `apply`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from oblivec.attacks.panel import PANEL, check_attackers
from oblivec.cli.options import split_list, split_types
from oblivec.combination.partners import PARTNERS
from oblivec.errors import BadInput
from oblivec.lego import Lego

Method = Annotated[str, typer.Option("--method", metavar="NAME", help=f"One of {', '.join(PARTNERS)}.")]
LabelFree = Annotated[
    bool, typer.Option("--label-free", help="An edit that asks nobody's own label, for when an old matrix is already "
                                            "out: comparing the two then tells nothing new.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting of the method; repeatable. q.steps=5 reaches inside a "
                                                     "group, combination.steps=5 the second step."),
]
Attackers = Annotated[
    list[str] | None,
    typer.Option("--attacker", metavar="K", help=f"Members of the panel that attacks [default: {', '.join(PANEL)}]."),
]
Types = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="A=TYPE", help="Overrule an attribute's type: categorical or continuous."),
]


@dataclass(frozen=True)
class How:
    """How to remove attributes and who attacks, checked: a wrong name is found before anything is read or made."""

    lego: dict[str, Any]
    """Arguments for `Lego`."""
    attackers: list[str]
    types: dict[str, str]


def how(
    method: str, settings: Sequence[str] | None, label_free: bool, attackers: Sequence[str] | None,
    types: Sequence[str] | None, *, seed: int, jobs: int | None, device: str,
) -> How:
    """From options as they were typed."""
    where = {"seed": seed, "jobs": jobs, "device": device}
    options = {"method": method, "label_free": label_free, **where, **split_settings(settings, [*where, "method"])}
    names = split_list(attackers) or list(PANEL)
    check_attackers(names)
    Lego(**options)
    return How(options, names, split_types(types))


def split_settings(values: Sequence[str] | None, reserved: Sequence[str] = ()) -> dict[str, Any]:
    """`--set steps=5 --set q.steps=2` as nested settings. Values are read as JSON where they are, else as text."""
    settings: dict[str, Any] = {}
    for pair in values or ():
        name, equals, text = pair.partition("=")
        *groups, last = name.strip().split(".")
        if not equals or not all((*groups, last)):
            raise BadInput(f"--set {name}: write NAME=VALUE")
        if (groups or [last])[0] in (*reserved, "label_free", "items", "store"):
            raise BadInput(f"--set {name}: has an option of its own; use that")
        place = settings
        for group in groups:
            place = place.setdefault(group, {})
            if not isinstance(place, dict):
                raise BadInput(f"--set {name}: {group} has a value of its own already; give one or the other")
        place[last] = _value(text.strip())
    return settings


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
