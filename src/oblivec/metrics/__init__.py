"""Ranking quality."""
