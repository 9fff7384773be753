"""Options that say how attributes are removed and who attacks the result: the same for `unlearn`, `plan`, `apply`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from oblivec.attacks.panel import PANEL
from oblivec.combination.partners import PARTNERS
from oblivec.errors import BadInput

Method = Annotated[str, typer.Option("--method", metavar="NAME", help=f"One of {', '.join(PARTNERS)}.")]
LabelFree = Annotated[
    bool, typer.Option("--label-free", help="An edit that is a function of the embedding alone, for when an old matrix "
                                            "is already out: comparing the two then tells nothing new.")
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


def method_options(method: str, settings: Sequence[str] | None, label_free: bool, **where: Any) -> dict[str, Any]:
    """Arguments for `Lego`."""
    return {"method": method, "label_free": label_free, **where, **split_settings(settings, [*where, "method"])}


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
