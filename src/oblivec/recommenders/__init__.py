"""NCF, LightGCN, MultVAE and the yardsticks."""

from oblivec.recommenders.base import Recommender
from oblivec.recommenders.registry import RECOMMENDERS, recommender
from oblivec.recommenders.storage import load, save
from oblivec.recommenders.yardsticks import Ease, MostPopular

__all__ = ["RECOMMENDERS", "Ease", "MostPopular", "Recommender", "load", "recommender", "save"]
