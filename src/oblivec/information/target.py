"""An attribute as the network q sees it: the labelled rows, and their labels in a form to learn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from oblivec.datasets.attributes import Attribute


@dataclass(frozen=True)
class Target:
    """Users without a label take no part."""

    rows: Tensor
    """Rows of the user matrix that have a label, ascending, int64."""
    labels: Tensor
    """Their class codes (int64), or their values in units of the standard deviation (float32) when continuous."""
    n_classes: int
    """0 when continuous."""

    @classmethod
    def of(cls, attribute: Attribute, device: torch.device | str = "cpu") -> Target:
        """Continuous values are centred and scaled, which no measure of information notices."""
        rows = np.flatnonzero(attribute.labelled)
        values = attribute.values[rows]
        if attribute.is_continuous:
            values = values.astype(np.float64)
            centred = values - values.mean() if len(values) else values
            spread = centred.std() if len(values) else 0.0
            labels = torch.from_numpy((centred / spread if spread > 0 else centred).astype(np.float32))
        else:
            labels = torch.from_numpy(values.astype(np.int64))
        return cls(torch.from_numpy(rows).to(device), labels.to(device), len(attribute.classes))

    @property
    def is_constant(self) -> bool:
        """Whether all labelled users have the same label: then there is nothing to learn or to remove."""
        return bool((self.labels == self.labels[:1]).all())

    @property
    def class_sizes(self) -> Tensor:
        """Users of every class that occurs; empty when continuous."""
        sizes = torch.bincount(self.labels) if self.n_classes else self.rows[:0]
        return sizes[sizes > 0]
