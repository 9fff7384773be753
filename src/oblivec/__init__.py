"""Oblivec: make a trained recommender forget what its users never agreed to reveal, and prove it by attack."""

__version__ = "0.1.0"
