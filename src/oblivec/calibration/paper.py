"""`paper`: Algorithm 1 as printed, faults included.

Kept to be measured, not to be used: q is too slow for the embeddings it is to describe, vCLUB has no floor, and the
embeddings run ahead of q until they spell out each user's label in a direction q does not look at.
"""

from __future__ import annotations

from oblivec.calibration.alternating import Alternating, AlternatingConfig
from oblivec.calibration.base import register


@register
class Paper(Alternating):
    name = "paper"
    Config = AlternatingConfig
