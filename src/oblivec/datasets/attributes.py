"""Sensitive attributes of users: categorical, binned or continuous, with missing labels as first-class citizens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Kind = Literal["categorical", "binned", "continuous"]
MISSING = -1
"""Code of a missing label of a categorical or binned attribute; a missing continuous value is NaN."""


@dataclass(frozen=True)
class Attribute:
    """One attribute of N users, row i belonging to row i of the user matrix.

    `values` are class codes (int64, `MISSING` where there is no label) or, for a continuous attribute, float64 with
    NaN where there is no label. `classes` names the codes in order; empty for a continuous attribute.
    """

    name: str
    kind: Kind
    values: np.ndarray
    classes: tuple[str, ...] = ()

    @property
    def is_continuous(self) -> bool:
        return self.kind == "continuous"

    @property
    def labelled(self) -> np.ndarray:
        """Which rows have a label."""
        return np.isfinite(self.values) if self.is_continuous else self.values != MISSING

    @property
    def missing(self) -> int:
        return int((~self.labelled).sum())

    @property
    def counts(self) -> np.ndarray:
        """Users per class."""
        return np.bincount(self.values[self.labelled], minlength=len(self.classes))

    def take(self, rows: np.ndarray) -> Attribute:
        """The same attribute for other rows; a row number of -1 gives a missing label."""
        rows = np.asarray(rows)
        absent = np.nan if self.is_continuous else MISSING
        values = np.where(rows >= 0, self.values[np.maximum(rows, 0)], absent) if len(self.values) else (
            np.full(len(rows), absent)
        )
        return Attribute(self.name, self.kind, values.astype(self.values.dtype), self.classes)


def categorical(name: str, labels: Sequence[object] | np.ndarray) -> Attribute:
    """Codes in the sorted order of the labels' text; `None` and NaN are missing, and nothing else is."""
    texts = np.array([_text(label) for label in labels], dtype=object)
    present = np.array([text is not None for text in texts], dtype=bool)
    classes, codes = np.unique(texts[present].astype(str), return_inverse=True) if present.any() else ((), [])
    values = np.full(len(texts), MISSING, dtype=np.int64)
    values[present] = codes
    return Attribute(name, "categorical", values, tuple(str(label) for label in classes))


def binned(name: str, values: np.ndarray, upper_edges: Sequence[float], classes: Sequence[str]) -> Attribute:
    """Class k holds `upper_edges[k - 1] < value <= upper_edges[k]`; the last class has no upper edge."""
    values = np.asarray(values, dtype=np.float64)
    codes = np.searchsorted(np.asarray(upper_edges, dtype=np.float64), values, side="left").astype(np.int64)
    return Attribute(name, "binned", np.where(np.isnan(values), MISSING, codes), tuple(classes))


def continuous(name: str, values: np.ndarray) -> Attribute:
    return Attribute(name, "continuous", np.asarray(values, dtype=np.float64))


def _text(label: object) -> str | None:
    if label is None or (isinstance(label, float) and np.isnan(label)):
        return None
    return str(label)
