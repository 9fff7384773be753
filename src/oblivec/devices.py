"""Which device tensor work runs on."""

from __future__ import annotations

import torch

from oblivec.errors import BadInput


def resolve_device(name: torch.device | str = "auto") -> torch.device:
    """`auto` takes the GPU when there is one; anything else must exist."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise BadInput(f"--device {name}: no such device here; use cpu, cuda or auto") from None
    return device
