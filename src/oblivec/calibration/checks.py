"""What every calibrator asks of its input, and says about it."""

from __future__ import annotations

from torch import Tensor

from oblivec.datasets.attributes import Attribute
from oblivec.errors import BadInput
from oblivec.information.target import Target


def check(U: Tensor, attribute: Attribute, target: Target) -> None:
    if U.ndim != 2 or len(U) != len(attribute.values):
        raise BadInput(f"attribute {attribute.name}: {len(attribute.values)} labels for a matrix of shape "
                       f"{tuple(U.shape)}; give one row per label")
    if len(target.rows) == 0:
        raise BadInput(f"attribute {attribute.name}: every label is missing, so it cannot be removed; "
                       "give some users' labels, or leave it out")


def notes(target: Target, dimensions: int) -> list[str]:
    if target.is_constant:
        return ["all labelled users have the same label: nothing to remove, the matrix is unchanged"]
    small = int((target.class_sizes < dimensions).sum())
    return [f"{small} of {len(target.class_sizes)} classes have fewer users than dimensions"] if small else []
