"""Several audits of one matrix, each of one attribute, as the one audit they would have been together.

Nothing an attacker does depends on which other attributes are audited; only the correction of p-values does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from oblivec.audit.result import AttributeResult, AuditResult, Verdict
from oblivec.audit.statistics import LEVEL, holm


def merged(audits: Sequence[AuditResult]) -> AuditResult:
    """One audit of the main threat of all. `audits` are of the same matrix, with the same options, one attribute each.

    A verdict that rested on a p-value which the correction raises over the level becomes what the intervals say.
    """
    alone = {name: found for audit in audits for name, found in audit.main.attributes.items()}
    corrected = holm([found.p_value for found in alone.values()])
    first = audits[0]
    attributes = {
        name: _judged(found, float(p_value), first.margin)
        for (name, found), p_value in zip(alone.items(), corrected, strict=True)
    }
    return replace(
        first, p_value=min(found.p_value for found in attributes.values()),
        threats={first.main.name: replace(first.main, attributes=attributes)},
        views=tuple(view for audit in audits for view in audit.views),
        notes=tuple(dict.fromkeys(note for audit in audits for note in audit.notes)),
    )


def _judged(found: AttributeResult, p_value: float, margin: float) -> AttributeResult:
    verdict: Verdict = found.verdict
    if verdict in ("leaks", "below_chance") and p_value >= LEVEL:
        inside = all(
            one.ci[1] <= found.chance + margin and (found.continuous or one.ci[0] >= found.chance - margin)
            for one in found.attackers.values()
        )
        verdict = "at_chance" if inside else "undecided"
    return replace(found, p_value=p_value, verdict=verdict)
