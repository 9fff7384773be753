"""Oblivec: make a trained recommender forget what its users never agreed to reveal, and prove it by attack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["__version__", "audit"]

if TYPE_CHECKING:
    from oblivec.audit.run import audit


def __getattr__(name: str) -> Any:
    """The front door, opened on first use so that `import oblivec` stays light."""
    if name == "audit":
        from oblivec.audit.run import audit

        # The room `oblivec.audit` bears the same name; whoever asks the package for `audit` wants the function.
        return audit
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
