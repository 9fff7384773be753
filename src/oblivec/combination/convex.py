"""The paper's flexible combination: U(alpha) = sum_i alpha_i U_i*, with only the weights alpha learned.

`convex` is Algorithm 1, lines 13 to 20, as printed; `convex-tuned`, the partner of `paper-tuned`, has weights that can
move and a q that keeps up. Both give each attribute its share of the correction and hand the rest of the leak back:
that is a property of convex combinations, not of the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from oblivec.calibration.base import Calibration
from oblivec.calibration.paper_tuned import KeepingUp
from oblivec.combination.base import Combiner, CombinerConfig, register
from oblivec.console import progress
from oblivec.datasets.attributes import Attribute
from oblivec.devices import resolve_device
from oblivec.errors import BadInput
from oblivec.information.batches import Batches
from oblivec.information.estimator import Estimator
from oblivec.information.target import Target
from oblivec.information.variational import VariationalConfig
from oblivec.randomness import torch_rng


class ConvexConfig(CombinerConfig):
    """The defaults are the paper's, and what it does not print is marked so."""

    steps: int = Field(2000, ge=0)
    """E_2. Printed as a symbol only; the appendix's one number of iterations, 2000. 0 for the plain mean."""
    batch_size: int | None = Field(None, ge=2)
    """B. Not printed; all users. Each attribute samples among its own labelled users."""
    projection: Literal["softmax", "logits"] = "softmax"
    """How alpha stays on the simplex. `softmax` is Equation (projection-alpha) as printed: applied to alpha itself
    after every step, which is no projection but a contraction towards equal weights. `logits` learns the logits of
    alpha instead."""
    optimiser: Literal["sgd", "adam"] = "sgd"
    """Algorithm 1 prints a gradient step; the appendix's Adam is for the embeddings. A gradient step."""
    learning_rate: float = Field(1e-3, gt=0)
    """eta. Algorithm 1 has one eta for both steps. Printed: 1e-3."""
    q: VariationalConfig = Field(default_factory=lambda: VariationalConfig.model_validate({}))
    """One such network per attribute, each starting afresh."""


class ConvexTunedConfig(ConvexConfig):
    """Where the settings differ from the paper's."""

    steps: int = Field(200, ge=0)
    projection: Literal["softmax", "logits"] = "logits"
    optimiser: Literal["sgd", "adam"] = "adam"
    """The gradient of a weight is small beside 1 once the calibrations are good."""
    learning_rate: float = Field(2e-2, gt=0)
    q: KeepingUp = Field(default_factory=lambda: KeepingUp.model_validate({}))


@register
class Convex(Combiner):
    name = "convex"
    Config: ClassVar[type[ConvexConfig]] = ConvexConfig
    config: ConvexConfig

    def combine(
        self,
        U: Tensor,
        calibrations: Sequence[Calibration],
        attributes: Sequence[Attribute],
        *,
        items: Tensor | None = None,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> Tensor:
        if not calibrations:
            return U
        if len(calibrations) == 1:
            return calibrations[0].calibrated
        alpha = self.weights(calibrations, attributes, seed=seed, device=device).to(U.device)
        # The weights sum to 1. Added up as changes, a user whom no calibration moved stays exactly where they were.
        original = U.float()
        release = original.clone()
        for weight, calibration in zip(alpha, calibrations, strict=True):
            release += weight * (calibration.calibrated - original)
        return release

    def weights(
        self,
        calibrations: Sequence[Calibration],
        attributes: Sequence[Attribute],
        *,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> Tensor:
        """alpha, on the simplex, one weight per calibration."""
        if len(calibrations) != len(attributes):
            raise BadInput(f"{len(calibrations)} calibrations with {len(attributes)} attributes; give one for each")
        config, place = self.config, resolve_device(device)
        matrices = [calibration.calibrated.to(place) for calibration in calibrations]
        players = [
            player for attribute in attributes
            if (player := _Player(matrices, attribute, config, seed)).matters
        ]
        alpha = _Weights(len(matrices), config, place)
        with progress("Combining", config.steps) as tick:
            for _ in range(config.steps):
                current = alpha.value
                pulls = [player.gradient(current) for player in players]
                alpha.descend(torch.stack([torch.zeros_like(current), *pulls]).sum(dim=0))
                tick()
        return alpha.value


@register
class ConvexTuned(Convex):
    name = "convex-tuned"
    Config = ConvexTunedConfig


class _Player:
    """One attribute of the requirement: its q, its labelled users, its pull on the weights."""

    def __init__(self, matrices: Sequence[Tensor], attribute: Attribute, config: ConvexConfig, seed: int):
        place = matrices[0].device
        self._matrices = matrices
        self._target = Target.of(attribute, place)
        self.matters = not self._target.is_constant
        if self.matters:
            start = self._mixture(torch.full((len(matrices),), 1 / len(matrices), device=place), self._target.rows)
            rng = torch_rng(seed, "batches", "combination", attribute.name, device=place)
            self._estimator = Estimator(start, self._target, config.q, seed, "combination", attribute.name)
            self._batches = Batches(len(self._target.rows), config.batch_size, rng)

    def gradient(self, alpha: Tensor) -> Tensor:
        """Let q follow U(alpha), then the gradient of vCLUB with respect to alpha, by the chain rule through U."""
        batch = self._batches.draw()
        rows, labels = self._target.rows[batch], self._target.labels[batch]
        x = self._mixture(alpha, rows)
        self._estimator.follow(x, labels)
        _, pull = self._estimator.push(x, labels)
        return torch.stack([(pull * matrix[rows]).sum() for matrix in self._matrices])

    def _mixture(self, alpha: Tensor, rows: Tensor) -> Tensor:
        x = torch.zeros_like(self._matrices[0][rows])
        for weight, matrix in zip(alpha, self._matrices, strict=True):
            x += weight * matrix[rows]
        return x


class _Weights:
    """alpha and how it moves. It starts at 1/k (line 13)."""

    def __init__(self, count: int, config: ConvexConfig, device: torch.device):
        self._printed = config.projection == "softmax"
        start = 1 / count if self._printed else 0.0
        self._moving = torch.full((count,), start, device=device)
        kind = torch.optim.Adam if config.optimiser == "adam" else torch.optim.SGD
        self._optimiser = kind([self._moving], lr=config.learning_rate)

    @property
    def value(self) -> Tensor:
        return self._moving.clone() if self._printed else self._moving.softmax(dim=0)

    def descend(self, gradient: Tensor) -> None:
        """One gradient step on alpha, projected by Equation (projection-alpha), or one on its logits."""
        alpha = self.value
        # Through softmax: d alpha_i / d logit_j = alpha_i (1[i = j] - alpha_j).
        self._moving.grad = gradient if self._printed else alpha * (gradient - alpha @ gradient)
        self._optimiser.step()
        if self._printed:
            self._moving.copy_(self._moving.softmax(dim=0))
