"""Plan a policy file: what `apply` would compute, what it would find in the store, and how long it would take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oblivec.policies.estimate import Estimate
from oblivec.policies.unlearning import labels_of
from oblivec.policies.work import Work


@dataclass(frozen=True)
class Step:
    """One kind of work: what is to be computed, what is there, and the seconds it will take."""

    compute: list[str]
    reuse: list[str]
    seconds: float


@dataclass(frozen=True)
class Plan:
    """The steps of `apply`. Calibrations and audits of the original go by attribute, the others by policy."""

    calibrate: Step
    combine: Step
    audit_before: Step
    audit_after: Step
    rest_seconds: float
    """Reading, starting workers, measuring what it costs."""
    probed: list[str]
    """Kinds of work that were probed, the store having nothing of the kind."""

    @property
    def steps(self) -> dict[str, Step]:
        return {
            "calibrate": self.calibrate, "combine": self.combine, "audit before": self.audit_before,
            "audit after": self.audit_after,
        }

    @property
    def seconds(self) -> float:
        return self.rest_seconds + sum(step.seconds for step in self.steps.values())

    def to_json(self) -> dict[str, Any]:
        """The contract of `oblivec plan --json`; `compute` and `reuse` are attributes to calibrate."""
        audits = {when: {"compute": step.compute, "reuse": step.reuse} for when, step in (
            ("before", self.audit_before), ("after", self.audit_after),
        )}
        return {
            "compute": self.calibrate.compute, "reuse": self.calibrate.reuse, "seconds": round(self.seconds, 3),
            "releases": {"compute": self.combine.compute, "reuse": self.combine.reuse}, "audits": audits,
            "seconds_by_step": {name: round(step.seconds, 3) for name, step in self.steps.items()}
            | {"rest": round(self.rest_seconds, 3)},
        }


def make_plan(work: Work, reading_seconds: float = 0.0) -> Plan:
    """What is missing and what it will cost. Computes nothing that is kept; where the store knows nothing of the kind,
    the work is probed on a few users. `reading_seconds`: what opening `work` took, since `apply` will have to do it."""
    file, policies, clock = work.file, work.policies, Estimate(work)
    calibrate, releases = work.lego.missing(file.attributes), work.missing_releases()
    before, after = work.missing_audits_before(), work.missing_audits_after()
    rest = reading_seconds + clock.measure(len(policies))
    if calibrate or before or after:
        rest += clock.start
    return Plan(
        _step(calibrate, file.attributes, clock.calibrate(calibrate)),
        _step(releases, policies, clock.combine([len(set(policies[name].protect)) for name in releases])),
        _step(before, file.attributes, clock.audit([labels_of(work.given, [name]) for name in before])),
        _step(after, policies, clock.audit([labels_of(work.given, policies[name].protect) for name in after])),
        rest, sorted(clock.probed),
    )


def _step(compute: list[str], everything: Any, seconds: float) -> Step:
    return Step(compute, [name for name in everything if name not in compute], seconds)
