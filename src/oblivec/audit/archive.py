"""An audit's result as plain JSON and back, nothing lost: what a store keeps so that a report can be made again.

Not for sending: it holds the counts that reports suppress.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from oblivec.audit.result import AttackerResult, AttributeResult, AuditResult, DensityView, ThreatResult


def pack(result: AuditResult) -> dict[str, Any]:
    return _plain(asdict(result))


def unpack(value: dict[str, Any]) -> AuditResult:
    """What `pack` was given."""
    return AuditResult(**value | {
        "threats": {name: _threat(threat) for name, threat in value["threats"].items()},
        "before": None if value["before"] is None else _threat(value["before"]),
        "views": tuple(DensityView(view["attribute"], np.array(view["cells"])) for view in value["views"]),
        "notes": tuple(value["notes"]),
    })


def _threat(value: dict[str, Any]) -> ThreatResult:
    attributes = {name: _attribute(found) for name, found in value["attributes"].items()}
    return ThreatResult(value["name"], value["who"], attributes)


def _attribute(value: dict[str, Any]) -> AttributeResult:
    return AttributeResult(**value | {
        "class_sizes": tuple(value["class_sizes"]), "notes": tuple(value["notes"]),
        "attackers": {name: _attacker(found) for name, found in value["attackers"].items()},
    })


def _attacker(value: dict[str, Any]) -> AttackerResult:
    confusion = value["confusion"]
    low, high = value["ci"]
    return AttackerResult(**value | {
        "ci": (low, high), "confusion": None if confusion is None else np.array(confusion),
    })


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
