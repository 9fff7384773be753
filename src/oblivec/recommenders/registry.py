"""The recommenders by name. To add one: write its file, add it here, inherit `RecommenderContract` in the tests."""

from __future__ import annotations

from typing import Any

from oblivec.errors import BadInput
from oblivec.recommenders.base import Recommender
from oblivec.recommenders.lightgcn import LightGCN
from oblivec.recommenders.multvae import MultVAE
from oblivec.recommenders.ncf import NCF

RECOMMENDERS: dict[str, type[Recommender]] = {kind.name: kind for kind in (NCF, LightGCN, MultVAE)}


def recommender(name: str, preset: str = "default", **settings: Any) -> Recommender:
    """An unfitted recommender, e.g. `recommender("lightgcn", epochs=50)`."""
    if name not in RECOMMENDERS:
        raise BadInput(f"model {name!r}: unknown; use one of {', '.join(RECOMMENDERS)}")
    return RECOMMENDERS[name].configure(preset, **settings)
