"""Attackers, sampling protocols, threats."""
