"""Which combiner goes with which calibrator: a method is a calibrator and its partner here.

A new method adds one line. The table is apart from both registries because neither side needs to know the other.
"""

from __future__ import annotations

from typing import Any

from oblivec.calibration.base import REGISTRY as CALIBRATORS
from oblivec.calibration.configured import find
from oblivec.combination.base import Combiner, combiner

DEFAULT_METHOD = "lego"
PARTNERS = {"lego": "composed", "paper": "convex", "paper-tuned": "convex-tuned"}
"""Calibrator to combiner, by name."""


def methods() -> list[str]:
    """Methods that can be used: calibrators that are registered and have a partner."""
    return sorted(PARTNERS.keys() & CALIBRATORS.keys())


def partner_of(method: str, **settings: Any) -> Combiner:
    """The combiner that turns this method's calibrations into a release."""
    find({name: CALIBRATORS[name] for name in methods()}, "method", method)
    return combiner(PARTNERS[method], **settings)
