"""`advx` (Escobedo et al., 2024): adversarial training, a group of adversaries per attribute behind gradient reversal.

Published for MultVAE, where the adversaries read the sampled encoding; the paper of LEGO extends it to NCF, here on
both user tables, and to LightGCN, here on the propagated rows. Every new requirement means training anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from pydantic import Field

from oblivec.baselines.adversaries import Group, Reversal
from oblivec.baselines.base import Applied, Baseline, BaselineConfig, check_attributes, register
from oblivec.datasets.attributes import Attribute
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.devices import resolve_device
from oblivec.errors import BadInput
from oblivec.recommenders.base import Recommender
from oblivec.recommenders.registry import RECOMMENDERS

GRADIENT_SCALE = {"multvae": 600.0}
"""Printed for MultVAE, whose loss is a sum over a user's interactions: hundreds of times an adversary's."""
OTHER_SCALE = 1.0
"""For models whose loss is a mean over single pairs, and so as large as an adversary's."""


class AdvXConfig(BaselineConfig):
    """The adversaries. The defaults are those of the published code for MultVAE."""

    gradient_scale: float | None = Field(None, ge=0)
    """Weight of the reversed gradient. Default: 600 for MultVAE, as printed; 1 for the others, see OTHER_SCALE."""
    adversaries: int = Field(10, ge=1)
    """Networks per attribute."""
    hidden: int = Field(5, ge=1)
    """Width of their hidden layer."""
    dropout: float = Field(0.3, ge=0, lt=1)
    """Share of a row's entries silenced for each of them."""
    learning_rate: float = Field(1e-3, gt=0)
    """Of their Adam."""
    weight_decay: float = Field(1e-4, ge=0)
    """Of their Adam."""


@register
class AdvX(Baseline):
    name = "advx"
    Config = AdvXConfig
    config: AdvXConfig

    def scale_for(self, model: str) -> float:
        """The weight of the reversed gradient for the model of that name."""
        given = self.config.gradient_scale
        return GRADIENT_SCALE.get(model, OTHER_SCALE) if given is None else given

    def apply(
        self,
        recommender: Recommender,
        split: LeaveOneOut,
        attributes: Sequence[Attribute],
        *,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> Applied:
        """Train a recommender of the same kind and settings from scratch, under pressure from the adversaries.

        What the one given has learnt is not used. Without attributes this is a plain training, bit for bit.
        """
        if recommender.name not in RECOMMENDERS:
            raise BadInput("advx: trains the recommender itself, which a pair of matrices is not; "
                           f"give one of {', '.join(RECOMMENDERS)}")
        check_attributes(split.n_users, attributes)
        place = resolve_device(device)
        fresh = type(recommender)(recommender.config)
        reversal = self._reversal(fresh.name, attributes, seed, place) if attributes else None
        fresh.fit(split, seed=seed, device=place, pressure=reversal)
        facts: dict[str, Any] = {"notes": [], "epochs": fresh.config.epochs}
        if reversal is not None:
            first, last = reversal.mean_losses()
            facts |= {"gradient_scale": reversal.scale, "adversaries_loss_at_first": round(first, 6),
                      "adversaries_loss_at_last": round(last, 6)}
        return Applied(fresh, facts)

    def _reversal(self, model: str, attributes: Sequence[Attribute], seed: int, device: torch.device) -> Reversal:
        config = self.config

        def make(dimensions: int) -> list[Group]:
            return [
                Group(one, dimensions, adversaries=config.adversaries, hidden=config.hidden, dropout=config.dropout,
                      seed=seed, device=device)
                for one in attributes
            ]

        return Reversal(make, self.scale_for(model), config.learning_rate, config.weight_decay)
