"""The audit as one table on a terminal: what every command that audits prints."""

from __future__ import annotations

from oblivec.audit.result import AttributeResult, AuditResult
from oblivec.console import say, show_table

VERDICTS = {
    "leaks": "leaks", "below_chance": "leaks (below chance)", "at_chance": "at chance",
    "undecided": "undecided",
}


def show_audit(result: AuditResult) -> None:
    """One table a person understands."""
    several = len(result.threats) > 1
    rows = []
    for threat in result.threats.values():
        for found in threat.attributes.values():
            rows.append(([threat.name] if several else []) + _row(found))
    columns = ["attribute", "verdict", "guessing", "best guesser", "attacker", "95 % interval", "p", "users"]
    shown = "share of each class recognised, in percent; R2 for a continuous attribute"
    show_table(
        "What can be inferred", (["threat"] if several else []) + columns, rows,
        caption=f"{shown}. p counts all attackers and attributes. margin {100 * result.margin:g} points, "
                f"protocol {result.protocol}, seed {result.seed}",
    )
    for threat in result.threats.values():
        for found in threat.attributes.values():
            if found.users_to_decide is not None:
                say(f"{found.name}: about {found.users_to_decide:,} labelled users would decide; "
                    f"a leak of {_points(found.smallest_leak, found)} would most likely have been seen with these")


def _points(distance: float, found: AttributeResult) -> str:
    return f"{distance:.3f} (R2)" if found.continuous else f"{100 * distance:.1f} points"


def _row(found: AttributeResult) -> list[str]:
    worst = found.attackers[found.worst]
    unit = 1 if found.continuous else 100
    digits = ".3f" if found.continuous else ".1f"
    return [
        found.name, VERDICTS[found.verdict], f"{unit * found.chance:{digits}}", f"{unit * worst.score:{digits}}",
        found.worst,
        f"{unit * worst.ci[0]:{digits}} to {unit * worst.ci[1]:{digits}}",
        f"{found.p_value:.4f}" if found.p_value >= 0.001 else "<0.001", f"{found.n:,}",
    ]
