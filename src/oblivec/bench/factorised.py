"""User and item matrices of other libraries: implicit's ALS and BPR, scikit-learn's NMF, made once and kept.

ALS rows are as long as their user is active; BPR adds a column of ones, which multiplies the items' biases; more than
half of the NMF is exactly zero. Making ALS and BPR needs `pip install oblivec[foreign]`; reading those already made
needs nothing.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from oblivec.console import say
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.errors import BadInput
from oblivec.files.atomic import atomic_path
from oblivec.files.tensors import save_tensors
from oblivec.randomness import derive_seed

Library = Literal["als", "bpr", "nmf"]
SETTINGS: dict[Library, dict[str, Any]] = {
    "als": {"factors": 64, "regularization": 0.05, "alpha": 10.0, "iterations": 15},
    "bpr": {"factors": 63, "regularization": 0.005, "learning_rate": 0.05, "iterations": 150},
    "nmf": {"factors": 32, "iterations": 400},
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
    path = folder / f"{_maker(library)}-{library}-{dataset}-{settings['factors']}-{seed}.safetensors"
    if not path.exists():
        if library != "nmf" and not is_installed():
            raise BadInput(f"{path}: not made yet, and implicit is not installed; pip install oblivec[foreign]")
        say(f"factorising {dataset} with {_maker(library)}'s {library.upper()}, seed {seed} ...")
        made = _factorise_non_negative(split, seed, **settings) if library == "nmf" else _factorise(
            library, split, seed, settings
        )
        users, items = (np.ascontiguousarray(part, dtype=np.float32) for part in made)
        with atomic_path(path) as temporary:
            save_tensors(temporary, {"users": torch.from_numpy(users), "items": torch.from_numpy(items)}, {})
    tensors = load_file(path)
    users, items = tensors["users"].numpy(), tensors["items"].numpy()
    if (len(users), len(items)) != (split.n_users, split.n_items):
        raise BadInput(f"{path}: belongs to another version of {dataset}; remove it or name another folder")
    return users, items


def _maker(library: Library) -> str:
    return "scikit-learn" if library == "nmf" else "implicit"


def _factorise(
    library: Library, split: LeaveOneOut, seed: int, settings: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    from implicit.cpu.als import AlternatingLeastSquares  # pyright: ignore[reportMissingImports]
    from implicit.cpu.bpr import BayesianPersonalizedRanking  # pyright: ignore[reportMissingImports]

    kind: Any = AlternatingLeastSquares if library == "als" else BayesianPersonalizedRanking
    with threadpool_limits(limits=1):
        model = kind(num_threads=1, random_state=derive_seed(seed, "implicit", library) % 2**31, **settings)
        model.fit(split.train, show_progress=False)
    return model.user_factors, model.item_factors


def _factorise_non_negative(
    split: LeaveOneOut, seed: int, factors: int, iterations: int
) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.decomposition import NMF

    state = derive_seed(seed, "scikit-learn", "nmf") % 2**31
    model: Any = NMF(n_components=cast(Any, factors), init="nndsvda", max_iter=iterations, tol=1e-3, random_state=state)
    with threadpool_limits(limits=1):
        users = model.fit_transform(split.train.astype(np.float32))
    return users, model.components_.T
