"""What a release does, as tables a person understands: what can be inferred before and after, and what it cost."""

from __future__ import annotations

from oblivec.audit.result import AttributeResult, AuditResult
from oblivec.audit.table import VERDICTS
from oblivec.console import say, show_table
from oblivec.policies.unlearning import Outcome
from oblivec.policies.utility import Utility


def show_outcome(outcome: Outcome, title: str) -> None:
    """Privacy first, then the price."""
    if outcome.before is not None and outcome.after is not None:
        _show_privacy(outcome.before, outcome.after, title)
    if outcome.utility is not None:
        _show_utility(outcome.utility)
    near = "" if outcome.neighbours is None else (
        f"; of each user's 50 nearest users {100 * outcome.neighbours:.0f} % are still among the nearest"
    )
    say(f"The users moved by {100 * outcome.moved:.1f} % of the matrix's norm{near}.")


def _show_privacy(before: AuditResult, after: AuditResult, title: str) -> None:
    rows = []
    for name, now in after.main.attributes.items():
        was = before.main.attributes[name]
        low, high = now.attackers[now.worst].ci
        rows.append((
            name, _rate(was, was.chance), _rate(was, was.attackers[was.worst].score),
            _rate(now, now.attackers[now.worst].score), f"{_rate(now, low)} to {_rate(now, high)}",
            f"{VERDICTS[was.verdict]} -> {VERDICTS[now.verdict]}", f"{now.n:,}",
        ))
    show_table(
        title, ("attribute", "guessing", "before", "after", "95 % interval", "verdict", "users"), rows,
        caption="before, after: the attacker farthest from guessing; share of each class recognised, in percent, or R2 "
                f"for a continuous attribute. margin {100 * after.margin:g} points, seed {after.seed}",
    )
    for now in after.main.attributes.values():
        if now.users_to_decide is not None:
            say(f"{now.name}: about {now.users_to_decide:,} labelled users would decide")


def _show_utility(utility: Utility) -> None:
    names = {"hr@10": "HR@10 (%)", "ndcg@10": "NDCG@10 (%)"}
    control = utility.control
    rows = [
        (shown, f"{utility.before[name]:.2f}", *(() if control is None else (f"{control[name]:.2f}",)),
         f"{utility.after[name]:.2f}", f"{-utility.loss_percent(name):+.1f} %")
        for name, shown in names.items()
    ]
    columns = ("quality", "before", *(() if control is None else ("before, refitted",)), "after", "change")
    caption = "leave-one-out over the full catalogue" if control is None else (
        "leave-one-out over the full catalogue; both item sides refitted the same way, the change is against that"
    )
    show_table("What it costs", columns, rows, caption=caption)


def _rate(found: AttributeResult, rate: float) -> str:
    return f"{rate:.3f}" if found.continuous else f"{100 * rate:.1f}"
