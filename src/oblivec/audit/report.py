"""The audit as one self-contained HTML page for a privacy officer: the answer first, the evidence after, limits stated.

The page asks the network for nothing. Its content security policy forbids it to, and allows exactly the one style sheet
and the one script written here, by their checksums.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from oblivec import __version__
from oblivec.audit import wording
from oblivec.audit.charts import ClassMaps, IntervalChart, attacker_chart, change_chart, class_maps
from oblivec.audit.result import SMALLEST_CELL, AttributeResult, AuditResult, Verdict
from oblivec.audit.suppression import row_shares, shown_count
from oblivec.audit.wording import BADGES, SEVERITY, Answer, answer, class_name, hundred, p_text, sample

HERE = Path(__file__).parent
REFERENCE = "interactions"
"""This threat needs no model: it says what the raw history gives away and is no finding about the matrix."""
HEAT_LEVELS = 5
NEEDS = {
    "differencing": "--baseline OLDER", "recommendations": "--model MODEL", "parameters": "--model MODEL",
    "interactions": "--interactions INTERACTIONS", "unlabelled": "--hidden-labels LABELS",
}
"""What the command line must be given for each threat."""


@dataclass(frozen=True)
class Confusion:
    """Row shares of the worst attacker's answers: text and heat level per cell, hidden ones as a dash."""

    attacker: str
    rows: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    classes: int
    """More than there are rows when some have nothing that may be shown."""


@dataclass(frozen=True)
class Panel:
    """One attribute under one threat."""

    anchor: str
    threat: int
    threat_name: str
    who: str
    found: AttributeResult
    answer: Answer
    sample: str
    chart: IntervalChart
    confusion: Confusion | None


@dataclass(frozen=True)
class Section:
    """One attribute under every threat it was attacked with; `key` is the panel that decides its verdict."""

    name: str
    continuous: bool
    panels: tuple[Panel, ...]
    key: Panel
    was: str | None
    """What the best attacker got before, out of 100."""
    maps: ClassMaps | None


def render_report(result: AuditResult, *, title: str | None = None) -> str:
    """The page. The same result gives the same bytes: it holds no date and no machine name."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    pages = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    pages.globals |= {"badges": BADGES, "hundred": hundred, "p_text": p_text, "shown_count": shown_count}
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    sections = _sections(result)
    verdicts: list[Verdict] = [section.key.found.verdict for section in sections]
    return pages.get_template("report.html.j2").render(
        title=title or "Privacy audit of a user matrix",
        style=style, script=script, style_hash=_checksum(style), script_hash=_checksum(script),
        result=result, sections=sections, reference=REFERENCE,
        headline=wording.headline(verdicts), overall=wording.overall(verdicts, result.p_value),
        worst=min(verdicts, key=SEVERITY.index),
        changes=_changes(result),
        sayings=_sayings(result), command=_command(result, sections), versions=_versions(),
        smallest_cell=SMALLEST_CELL,
    )


def _sections(result: AuditResult) -> tuple[Section, ...]:
    names = list(dict.fromkeys(name for threat in result.threats.values() for name in threat.attributes))
    views = {view.attribute: view for view in result.views}
    sections = []
    for a, name in enumerate(names):
        panels = tuple(
            _panel(f"a{a}-t{t}", t, threat.name, threat.who, threat.attributes[name], result.margin)
            for t, threat in enumerate(result.threats.values())
            if name in threat.attributes
        )
        key = _key(panels)
        before = result.before.attributes.get(name) if result.before else None
        comparable = key.threat == 0
        sections.append(Section(
            name, key.found.continuous, panels, key,
            was=hundred(before.attackers[before.worst].score, key.answer.digits) if before and comparable else None,
            maps=class_maps(views[name], key.found.continuous) if name in views else None,
        ))
    return tuple(sections)


def _panel(anchor: str, number: int, name: str, who: str, found: AttributeResult, margin: float) -> Panel:
    return Panel(
        anchor, number, name, who, found, answer(found, margin), sample(found), attacker_chart(found, margin),
        _confusion(found),
    )


def _key(panels: tuple[Panel, ...]) -> Panel:
    """The panel with the worst verdict; the reference threat counts only when there is no other."""
    judged = [panel for panel in panels if panel.threat_name != REFERENCE] or list(panels)
    return min(judged, key=lambda panel: SEVERITY.index(panel.found.verdict))


def _confusion(found: AttributeResult) -> Confusion | None:
    counts = found.attackers[found.worst].confusion
    if found.continuous or counts is None:
        return None
    rows = []
    for rank, shares in enumerate(row_shares(counts)):
        if np.isnan(shares).all():
            continue
        cells = tuple(
            ("–", 0) if np.isnan(share) else (f"{100 * share:.0f}", min(int(share * HEAT_LEVELS), HEAT_LEVELS - 1) + 1)
            for share in shares
        )
        rows.append((class_name(rank, len(counts)), cells))
    return Confusion(found.worst, tuple(rows), len(counts))


def _changes(result: AuditResult) -> tuple[IntervalChart, ...]:
    """Before and after, categorical attributes apart from continuous ones: their scales do not compare."""
    if result.before is None:
        return ()
    before = result.before.attributes
    pairs = [(before[name], found) for name, found in result.main.attributes.items() if name in before]
    kinds = ([pair for pair in pairs if pair[1].continuous is continuous] for continuous in (False, True))
    return tuple(change_chart(kind, result.margin, kind[0][1].continuous) for kind in kinds if kind)


def _sayings(result: AuditResult) -> dict[str, str]:
    """Every attacker that took part, with its own plain words where it is one of the panel's."""
    from oblivec.attacks.panel import REGISTRY

    taking_part = (
        name for threat in result.threats.values() for found in threat.attributes.values() for name in found.attackers
    )
    return {name: getattr(REGISTRY.get(name), "says", "") for name in dict.fromkeys(taking_part)}


def _command(result: AuditResult, sections: tuple[Section, ...]) -> str:
    """How to run the same audit again; the files are whoever has them to name."""
    words = ["oblivec audit EMBEDDINGS --attributes TABLE"]
    words += [f"--attribute {shlex.quote(section.name)}" for section in sections]
    words += [f"--type {shlex.quote(section.name + '=continuous')}" for section in sections if section.continuous]
    words += [f"--threat {name}" for name in result.threats]
    needed = (["--baseline OLDER"] if result.before else []) + [NEEDS[name] for name in result.threats if name in NEEDS]
    words += dict.fromkeys(needed)
    words += [f"--protocol {result.protocol} --margin {100 * result.margin:g} --seed {result.seed} --html REPORT.html"]
    return " \\\n  ".join(words)


def _versions() -> dict[str, str]:
    versions = {"oblivec": __version__}
    for package in ("torch", "numpy", "scipy", "scikit-learn"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "unknown"
    return versions


def _checksum(text: str) -> str:
    """As a content security policy wants it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
