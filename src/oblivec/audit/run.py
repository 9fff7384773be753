"""The audit: panel x threats x attributes, with statistics and a verdict. It knows nothing of how a matrix was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import torch
from scipy.sparse import issparse
from scipy.stats import norm

from oblivec.attacks.base import REGISTRY, Problem, Scores
from oblivec.attacks.panel import PANEL, attack_all, check_attackers
from oblivec.attacks.sampling import Protocol, Sample, draw
from oblivec.attacks.scaling import as_float32
from oblivec.attacks.threats import THREATS, Evidence, View
from oblivec.audit import statistics
from oblivec.audit.attackable import attackable
from oblivec.audit.density import density_view
from oblivec.audit.result import AttackerResult, AttributeResult, AuditResult, ThreatResult
from oblivec.audit.verdicts import farthest, judge, users_to_decide
from oblivec.datasets.attributes import Attribute
from oblivec.devices import resolve_device
from oblivec.errors import BadInput
from oblivec.files.embeddings import embeddings_from
from oblivec.files.matching import match_attributes
from oblivec.files.tables import attributes_from
from oblivec.randomness import derive_seed

MARGIN = 0.03
MOST_USERS = 200_000
"""Labelled users attacked per attribute; more are sampled down to this, and the report says so."""


def audit(
    U: np.ndarray | torch.Tensor, attributes: Any, *, attribute: Sequence[str] | None = None,
    types: Mapping[str, str] | None = None, ids: Any = None, id_column: str | None = None, protocol: Protocol = "panel",
    margin: float = MARGIN, seed: int = 0, jobs: int | None = None, device: str = "auto",
    attackers: Sequence[str] = PANEL,
) -> AuditResult:
    """What can be inferred about `attributes` from the user matrix `U` by someone who knows some users' labels.

    `attributes` is a mapping of name to labels, or a pandas, polars or Arrow table; with `ids` (one per row of `U`) and
    an id column in the table, rows are matched by id, otherwise row i belongs to row i. `attribute` names those to
    audit (default: all). The result is what `oblivec audit --json` writes; it does not say that no attacker could do
    better, only what these attackers do.
    """
    matrix = embeddings_from(U, ids)
    table = attributes_from(attributes, id_column=id_column, types=types, only=list(attribute) if attribute else None)
    matched, notes = match_attributes(matrix, table)
    evidence = Evidence(matrix.values, matched, seed=seed)
    return run_audit(
        evidence, named=attribute is not None, protocol=protocol, margin=margin, seed=seed, jobs=jobs,
        device=device, attackers=attackers, notes=notes,
    )


_Tested = tuple[dict[str, statistics.Estimate], statistics.NullTest]


@dataclass(frozen=True)
class _Cell:
    """One attribute under one threat: its problems, one per view, over the same users and trials."""

    attribute: Attribute
    missing: int
    """Rows without a label; those of a class too small to attack have one."""
    sample: Sample
    problems: dict[str, Problem]
    notes: tuple[str, ...]


def run_audit(
    evidence: Evidence, *, threats: Sequence[str] = ("embeddings",), named: bool = False, protocol: Protocol = "panel",
    margin: float = MARGIN, seed: int = 0, jobs: int | None = None, device: str = "auto",
    attackers: Sequence[str] = PANEL, notes: Sequence[str] = (),
) -> AuditResult:
    """Audit the evidence under every threat named. `named`: the attributes were asked for by name, so that one that
    cannot be attacked is bad input and not merely skipped."""
    check_options(threats, attackers, protocol)
    place = resolve_device(device)
    said = [*notes, *_remarks(evidence.embeddings)]
    cells: dict[tuple[str, str], _Cell] = {}
    for threat in threats:
        views, labels = THREATS[threat].see(evidence), THREATS[threat].labels(evidence)
        wanted = attackable(labels, attackers, threat, named=named, said=said)
        if not wanted:
            raise BadInput(f"no attribute can be attacked under threat {threat}; {'; '.join(said) or 'none was given'}")
        for attribute in wanted:
            missing = labels[attribute.name].missing
            cells[threat, attribute.name] = _prepare(attribute, missing, views, protocol, seed, threat)
    known = attackable(evidence.attributes, attackers, "embeddings", named=False, said=[])
    before = {}
    if evidence.baseline is not None:
        for attribute in known:
            missing, views = evidence.attributes[attribute.name].missing, {"": evidence.baseline}
            before[attribute.name] = _prepare(attribute, missing, views, protocol, seed, "embeddings")
    everything = {**cells, **{("before", name): cell for name, cell in before.items()}}
    problems = {
        f"{threat}/{name}/{view}": (problem, cell.sample)
        for (threat, name), cell in everything.items() for view, problem in cell.problems.items()
    }
    scores = attack_all(problems, attackers, device=place, jobs=jobs)
    tested = {
        key: _test(cell, {view: scores["/".join((*key, view))] for view in cell.problems}, seed, place)
        for key, cell in everything.items()
    }
    corrected = dict(zip(cells, statistics.holm([tested[key][1].p_value for key in cells]), strict=True))
    results = {key: _conclude(cell, *tested[key], corrected[key], margin) for key, cell in cells.items()}
    return AuditResult(
        protocol=protocol, margin=margin, seed=seed, p_value=min(corrected.values()), users=len(evidence.embeddings),
        dimensions=evidence.embeddings.shape[1],
        threats={
            threat: ThreatResult(
                threat, THREATS[threat].who, {name: found for (t, name), found in results.items() if t == threat}
            )
            for threat in threats
        },
        before=_before(before, tested, margin) if before else None,
        views=tuple(density_view(as_float32(evidence.embeddings), attribute, seed) for attribute in known),
        untested={name: threat.who for name, threat in THREATS.items() if name not in threats},
        notes=tuple(dict.fromkeys(said)),
    )


def check_options(threats: Sequence[str], attackers: Sequence[str], protocol: str) -> None:
    """Refuse unknown names; call it before long work rather than after."""
    check_attackers(attackers)
    for option, given, known in (("--threat", threats, THREATS), ("--protocol", [protocol], get_args(Protocol))):
        for name in given:
            if name not in known:
                raise BadInput(f"{option} {name}: unknown; use {', '.join(known)}")


def _remarks(U: np.ndarray) -> list[str]:
    """What a reader should know about the matrix itself."""
    remarks = []
    constant = int((U[:1] == U).all(0).sum())
    if constant:
        remarks.append(f"{constant} of {U.shape[1]} columns are constant and carry nothing")
    duplicates = len(U) - len(np.unique(U, axis=0)) if len(U) <= MOST_USERS else 0
    if duplicates:
        remarks.append(f"{duplicates} of {len(U)} rows repeat another row exactly")
    return remarks


def _prepare(
    attribute: Attribute, missing: int, views: Mapping[str, View], protocol: Protocol, seed: int, threat: str
) -> _Cell:
    rows = np.flatnonzero(attribute.labelled)
    # The same division whatever the threat: before and after are compared on the same folds.
    own = derive_seed(seed, "attribute", attribute.name)
    sample = draw(attribute.values[rows], rows, protocol, own, limit=MOST_USERS)
    notes = []
    if protocol == "panel" and len(sample.rows) < len(rows):
        notes.append(f"{len(sample.rows)} of {len(rows)} labelled users were drawn at random and attacked")
    labels = attribute.values[sample.rows]
    problems = {
        view: Problem(
            matrix[sample.rows] if issparse(matrix) else as_float32(matrix[sample.rows]),
            labels, len(attribute.classes), sample.trials, derive_seed(own, threat, view) % 2**40,
        )
        for view, matrix in views.items()
    }
    return _Cell(attribute, missing, sample, problems, tuple(notes))


def _test(
    cell: _Cell, scores: Mapping[str, Mapping[str, Scores]], seed: int, device: torch.device
) -> _Tested:
    """Estimates and null test over all attackers and views; an attacker on a named view is `attacker@view`."""
    together: dict[str, Scores] = {}
    estimates: dict[str, statistics.Estimate] = {}
    problem = next(iter(cell.problems.values()))
    for view, found in scores.items():
        for name, attacker_scores in found.items():
            key = f"{name}@{view}" if view and len(scores) > 1 and not REGISTRY[name].attacks_lists else name
            together[key] = attacker_scores
            estimates[key] = statistics.estimate(
                problem, cell.sample, attacker_scores, REGISTRY[name].fold_dependence
            )
    return estimates, statistics.null_test(problem, cell.sample, together, seed=seed, device=device)


def _conclude(
    cell: _Cell, estimates: Mapping[str, statistics.Estimate], test: statistics.NullTest, p_value: float, margin: float
) -> AttributeResult:
    attribute, continuous = cell.attribute, cell.attribute.is_continuous
    chance = 0.0 if continuous else 1 / len(attribute.classes)
    sizes = np.bincount(attribute.values[cell.sample.rows]) if not continuous else np.zeros(0, dtype=int)
    by_size = np.argsort(-sizes, kind="stable")
    half = float(norm.ppf(1 - statistics.LEVEL / 2))
    attackers = {
        name: AttackerResult(
            score=found.score,
            ci=_interval(found, half, continuous),
            p_value=test.p_values[name], micro_f1=found.micro_f1, auc=found.auc,
            confusion=None if found.confusion is None else found.confusion[np.ix_(by_size, by_size)],
        )
        for name, found in estimates.items()
    }
    verdict = judge(attackers, test.z, chance=chance, margin=margin, p_value=p_value, continuous=continuous)
    n = len(cell.sample.rows)
    return AttributeResult(
        name=attribute.name, continuous=continuous, chance=chance, n=n, missing=cell.missing,
        class_sizes=tuple(int(size) for size in sizes[by_size]), p_value=p_value,
        worst=farthest(attackers, chance, continuous=continuous), verdict=verdict, attackers=attackers,
        smallest_leak=statistics.smallest_leak(
            float(np.median([found.standard_error for found in estimates.values()])), test.critical
        ),
        users_to_decide=users_to_decide(
            attackers, test.z, chance=chance, margin=margin, n=n, critical=test.critical, continuous=continuous
        ) if verdict == "undecided" else None,
        notes=cell.notes,
    )


def _interval(found: statistics.Estimate, half: float, continuous: bool) -> tuple[float, float]:
    low, high = found.score - half * found.standard_error, found.score + half * found.standard_error
    return (low, min(high, 1.0)) if continuous else (max(low, 0.0), min(high, 1.0))


def _before(cells: Mapping[str, _Cell], tested: Mapping[tuple[str, str], _Tested], margin: float) -> ThreatResult:
    """The attack on the baseline, corrected among itself: it describes the past and costs the release nothing."""
    corrected = statistics.holm([tested["before", name][1].p_value for name in cells])
    return ThreatResult(
        "embeddings", THREATS["embeddings"].who,
        {
            name: _conclude(cell, *tested["before", name], p_value, margin)
            for (name, cell), p_value in zip(cells.items(), corrected, strict=True)
        },
    )
