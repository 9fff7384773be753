"""A method that takes milliseconds and protects a little: for tests of whatever is built around a method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from oblivec.calibration import base
from oblivec.calibration.base import Calibration, Calibrator, CalibratorConfig
from oblivec.combination import partners
from oblivec.datasets.attributes import Attribute
from oblivec.experiments import methods


class QuickConfig(CalibratorConfig):
    label_free: bool = False
    """Remove the direction between the first two classes instead of the class means."""
    radius: float | None = None
    """Longest move of a user, relative to the row's length."""


class Quick(Calibrator):
    """Class means removed (labelled users only), or one direction; the paper's plain mean combines."""

    name = "quick"
    Config = QuickConfig
    config: QuickConfig

    def calibrate(
        self, U: Tensor, attribute: Attribute, *, items: Tensor | None = None, seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> Calibration:
        del items, seed, device
        values, known = torch.from_numpy(attribute.values), torch.from_numpy(attribute.labelled)
        codes = (values > values[known].median()).long() if attribute.is_continuous else values
        means = torch.stack([U[known & (codes == code)].mean(0) for code in codes[known].unique()])
        if self.config.label_free:
            direction = torch.nn.functional.normalize(means[0] - means[1], dim=0)
            move = -(U @ direction)[:, None] * direction
        else:
            place = torch.searchsorted(codes[known].unique(), codes.clamp(min=0))
            move = torch.where(known[:, None], U[known].mean(0) - means[place.clamp(max=len(means) - 1)], 0.0)
        if self.config.radius is not None:
            length, limit = move.norm(dim=1, keepdim=True), self.config.radius * U.norm(dim=1, keepdim=True)
            move = move * (limit / length.clamp(min=1e-12)).clamp(max=1)
        return Calibration(attribute.name, self.name, U + move)

    def transform(self, U: Tensor, attributes: Sequence[Attribute], U_new: Tensor, **_: Any) -> Tensor:
        return U_new


@pytest.fixture
def quick_method(monkeypatch: pytest.MonkeyPatch) -> str:
    """Its name, registered for one test."""
    monkeypatch.setitem(base.REGISTRY, Quick.name, Quick)
    monkeypatch.setitem(partners.PARTNERS, Quick.name, "convex")
    monkeypatch.setattr(methods, "METHODS", {**methods.METHODS, Quick.name: Quick.name})
    monkeypatch.setattr(methods, "STEPWISE", (*methods.STEPWISE, Quick.name))
    return Quick.name
