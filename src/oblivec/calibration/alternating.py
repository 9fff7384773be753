"""The loop of Algorithm 1, step 1: q learns to read the attribute, the embeddings move so that it cannot, in turns.

`paper` and `paper-tuned` are this loop with different settings. Two slips in the printed algorithm are read as
meant: line 5 samples from U_t^0, which would make the gradient of line 8 zero (read: U_t^e), and the same phi appears
for all t (read: one q per attribute).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from oblivec.calibration.ball import Ball, project
from oblivec.calibration.base import Calibration, Calibrator, CalibratorConfig
from oblivec.calibration.checks import check, notes
from oblivec.console import progress
from oblivec.datasets.attributes import Attribute
from oblivec.devices import resolve_device
from oblivec.information.batches import Batches
from oblivec.information.estimator import Estimator
from oblivec.information.target import Target
from oblivec.information.variational import VariationalConfig
from oblivec.randomness import torch_rng


class AlternatingConfig(CalibratorConfig):
    """The settings of the loop. The defaults are the paper's, and what it does not print is marked so."""

    steps: int = Field(2000, ge=1)
    """E_1, steps on the embeddings. Printed: 2000."""
    batch_size: int | None = Field(None, ge=2)
    """B, users sampled (without replacement) for each step. Not printed; all of them."""
    optimiser: Literal["adam", "sgd"] = "adam"
    """Algorithm 1 prints a gradient step, the appendix Adam. Adam."""
    learning_rate: float = Field(1e-3, gt=0)
    """eta. Printed: 1e-3."""
    per_user_gradient: bool = False
    """Whether to follow the gradient of B times vCLUB, so that a user's step does not shrink as the batch grows.
    Not printed; no. Adam hardly notices."""
    ball: Ball = "matrix"
    """What `radius` bounds. Printed is the norm of the whole matrix with epsilon / N = 0.5, hence `matrix`; that ball
    is so large that it seldom binds. `row` and `relative-row` bound every user's change."""
    radius: float = Field(0.5, ge=0)
    """epsilon / N for `matrix`, else a user's radius. Printed: 0.5. `inf` for no constraint."""
    q: VariationalConfig = Field(default_factory=lambda: VariationalConfig.model_validate({}))
    """The network q and how it learns."""


class Alternating(Calibrator):
    """Base of the paper's methods. Users without a label are left as they are."""

    Config: ClassVar[type[AlternatingConfig]] = AlternatingConfig
    config: AlternatingConfig

    def calibrate(
        self,
        U: Tensor,
        attribute: Attribute,
        *,
        items: Tensor | None = None,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> Calibration:
        """Algorithm 1, lines 2 to 12, for one attribute. The paper has no use for `items`."""
        target = Target.of(attribute, resolve_device(device))
        check(U, attribute, target)
        calibrated = U.detach().clone().float()
        facts: dict[str, Any] = {"notes": notes(target, U.shape[1])}
        if not target.is_constant:
            start = calibrated.to(target.rows.device)[target.rows]
            moved, run = alternate(start, target, self.config, seed, attribute.name)
            calibrated[target.rows.to(calibrated.device)] = moved.to(calibrated.device)
            facts |= run
        return Calibration(attribute.name, self.name, calibrated, {}, facts)

    def transform(self, U: Tensor, attributes: Sequence[Attribute], U_new: Tensor, **_: Any) -> Tensor:
        """`U_new` as it is: the paper has nothing for users whose label it did not see. They stay unprotected."""
        return U_new


def alternate(
    U0: Tensor, target: Target, config: AlternatingConfig, seed: int, name: str
) -> tuple[Tensor, dict[str, Any]]:
    """The rows of the labelled users, moved, and what there is to say about the run."""
    estimator = Estimator(U0, target, config.q, seed, name)
    U = U0.clone()
    kind = torch.optim.Adam if config.optimiser == "adam" else torch.optim.SGD
    optimiser = kind([U], lr=config.learning_rate)
    batches = Batches(len(U), config.batch_size, torch_rng(seed, "batches", name, device=U.device))
    # A step in q's units: what is small to q is small to the step, whatever the scale of a column.
    per_column = estimator.q.column_variance
    first = estimate = likelihood = U.new_zeros(())
    with progress(f"Calibrating {name}", config.steps) as tick:
        for step in range(config.steps):
            rows = batches.draw()
            likelihood = estimator.follow(U[rows], target.labels[rows])
            estimate, gradient = estimator.push(U[rows], target.labels[rows])
            first = estimate if step == 0 else first
            U.grad = torch.zeros_like(U)
            U.grad[rows] = gradient * per_column * (len(gradient) if config.per_user_gradient else 1)
            optimiser.step()
            project(U, U0, config.ball, config.radius)
            tick()
    moved = (U - U0).norm() / U0.norm().clamp_min(1e-30)
    return U.detach(), {
        "steps": config.steps,
        "vclub_at_first": round(float(first), 6),
        "vclub_at_last": round(float(estimate), 6),
        "log_likelihood_of_q": round(float(likelihood), 6),
        "moved": round(float(moved), 6),
    }
