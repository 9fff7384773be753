"""`original`: nothing is done. Where every comparison starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from oblivec.baselines.base import BaselineConfig, ReleaseBaseline, register
from oblivec.datasets.attributes import Attribute


class OriginalConfig(BaselineConfig):
    """There is nothing to set."""


@register
class Original(ReleaseBaseline):
    name = "original"
    Config = OriginalConfig

    def _edit(
        self, U: Tensor, attributes: Sequence[Attribute], items: Tensor | None, seed: int
    ) -> tuple[Tensor, dict[str, Any]]:
        return U.clone(), {}
