"""From estimates and p-values to a verdict, and what it would take to reach one."""

from __future__ import annotations

import math

import numpy as np

from oblivec.audit.result import AttackerResult, Verdict
from oblivec.audit.statistics import LEVEL


def judge(
    attackers: dict[str, AttackerResult], z: dict[str, np.ndarray], *, chance: float, margin: float, p_value: float,
    continuous: bool,
) -> Verdict:
    """A leak when the corrected p-value says so, in the direction of the strongest evidence; else at chance when every
    interval lies within the margin (for a continuous attribute: below it); else undecided."""
    if p_value < LEVEL:
        strongest = max((value for values in z.values() for value in values), key=abs)
        return "leaks" if continuous or strongest > 0 else "below_chance"
    inside = all(
        attacker.ci[1] <= chance + margin and (continuous or attacker.ci[0] >= chance - margin)
        for attacker in attackers.values()
    )
    return "at_chance" if inside else "undecided"


def farthest(attackers: dict[str, AttackerResult], chance: float, *, continuous: bool) -> str:
    """The attacker farthest from chance, in either direction (upwards only for a continuous attribute)."""
    return max(
        attackers, key=lambda name: attackers[name].score if continuous else abs(attackers[name].score - chance)
    )


def users_to_decide(
    attackers: dict[str, AttackerResult], z: dict[str, np.ndarray], *, chance: float, margin: float, n: int,
    critical: float, continuous: bool,
) -> int:
    """Labelled users at which every attacker would be decided if its estimate stayed where it is.

    Intervals shrink with the square root of the number of users: an estimate inside the margin needs its interval to
    fit, one outside needs its z-score to reach the critical value.
    """
    factor = 1.0
    for name, attacker in attackers.items():
        half = (attacker.ci[1] - attacker.ci[0]) / 2
        distance = attacker.score - chance if continuous else abs(attacker.score - chance)
        if distance + half <= margin:
            continue
        to_fit = (half / (margin - distance)) ** 2 if distance < margin else math.inf
        to_find = (critical / max(float(np.abs(z[name]).max()), 1e-9)) ** 2
        factor = max(factor, min(to_fit, to_find))
    wanted = n * min(factor, 1e6)
    digits = 10 ** max(int(math.log10(max(wanted, 1))) - 1, 0)
    return max(math.ceil(wanted / digits) * digits, n + 1)
