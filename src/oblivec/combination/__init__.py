"""Step 2, flexible combination: from calibrations to the release for one requirement."""
