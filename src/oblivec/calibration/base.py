"""What a calibration is, and what makes one: step 1 of LEGO, one attribute at a time.

A calibrator sees one attribute and no other, so calibrations can be made in parallel, kept, and combined later under
any requirement. Adding one is one file: subclass `Calibrator`, give it a name, decorate it with `@register`, import it
in `oblivec/calibration/__init__.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from oblivec.calibration.configured import Configured, Settings, find
from oblivec.datasets.attributes import Attribute


@dataclass(frozen=True)
class Calibration:
    """The edit that removes one attribute alone. As sensitive as the labels: the difference to U spells them out."""

    attribute: str
    """Name of the attribute."""
    method: str
    """Name of the calibrator that made it."""
    calibrated: Tensor
    """N x d, float32: U_t*."""
    tensors: dict[str, Tensor] = field(default_factory=dict)
    """Whatever the method's combiner needs, by name; may be empty."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Plain JSON for a person: steps, objective, notes. Neither labels nor ids."""


class CalibratorConfig(Settings):
    """Settings of a calibrator."""


class Calibrator(Configured):
    """Removes one attribute from a user matrix, and says what to do with users it never saw."""

    Config: ClassVar[type[CalibratorConfig]]

    @abstractmethod
    def calibrate(
        self,
        U: Tensor,
        attribute: Attribute,
        *,
        items: Tensor | None = None,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> Calibration:
        """The edit of the N x d matrix `U` that removes `attribute`.

        `items` (M x d), where the score is a dot product, may tell the method which directions matter. The same seed
        gives the same bits on the same device. The results lie where `U` lies; `device` is where the work is done.
        """

    @abstractmethod
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
        """Embeddings to release for users of the same model who are not in `U`. Nobody knows labels of theirs; those of
        the users in `U` are the `attributes`' to remove."""


REGISTRY: dict[str, type[Calibrator]] = {}

Kind = TypeVar("Kind", bound=type[Calibrator])


def register(kind: Kind) -> Kind:
    REGISTRY[kind.name] = kind
    return kind


def calibrator(name: str, **settings: Any) -> Calibrator:
    """A calibrator by name, e.g. `calibrator("paper", steps=500)`."""
    return find(REGISTRY, "method", name).configure(**settings)
