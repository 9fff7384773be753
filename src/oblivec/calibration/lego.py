"""`method="lego"`: calibration that holds against attackers it never saw.

The paper minimises vCLUB, which a q that lags behind turns into writing the labels elsewhere. Here users move with
their group until nothing about the groups stands out from random groups of the same sizes, above or below (`removal`);
users without a label, everybody in label-free mode, and users who come later are edited without asking for labels of
their own (`unsaying`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from oblivec.calibration.base import Calibration, Calibrator, CalibratorConfig, register
from oblivec.calibration.checks import check, notes
from oblivec.calibration.removal import RemovalConfig, remove
from oblivec.calibration.shared import same_rows, shared_rows
from oblivec.calibration.unsaying import UnsayingConfig, unsay
from oblivec.datasets.attributes import Attribute
from oblivec.devices import resolve_device
from oblivec.information.target import Target


class LegoConfig(CalibratorConfig, RemovalConfig, UnsayingConfig):
    label_free: bool = False
    """Whether nobody's own label decides how that user moves. Dearer, but safe where an older matrix is already out:
    the difference to it then says nothing that it did not say itself."""
    radius: float | None = Field(None, ge=0)
    """How far a user may be moved, as a share of the length of that user's row. None leaves it to the method."""
    radius_in: Literal["rows", "scores"] = "rows"
    """What the radius measures: the change of the row, or, where items are given, of the row's scores."""


@register
class LegoCalibrator(Calibrator):
    name = "lego"
    Config: ClassVar[type[LegoConfig]] = LegoConfig
    config: LegoConfig

    def calibrate(
        self,
        U: Tensor,
        attribute: Attribute,
        *,
        items: Tensor | None = None,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> Calibration:
        """Each attribute as if it were the only one."""
        place = resolve_device(device)
        target = Target.of(attribute, place)
        check(U, attribute, target)
        facts: dict[str, Any] = {"notes": notes(target, U.shape[1]), "label_free": self.config.label_free,
                                 "radius": self.config.radius, "radius_in": self.config.radius_in}
        original = U.detach().float().to(place)
        if target.is_constant:
            return Calibration(attribute.name, self.name, U.detach().clone().float(), {}, facts)
        missing = len(original) - len(target.rows)
        unsaid = original
        if self.config.label_free or missing:
            unsaid = unsay(original, [target], self.config, seed, attribute.name)
        if self.config.label_free:
            calibrated = unsaid
        else:
            start = unsaid.index_copy(0, target.rows, original[target.rows])
            calibrated = remove(start, [target], self.config, seed, attribute.name)
            together = int(shared_rows(start)[target.rows].sum())
            if together:
                facts["notes"].append(f"{together} users have the same row as many others, as users without a history "
                                      "do: they stay where they are, together")
            if missing:
                facts["notes"].append(f"{missing} users without a label were edited label-free, which protects them "
                                      "less against attackers who know some of their labels")
        calibrated = within(calibrated, original, items, self.config.radius, self.config.radius_in)
        facts["moved"] = round(float((calibrated - original).norm() / original.norm().clamp_min(1e-30)), 6)
        return Calibration(attribute.name, self.name, calibrated.to(U.device), {}, facts)

    def transform(
        self,
        U: Tensor,
        attributes: Sequence[Attribute],
        U_new: Tensor,
        *,
        items: Tensor | None = None,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> Tensor:
        """The label-free edit of everybody together: a map that was made without these users leaves several times as
        much to be read of them. A row that is in `U` already is that user's, whose own label is not asked either."""
        place = resolve_device(device)
        old, new = U.float().to(place), U_new.float().to(place)
        which = same_rows(old, new)
        comes = which < 0
        which[comes] = torch.arange(len(old), len(old) + int(comes.sum()), device=place)
        everybody = torch.cat([old, new[comes]])
        rows = np.r_[np.arange(len(old)), np.full(len(everybody) - len(old), -1)]
        targets = [Target.of(attribute.take(rows), place) for attribute in attributes]
        label = " and ".join(attribute.name for attribute in attributes)
        served = unsay(everybody, targets, self.config, seed, f"{label} of new users")[which]
        return within(served, new, items, self.config.radius, self.config.radius_in).to(U_new.device)


def within(U: Tensor, original: Tensor, items: Tensor | None, radius: float | None, radius_in: str) -> Tensor:
    """U with nobody further from the original than the radius."""
    if radius is None:
        return U
    change = U - original
    if radius_in == "scores" and items is not None:
        gram = items.float().to(U.device)
        gram = gram.T @ gram
        length, limit = ((rows @ gram * rows).sum(1, keepdim=True).clamp_min(0).sqrt() for rows in (change, original))
    else:
        length, limit = (rows.norm(dim=1, keepdim=True) for rows in (change, original))
    return original + change * (radius * limit / length.clamp_min(1e-30)).clamp(max=1)
