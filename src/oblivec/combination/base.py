"""What a combiner is: step 2 of LEGO, from calibrations to the release for one requirement.

Adding one is one file: subclass `Combiner`, give it a name, decorate it with `@register`, import it in
`oblivec/combination/__init__.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from oblivec.calibration.base import Calibration
from oblivec.calibration.configured import Configured, Settings, find
from oblivec.datasets.attributes import Attribute


class CombinerConfig(Settings):
    """Settings of a combiner."""


class Combiner(Configured):
    """Turns the calibrations of the required attributes into one release."""

    Config: ClassVar[type[CombinerConfig]]

    @abstractmethod
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
        """The release, N x d, where `U` lies. `attributes[i]` is the attribute that `calibrations[i]` removes.

        Without a calibration the release is `U` itself, bit for bit; with one, that calibration's matrix.
        """


REGISTRY: dict[str, type[Combiner]] = {}

Kind = TypeVar("Kind", bound=type[Combiner])


def register(kind: Kind) -> Kind:
    REGISTRY[kind.name] = kind
    return kind


def combiner(name: str, **settings: Any) -> Combiner:
    """A combiner by name, e.g. `combiner("convex", projection="logits")`."""
    return find(REGISTRY, "combination", name).configure(**settings)
