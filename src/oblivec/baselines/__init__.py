"""What LEGO is compared with: methods of others, and references that mark the ends of the scale."""

from oblivec.baselines import (  # noqa: F401  (registration)
    advx,
    d2dfr,
    dp,
    leace,
    original,
    random_moments,
)
from oblivec.baselines.base import REGISTRY, Applied, Baseline, Protected, ReleaseBaseline, baseline

__all__ = ["REGISTRY", "Applied", "Baseline", "Protected", "ReleaseBaseline", "baseline"]
