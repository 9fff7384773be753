"""Interactions, attributes, splits; fetching with checksums."""
