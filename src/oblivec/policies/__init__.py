"""From a requirement to a release with its evidence: unlearn one, or plan and apply a file of named ones."""
