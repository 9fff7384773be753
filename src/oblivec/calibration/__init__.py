"""Step 1, embedding calibration: the edit that removes one attribute alone."""
