"""A trained recommender on disk: safetensors and JSON, nothing that executes when loaded.

`users.safetensors` holds the user matrix (tensor `embeddings`), `items.safetensors` the item matrix where the score is
a dot product, `model.safetensors` whatever else the model has, `model.json` its name and settings. No tensor is stored
twice: put another `users.safetensors` in the directory and the model scores with that one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import ValidationError
from torch import Tensor

from oblivec import __version__
from oblivec.errors import BadInput
from oblivec.files.atomic import atomic_path, write_json
from oblivec.files.tensors import save_tensors
from oblivec.recommenders.base import Recommender
from oblivec.recommenders.registry import RECOMMENDERS

MODEL_FILE = "model.json"
USERS_FILE = "users.safetensors"
ITEMS_FILE = "items.safetensors"
REST_FILE = "model.safetensors"


def save(model: Recommender, directory: Path | str, user_ids: np.ndarray | None = None) -> None:
    """Write the model's files into `directory`, each whole or not at all.

    `user_ids` go with the user matrix: as tensor `ids` when they are integers, else as text in the metadata.
    """
    directory = Path(directory)
    parts = {name: tensor.detach().cpu().contiguous() for name, tensor in model.tensors.items()}
    users: dict[str, Tensor] = {"embeddings": parts.pop("users")}
    metadata = {"split": json.dumps(model.user_blocks)}
    if user_ids is not None:
        if np.issubdtype(user_ids.dtype, np.integer):
            users["ids"] = torch.from_numpy(user_ids.astype(np.int64))
        else:
            metadata["ids"] = json.dumps([str(key) for key in user_ids])
    _write(directory / USERS_FILE, users, metadata)
    if model.is_dot_product:
        _write(directory / ITEMS_FILE, {"embeddings": parts.pop("items")}, {})
    if parts:
        _write(directory / REST_FILE, parts, {})
    described = {"model": model.name, "settings": model.config.model_dump(mode="json"), "oblivec": __version__}
    write_json(directory / MODEL_FILE, described)


def load(directory: Path | str, device: torch.device | str = "cpu") -> Recommender:
    """The model saved in `directory`, on `device`."""
    directory = Path(directory)
    described = _read_description(directory / MODEL_FILE)
    kind = RECOMMENDERS[described["model"]]
    try:
        config = kind.Config.model_validate(described["settings"])
    except ValidationError as problem:
        where = ".".join(map(str, problem.errors()[0]["loc"]))
        raise BadInput(f"{directory / MODEL_FILE}: setting {where} is not valid; train the model again") from None
    tensors = {"users": _read(directory / USERS_FILE, device)["embeddings"]}
    if kind.is_dot_product:
        tensors["items"] = _read(directory / ITEMS_FILE, device)["embeddings"]
    if (directory / REST_FILE).exists() or not kind.is_dot_product:
        tensors |= _read(directory / REST_FILE, device)
    return kind(config, tensors)


def save_item_side(model: Recommender, target: Path | str) -> None:
    """Everything but the user matrix, for a model whose score is no dot product: what replaces `model.safetensors`."""
    parts = {name: tensor.detach().cpu().contiguous() for name, tensor in model.tensors.items() if name != "users"}
    _write(Path(target), parts, {})


def is_model(directory: Path | str) -> bool:
    return (Path(directory) / MODEL_FILE).is_file()


def _write(target: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    with atomic_path(target) as temporary:
        save_tensors(temporary, tensors, metadata)


def _read(path: Path, device: torch.device | str) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = load_file(path, device=str(device))
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file; the model is incomplete, train it again") from None
    except (SafetensorError, OSError) as problem:
        raise BadInput(f"{path}: cannot be read as safetensors ({type(problem).__name__}); train it again") from None
    if path.name != REST_FILE and "embeddings" not in tensors:
        raise BadInput(f"{path}: has no tensor named embeddings")
    return tensors


def _read_description(path: Path) -> dict[str, Any]:
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file; give a directory written by `oblivec train`") from None
    except (OSError, ValueError):
        raise BadInput(f"{path}: cannot be read as JSON; train the model again") from None
    if not isinstance(described, dict) or described.get("model") not in RECOMMENDERS:
        raise BadInput(f"{path}: does not name a known model ({', '.join(RECOMMENDERS)})")
    return {"settings": {}} | described
