"""From a column of cells to an attribute: what is missing, what kind it is, and in which order its classes come.

Missing is an empty cell, NaN or null, and nothing else: the texts "NA", "null" and "None" are labels, and so is "nan"
in a column of text. Text and booleans are categorical; numbers with more than 50 distinct values are continuous,
others categorical; a stated kind overrules. Labels are taken as they stand, spaces included. In a `.csv` file a column
is numeric when every cell that is not empty is a number. Classes are ordered: text by code point, numbers ascending.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oblivec.datasets.attributes import MISSING, Attribute
from oblivec.errors import BadInput
from oblivec.files.arrow import compute, distinct, is_single, is_text
from oblivec.files.ids import first_row
from oblivec.files.numbers import parse_numbers

KINDS = ("categorical", "continuous")
MOST_CATEGORICAL_NUMBERS = 50
"""Numbers with more distinct values than this are continuous."""
USERS_PER_CLASS = 10
"""A categorical attribute has at most one class for so many users."""
_MOST_EXACT = 2.0**53


class NotAnAttribute(Exception):
    """Why a column cannot be used: bad input when it was asked for, a remark when it was not."""


def attribute_from_cells(name: str, cells: Any, kind: str | None, source: str, from_csv: bool = False) -> Attribute:
    """Type one column (an Arrow chunked array). In CSV, text that is all numbers is numbers."""
    codes, labels = _labels(cells)
    if is_text(labels.type) and from_csv:
        numbers = parse_numbers(labels)
        labels = labels if numbers is None else numbers
    if not is_text(labels.type):
        return _from_numbers(name, codes, labels.to_numpy(zero_copy_only=False), kind, source)
    if kind == "continuous":
        raise BadInput(f"{source}: column '{name}' is not numbers, so it cannot be continuous; leave out its --type")
    codes, labels = _used(codes, labels)
    _check_class_count(len(labels), len(codes))
    classes, order = np.unique(labels.to_numpy(zero_copy_only=False).astype(str), return_inverse=True)
    return _categorical(name, order, codes, tuple(classes.tolist()))


def _labels(cells: Any) -> tuple[np.ndarray, Any]:
    """Distinct labels as text or as numbers, and for every row which one it has."""
    import pyarrow as pa

    pc = compute()
    if not is_single(cells.type):
        raise NotAnAttribute(f"holds {cells.type}, which is neither numbers nor text nor booleans")
    codes, labels = distinct(cells.chunks, cells.type)
    kind = labels.type
    if pa.types.is_null(kind):
        labels = labels.cast(pa.large_string())
    elif pa.types.is_boolean(kind):
        labels = pc.if_else(labels, "True", "False").cast(pa.large_string())
    elif pa.types.is_decimal(kind):
        labels = labels.cast(pa.float64())
    elif not (is_text(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise NotAnAttribute(f"holds {kind}, which is neither numbers nor text nor booleans")
    if is_text(labels.type):
        full = np.asarray(pc.not_equal(labels, ""), dtype=bool)
        codes = _renumber(np.where(full, np.cumsum(full) - 1, MISSING), codes)
        labels = labels.filter(pa.array(full))
    if len(labels) == 0:
        raise NotAnAttribute("has no label at all")
    return codes, labels


def _from_numbers(name: str, codes: np.ndarray, labels: np.ndarray, kind: str | None, source: str) -> Attribute:
    if labels.dtype.kind == "f":
        if np.isinf(labels).any():
            row = first_row(_renumber(np.isinf(labels).astype(np.int64), codes) == 1)
            raise BadInput(f"{source}: column '{name}', row {row} is infinite; mend it or leave the cell empty")
        codes = _renumber(np.where(np.isnan(labels), MISSING, np.arange(len(labels))), codes)
    codes, labels = _used(codes, labels)
    numbers, order = np.unique(labels, return_inverse=True)
    if len(numbers) == 0:
        raise NotAnAttribute("has no label at all")
    if kind is None:
        kind = "continuous" if len(numbers) > MOST_CATEGORICAL_NUMBERS else "categorical"
    if kind == "continuous":
        return Attribute(name, "continuous", np.append(labels.astype(np.float64), np.nan)[codes])
    _check_class_count(len(numbers), len(codes))
    return _categorical(name, order, codes, tuple(_number_text(number) for number in numbers.tolist()))


def _used(codes: np.ndarray, labels: Any) -> tuple[np.ndarray, Any]:
    """Only the labels that some row has (a categorical dtype may list others)."""
    counts = np.bincount(codes[codes >= 0], minlength=len(labels))
    return _renumber(np.where(counts > 0, np.cumsum(counts > 0) - 1, MISSING), codes), labels.take(
        np.flatnonzero(counts)
    )


def _renumber(new: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """`new[code]` for every row; a missing label stays missing."""
    return np.append(new, MISSING)[codes]


def _categorical(name: str, order: np.ndarray, codes: np.ndarray, classes: tuple[str, ...]) -> Attribute:
    return Attribute(name, "categorical", _renumber(order, codes).astype(np.int64), classes)


def _check_class_count(classes: int, users: int) -> None:
    if classes * USERS_PER_CLASS > users:
        raise NotAnAttribute(
            f"has {classes} classes for {users} users, more than one for every {USERS_PER_CLASS} (is it an id, or free "
            "text?); group its labels"
        )


def _number_text(number: float) -> str:
    """7 and 7.0 are one class, `7`."""
    return str(int(number)) if isinstance(number, int) or (number.is_integer() and abs(number) < _MOST_EXACT) else repr(
        number
    )
