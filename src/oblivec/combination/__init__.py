"""Step 2, flexible combination: from calibrations to the release for one requirement."""

from oblivec.combination import composed, convex  # noqa: F401  (registration)
