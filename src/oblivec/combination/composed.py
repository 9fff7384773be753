"""The combination that protects all required attributes: start from the largest edit, finish together.

The paper's convex combination gives every attribute only its share of the correction, and adding the edits up counts
what attributes have in common twice, which shows as less than chance. So the release starts from the calibration that
moved furthest and goes on with all required attributes at once, in rounds that stop where chance begins. Cost grows
with the requirement, not with the store. Reads U0, the calibrations and the labels; no interactions, no training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from oblivec.calibration.base import Calibration
from oblivec.calibration.lego import within
from oblivec.calibration.removal import RemovalConfig, remove
from oblivec.calibration.unsaying import UnsayingConfig, unsay
from oblivec.combination.base import Combiner, CombinerConfig, register
from oblivec.datasets.attributes import Attribute
from oblivec.devices import resolve_device
from oblivec.information.target import Target


class ComposedConfig(CombinerConfig, RemovalConfig, UnsayingConfig):
    rounds: int = Field(10, ge=0)
    """Joint rounds of sliced transport."""


@register
class Composed(Combiner):
    name = "composed"
    Config: ClassVar[type[ComposedConfig]] = ComposedConfig
    config: ComposedConfig

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
        if len(calibrations) < 2:
            return calibrations[0].calibrated.clone() if calibrations else U
        place = resolve_device(device)
        original = U.float().to(place)
        targets = [Target.of(attribute, place) for attribute in attributes]
        label = " and ".join(attribute.name for attribute in attributes)
        # Start from the calibration that moved furthest: what is left to do for its attribute is least.
        furthest = max(calibrations, key=lambda one: float((one.calibrated.to(place) - original).norm()))
        if all(calibration.facts.get("label_free") for calibration in calibrations):
            release = unsay(original, targets, self.config, seed, label)
        else:
            start = self._with_unlabelled_moved(furthest, original, calibrations, targets, seed)
            release = remove(start, targets, self.config, seed, label)
        bound = furthest.facts
        return within(release, original, items, bound.get("radius"), bound.get("radius_in", "rows")).to(U.device)

    def _with_unlabelled_moved(
        self, furthest: Calibration, original: Tensor, calibrations: Sequence[Calibration], targets: Sequence[Target],
        seed: int,
    ) -> Tensor:
        """The furthest calibration, users without some label edited label-free for all they have no label for.

        They are not moved for those attributes afterwards.
        """
        start = furthest.calibrated.to(original.device)
        lacking = torch.ones(len(targets), len(original), dtype=torch.bool, device=original.device)
        for row, target in zip(lacking, targets, strict=True):
            row[target.rows] = False
        for pattern in lacking.unique(dim=1).T:
            lacked = [number for number, missing in enumerate(pattern.tolist()) if missing]
            begins = any(calibrations[number] is furthest for number in lacked)
            if len(lacked) == int(begins):
                continue  # nothing to do, or done by the calibration itself
            users = (lacking == pattern[:, None]).all(0)
            begun = original if begins else start
            label = " and ".join(calibrations[number].attribute for number in lacked)
            unsaid = unsay(begun, [targets[number] for number in lacked], self.config, seed, label)
            start = start.index_put((users,), unsaid[users])
        return start
