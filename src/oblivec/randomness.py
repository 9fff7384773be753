"""Seeds: every random stream is derived from the run's seed and the name of its purpose.

Streams derived this way do not depend on the order in which work is done or on how many workers do it.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch


def derive_seed(seed: int, *purpose: object) -> int:
    """A 63-bit seed that depends on `seed` and on every part of `purpose`, the same on every machine."""
    text = repr((int(seed), *map(str, purpose))).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "little") >> 1


def numpy_rng(seed: int, *purpose: object) -> np.random.Generator:
    return np.random.default_rng(derive_seed(seed, *purpose))


def torch_rng(seed: int, *purpose: object, device: torch.device | str = "cpu") -> torch.Generator:
    return torch.Generator(device=device).manual_seed(derive_seed(seed, *purpose))
