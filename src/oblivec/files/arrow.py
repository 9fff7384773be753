"""The one door to Arrow's compute functions."""

from __future__ import annotations

from typing import Any


def compute() -> Any:
    """`pyarrow.compute`, imported when first used. Its functions are made at run time, unseen by type checkers."""
    import pyarrow.compute

    return pyarrow.compute
