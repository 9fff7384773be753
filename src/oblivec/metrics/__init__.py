"""Ranking quality."""

from oblivec.metrics.ranking import Ranking, factor_scorer, rank_test_items

__all__ = ["Ranking", "factor_scorer", "rank_test_items"]
