"""Statistics, verdicts, reports."""
