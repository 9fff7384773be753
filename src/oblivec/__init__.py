"""Oblivec: make a trained recommender forget what its users never agreed to reveal, and prove it by attack."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oblivec.audit.run import audit
    from oblivec.lego import Lego

__version__ = "0.1.0"
__all__ = ["Lego", "__version__", "audit"]


def __getattr__(name: str) -> Any:
    """The front door, opened on first use so that `import oblivec` stays light."""
    if name == "audit":
        return import_module("oblivec.audit")
    if name == "Lego":
        return import_module("oblivec.lego").Lego
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
