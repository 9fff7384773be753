"""Which attributes have enough labels to be attacked, and what is said about the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from oblivec.attacks.base import REGISTRY
from oblivec.attacks.sampling import FOLDS
from oblivec.datasets.attributes import MISSING, Attribute
from oblivec.errors import BadInput

NEEDED = "at least two classes, or ten values, are needed to attack it"


def attackable(
    attributes: Mapping[str, Attribute], attackers: Sequence[str], threat: str, *, named: bool, said: list[str]
) -> list[Attribute]:
    """The attributes with enough labels to attack, without their small classes; what was left out is `said`.

    `named`: they were asked for by name, so that one that cannot be attacked is bad input and not merely skipped.
    """
    found = []
    for attribute in attributes.values():
        obstacle = _obstacle(attribute, attackers)
        if obstacle is None:
            found.append(_without_small_classes(attribute, said))
            continue
        where = f"attribute '{attribute.name}' under threat {threat} {obstacle}"
        if named:
            raise BadInput(where)
        said.append(f"{where}; it was skipped")
    return found


def _obstacle(attribute: Attribute, attackers: Sequence[str]) -> str | None:
    if attribute.is_continuous:
        known = attribute.values[attribute.labelled]
        if not any(REGISTRY[name].attacks_continuous for name in attackers):
            return f"is continuous, which {' and '.join(attackers)} cannot attack; add --attacker linear"
        if len(known) < 2 * FOLDS:
            return f"has {len(known)} labelled users; {NEEDED}"
        return f"has only one value; {NEEDED}" if np.ptp(known) == 0 else None
    large = int((attribute.counts >= FOLDS).sum())
    classes = "class" if large == 1 else "classes"
    return f"has {large} {classes} of at least {FOLDS} labelled users; {NEEDED}" if large < 2 else None


def _without_small_classes(attribute: Attribute, said: list[str]) -> Attribute:
    """Without the classes that cannot be shared out over the folds; their users count as left out, not as a class."""
    if attribute.is_continuous or (attribute.counts >= FOLDS).all():
        return attribute
    counts = attribute.counts
    kept, small = np.flatnonzero(counts >= FOLDS), int(((counts > 0) & (counts < FOLDS)).sum())
    if small:
        said.append(
            f"attribute '{attribute.name}': {small} of {small + len(kept)} classes have fewer than {FOLDS} users and "
            "are left out; nothing can be said about them"
        )
    new = np.full(len(attribute.classes) + 1, MISSING, dtype=np.int64)
    new[kept] = np.arange(len(kept))
    return replace(attribute, values=new[attribute.values], classes=tuple(attribute.classes[c] for c in kept))
