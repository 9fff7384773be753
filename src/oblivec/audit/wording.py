"""What an audit found, in the words of someone who does not read code. Rates become "out of 100 users"."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from oblivec.audit.result import AttackerResult, AttributeResult, Verdict
from oblivec.audit.suppression import shown_count

SEVERITY: tuple[Verdict, ...] = ("leaks", "below_chance", "undecided", "at_chance")
"""From the worst news to the best."""

BADGES: dict[Verdict, tuple[str, str]] = {
    "leaks": ("▲", "leaks"),
    "below_chance": ("▼", "below chance"),
    "undecided": ("?", "undecided"),
    "at_chance": ("●", "at chance"),
}
"""A mark and a word for each verdict, so that none is told apart by colour alone."""

THIRDS = ("low third", "middle third", "high third")


@dataclass(frozen=True)
class Answer:
    """One attribute under one threat: a short sentence, the numbers behind it, and the two that matter most."""

    short: str
    numbers: str
    guessing: str
    best: str
    digits: int
    """Decimals these numbers are given with."""


def answer(found: AttributeResult, margin: float) -> Answer:
    worst = found.attackers[found.worst]
    digits = _digits(found, worst)
    guessing, best, low, high = (hundred(rate, digits) for rate in (found.chance, worst.score, *worst.ci))
    if found.continuous:
        frame = "Out of 100 parts of the variation between users, guessing the average explains none;"
        does, lead, reach = "explains", "the best attacker", f"reaches more than {hundred(margin)}"
    else:
        drawn = f"Out of 100 users drawn evenly from its {len(found.class_sizes)} classes"
        frame = f"{drawn}, guessing gets {guessing} right;"
        does, lead = "gets", "the attacker farthest from guessing"
        reach = f"reaches more than {hundred(margin)} away from guessing"
    interval = f"{best} (between {low} and {high})"
    if found.verdict == "leaks":
        short = "Can be inferred."
        numbers = f"{frame} the best attacker, {found.worst}, {does} {interval}. {_beyond_luck(found, worst)}"
    elif found.verdict == "below_chance":
        short = "Can be inferred, by turning the answers round."
        numbers = (
            f"{frame} one attacker, {found.worst}, {does} only {interval}. {_beyond_luck(found, worst)} "
            "The attribute is still there: whoever avoids this attacker's answers learns something."
        )
    elif found.verdict == "at_chance":
        short = "No attacker could tell."
        numbers = f"{frame} {lead}, {found.worst}, {does} {interval}. No attacker's interval {reach}."
    else:
        short = "Cannot be said yet."
        numbers = (
            f"{frame} {lead}, {found.worst}, {does} {interval}. That may be luck, but with this few users a leak of "
            f"more than {hundred(margin)} in 100 cannot be ruled out. {_what_would_decide(found)}"
        )
    return Answer(short, numbers, guessing, best, digits)


def headline(verdicts: Sequence[Verdict]) -> str:
    """The overall answer, from the worst verdict of each attribute."""
    total = len(verdicts)
    leaking = sum(verdict in ("leaks", "below_chance") for verdict in verdicts)
    undecided = verdicts.count("undecided")
    if total == 1:
        if leaking:
            return "The attribute can be inferred from what was attacked."
        if undecided:
            return "Whether the attribute can be inferred is undecided."
        return "The attribute could not be inferred."
    if leaking:
        return f"{f'All {total}' if leaking == total else f'{leaking} of {total}'} attributes can be inferred."
    if undecided:
        verb = "is" if undecided == 1 else "are"
        return f"No leak was found, but {undecided} of {total} attributes {verb} undecided."
    return f"None of the {total} attributes could be inferred."


def overall(verdicts: Sequence[Verdict], p_value: float) -> str:
    """The sentence under the headline."""
    if any(verdict in ("leaks", "below_chance") for verdict in verdicts):
        return f"At least one attacker is better, or worse, than luck explains (whole audit: {p_text(p_value)})."
    if "undecided" in verdicts:
        return "No attacker beats guessing beyond doubt, but there are too few users to exclude that one does."
    return "Every attacker tried stays as close to guessing as this audit was asked to show."


def class_name(rank: int, total: int) -> str:
    """Classes are named by rank of size: their real names are labels."""
    if rank == 0:
        return "class 1 (largest)"
    return f"class {rank + 1} (smallest)" if rank == total - 1 else f"class {rank + 1}"


def sample(found: AttributeResult) -> str:
    """Who was attacked, and how small a leak would have been seen."""
    unit = "parts in 100" if found.continuous else "in 100 users"
    missing = f"; {shown_count(found.missing)} without a label" if found.missing else ""
    return (
        f"{shown_count(found.n)} labelled users{missing}. Smallest leak this could have seen, four times out of five: "
        f"{hundred(found.smallest_leak)} {unit}. Over all attackers: {p_text(found.p_value)}."
    )


def hundred(rate: float, digits: int = 1) -> str:
    """A rate out of 100, without the decimals of a whole number and without the minus sign of a zero.

    A rate that could not be computed (an AUC of one class) is a dash.
    """
    if not math.isfinite(rate):
        return "–"
    value = 100 * rate
    text = f"{value:.{0 if abs(value - round(value)) < 1e-9 else digits}f}"
    return text.lstrip("-") if not text.strip("-0.") else text.replace("-", "−")


def p_text(p_value: float) -> str:
    return "p below 0.001" if p_value < 0.001 else f"p = {p_value:.2g}" if p_value < 0.1 else f"p = {p_value:.2f}"


def _digits(found: AttributeResult, worst: AttackerResult) -> int:
    """Whole users where they tell the story, a decimal where chance is small or rounding hides the difference."""
    apart = abs(round(100 * worst.score) - round(100 * found.chance))
    return 0 if apart >= 2 and (found.continuous or found.chance >= 0.1) else 1


def _beyond_luck(found: AttributeResult, worst: AttackerResult) -> str:
    """The test also looks at how attackers rank users, so it can find what the share told right does not show."""
    if worst.ci[0] <= found.chance <= worst.ci[1]:
        return (
            "This number alone may be luck, but the test over all attackers, which also looks at how sure they are of "
            f"each user, finds more than luck explains ({p_text(found.p_value)})."
        )
    return "Luck does not explain this."


def _what_would_decide(found: AttributeResult) -> str:
    if found.users_to_decide is None:
        return "More labelled users would decide."
    return f"About {found.users_to_decide:,} labelled users would decide; there were {shown_count(found.n)}."
