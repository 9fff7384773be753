"""Step 1, embedding calibration: the edit that removes one attribute alone."""

from oblivec.calibration import lego, paper, paper_tuned  # noqa: F401  (registration)
