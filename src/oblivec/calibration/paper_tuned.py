"""`paper-tuned`: the paper's steps with a q that keeps up with the embeddings, and a radius that binds.

The loop, the objective and the network are the paper's. What differs is how fast q learns relative to the embeddings,
that it sees columns on one scale, and that the radius is each user's.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from oblivec.calibration.alternating import Alternating, AlternatingConfig
from oblivec.calibration.ball import Ball
from oblivec.calibration.base import register
from oblivec.information.variational import VariationalConfig


class KeepingUp(VariationalConfig):
    """A q that has adapted to the last step before the next one is taken."""

    optimiser: Literal["adam", "adamw"] = "adamw"
    learning_rate: float = Field(1e-2, gt=0)
    weight_decay: float = Field(1e-2, ge=0)
    steps: int = Field(10, ge=1)
    standardise: bool = True


class PaperTunedConfig(AlternatingConfig):
    """The loop's settings where they differ from the paper's."""

    steps: int = Field(500, ge=1)
    """Steps on the embeddings."""
    optimiser: Literal["adam", "sgd"] = "sgd"
    """Adam would turn the tiny gradients near the end into full-size steps."""
    learning_rate: float = Field(1.0, gt=0)
    """Of a user's own term, in units of q's input. Smaller steps give q the time to learn the sample by heart, which
    pushes attackers below chance; at three times this one the embeddings outrun q again."""
    per_user_gradient: bool = True
    ball: Ball = "relative-row"
    """A share of the user's own row, so that the setting means the same whatever the model's scale."""
    radius: float = Field(0.3, ge=0)
    """Of the length of the user's row. Without a limit the embeddings go on drifting once the attribute is gone, at a
    cost in ranking quality. For LightGCN on ML-1M this is about 0.5 in absolute terms, the number printed."""
    q: KeepingUp = Field(default_factory=lambda: KeepingUp.model_validate({}))


@register
class PaperTuned(Alternating):
    name = "paper-tuned"
    Config = PaperTunedConfig
