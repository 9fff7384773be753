"""User and item matrices that another library factorised: implicit's ALS and BPR, made once and kept.

ALS rows are as long as their user is active; BPR adds a column of ones, which multiplies the items' biases. Making them
needs `pip install oblivec[foreign]`; reading those already made needs nothing.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from oblivec.console import say
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.errors import BadInput
from oblivec.files.atomic import atomic_path
from oblivec.files.tensors import save_tensors
from oblivec.randomness import derive_seed

Library = Literal["als", "bpr"]
SETTINGS: dict[Library, dict[str, Any]] = {
    "als": {"factors": 64, "regularization": 0.05, "alpha": 10.0, "iterations": 15},
    "bpr": {"factors": 63, "regularization": 0.005, "learning_rate": 0.05, "iterations": 150},
}
"""Plain choices, the same for every data set: these are somebody else's models, not ours to tune."""


def is_installed() -> bool:
    return find_spec("implicit") is not None


def factorised(
    folder: Path, library: Library, dataset: str, split: LeaveOneOut, seed: int, **settings: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Users and items (float32) from `folder`, factorised and put there when absent."""
    from safetensors.torch import load_file

    settings = SETTINGS[library] | settings
    path = folder / f"implicit-{library}-{dataset}-{settings['factors']}-{seed}.safetensors"
    if not path.exists():
        if not is_installed():
            raise BadInput(f"{path}: not made yet, and implicit is not installed; pip install oblivec[foreign]")
        say(f"factorising {dataset} with implicit's {library.upper()}, seed {seed} ...")
        users, items = _factorise(library, split, seed, settings)
        with atomic_path(path) as temporary:
            save_tensors(temporary, {"users": torch.from_numpy(users), "items": torch.from_numpy(items)}, {})
    tensors = load_file(path)
    users, items = tensors["users"].numpy(), tensors["items"].numpy()
    if (len(users), len(items)) != (split.n_users, split.n_items):
        raise BadInput(f"{path}: belongs to another version of {dataset}; remove it or name another folder")
    return users, items


def _factorise(
    library: Library, split: LeaveOneOut, seed: int, settings: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    from implicit.cpu.als import AlternatingLeastSquares  # pyright: ignore[reportMissingImports]
    from implicit.cpu.bpr import BayesianPersonalizedRanking  # pyright: ignore[reportMissingImports]

    kind: Any = AlternatingLeastSquares if library == "als" else BayesianPersonalizedRanking
    with threadpool_limits(limits=1):
        model = kind(num_threads=1, random_state=derive_seed(seed, "implicit", library) % 2**31, **settings)
        model.fit(split.train, show_progress=False)
    users, items = (np.ascontiguousarray(part, dtype=np.float32) for part in (model.user_factors, model.item_factors))
    return users, items
