"""Apply a policy file: calibrate what is missing, combine, audit, gate, write. Killed at any moment, it can go on.

For every policy NAME the output directory gets `NAME.<suffix>`, `NAME.json` and `NAME.html`. A release that misses a
limit of its policy is not written; its reports are, so that one sees by how much, and an older release of that policy
is moved out of the way, to `NAME.superseded.<suffix>`: a file under the policy's own name always keeps to the policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oblivec.audit.report import render_report
from oblivec.audit.result import AttributeResult, Verdict
from oblivec.audit.table import VERDICTS
from oblivec.console import say
from oblivec.files.atomic import remove_file, set_aside, write_json, write_text
from oblivec.files.embeddings import write_embeddings
from oblivec.policies.auditing import with_before
from oblivec.policies.file import Policy
from oblivec.policies.unlearning import Outcome, conclude
from oblivec.policies.work import Work

SUPERSEDED = "superseded"
_ENOUGH = {"at_chance": ("at_chance",), "undecided": ("at_chance", "undecided")}


@dataclass(frozen=True)
class Applied:
    """What became of one policy."""

    name: str
    outcome: Outcome
    missed: list[str]
    """Which limits were missed, and by how much."""

    @property
    def written(self) -> bool:
        return not self.missed

    def to_json(self) -> dict[str, Any]:
        """`NAME.json`: what `unlearn` writes, with the policy's fate in front."""
        return {"policy": self.name, "written": self.written, "missed": self.missed, **self.outcome.to_json()}


def apply_policies(work: Work) -> list[Applied]:
    """Carry out every policy of the file; one that misses its limit does not keep the others from being written."""
    work.lego.calibrate(work.file.attributes)
    applied = []
    for number, (name, policy) in enumerate(work.policies.items(), start=1):
        say(f"policy {number} of {len(work.policies)}: {name}")
        outcome = conclude(work.given, policy.protect, work.lego, work.auditor)
        done = Applied(name, outcome, missed_limits(policy, outcome))
        _write(work, done)
        applied.append(done)
    return applied


def missed_limits(policy: Policy, outcome: Outcome) -> list[str]:
    """What the release does not keep to, in words with numbers."""
    missed = []
    if policy.max_ndcg_loss_percent is not None:
        loss = None if outcome.utility is None else outcome.utility.loss_percent()
        if loss is None:
            missed.append("NDCG@10 could not be measured")
        elif loss > policy.max_ndcg_loss_percent:
            missed.append(f"NDCG@10 loses {loss:.2f} %, at most {policy.max_ndcg_loss_percent:g} % is allowed")
    if policy.verdict is not None:
        found = {} if outcome.after is None else outcome.after.main.attributes
        for name in outcome.requirement:
            if name not in found:
                missed.append(f"{name} could not be attacked, so there is no verdict")
            elif found[name].verdict not in _ENOUGH[policy.verdict]:
                missed.append(_verdict_missed(found[name], policy.verdict))
    return missed


def _verdict_missed(found: AttributeResult, wanted: Verdict) -> str:
    away = abs(found.attackers[found.worst].score - found.chance)
    distance = f"{away:.3f} of R2" if found.continuous else f"{100 * away:.1f} points"
    return (f"{found.name}: {VERDICTS[found.verdict]}, where {VERDICTS[wanted]} is asked for; {found.worst} is "
            f"{distance} away from guessing")


def _write(work: Work, done: Applied) -> None:
    """The release first: killed in between, the report is older than the release and never the other way round."""
    release, folder = work.file.release(done.name), work.file.output.dir
    if done.written:
        write_embeddings(release, work.given.matrix, done.outcome.release)
    else:
        set_aside(release, SUPERSEDED)
    write_json(folder / f"{done.name}.json", done.to_json())
    page = folder / f"{done.name}.html"
    if done.outcome.after is None:
        remove_file(page)
    else:
        both = with_before(done.outcome.after, done.outcome.before)
        write_text(page, render_report(both, title=f"Privacy audit of the release for policy {done.name}"))
