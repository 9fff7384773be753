"""Threats: what the attacker holds. Each turns the evidence into one or more views, a row per user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from scipy.sparse import csr_matrix

from oblivec.datasets.attributes import Attribute
from oblivec.errors import BadInput
from oblivec.randomness import numpy_rng

View = np.ndarray | csr_matrix
LIST_LENGTHS = (10, 100)
SKETCH_DIMENSIONS = 64
"""Width of the label-free summary of item lists that the panel attacks."""
CHUNK_SCORES = 1 << 24
"""Scores held at once while lists are made."""


class ScoringModel(Protocol):
    """What a threat needs of a trained recommender."""

    @property
    def user_blocks(self) -> dict[str, int]: ...
    tensors: dict[str, torch.Tensor]

    def user_matrix(self) -> np.ndarray: ...
    def with_user_matrix(self, users: np.ndarray) -> Any: ...
    def scores(self, users: torch.Tensor) -> torch.Tensor: ...


@dataclass(frozen=True)
class Evidence:
    """Everything an auditor has, row i of each belonging to row i of `embeddings`."""

    embeddings: np.ndarray
    attributes: Mapping[str, Attribute]
    baseline: np.ndarray | None = None
    items: np.ndarray | None = None
    model: ScoringModel | None = None
    history: csr_matrix | None = None
    """Users x items, what each user met (training part)."""
    hidden: Mapping[str, Attribute] = field(default_factory=dict)
    """True labels of users whose label the platform did not have."""
    seed: int = 0


@dataclass(frozen=True)
class Threat:
    name: str
    who: str
    """Who this attacker is, in plain words."""
    needs: str
    """What must be given to test it."""
    possible: Callable[[Evidence], bool]
    views: Callable[[Evidence], dict[str, View]]

    def see(self, evidence: Evidence) -> dict[str, View]:
        if not self.possible(evidence):
            raise BadInput(f"threat {self.name}: needs {self.needs}")
        return self.views(evidence)

    def labels(self, evidence: Evidence) -> Mapping[str, Attribute]:
        """What this attacker is after: known labels, or under `unlabelled` those the platform did not have."""
        return _hidden_only(evidence) if self.name == "unlabelled" else evidence.attributes


def _difference(evidence: Evidence) -> dict[str, View]:
    assert evidence.baseline is not None
    if evidence.baseline.shape != evidence.embeddings.shape:
        raise BadInput(
            f"threat differencing: the baseline has {evidence.baseline.shape[1]} dimensions, the embeddings "
            f"{evidence.embeddings.shape[1]}; give matrices of the same width"
        )
    return {"": evidence.embeddings.astype(np.float64) - evidence.baseline}


def _parameters(evidence: Evidence) -> dict[str, View]:
    """The release, and every user-side parameter of the model it did not replace."""
    model = evidence.model
    assert model is not None
    release, own = evidence.embeddings, model.user_matrix()
    parts = [release]
    if release.shape[1] != own.shape[1]:
        kept, start = [], 0
        replaced = False
        for width in model.user_blocks.values():
            if not replaced and width == release.shape[1]:
                replaced = True
            else:
                kept.append(own[:, start : start + width])
            start += width
        if not replaced:
            raise BadInput(
                f"threat parameters: the embeddings have {release.shape[1]} dimensions, the model's user tables "
                f"{list(model.user_blocks.values())}; audit a matrix of that model"
            )
        parts += kept
    parts += [
        tensor.detach().cpu().numpy() for name, tensor in model.tensors.items()
        if name != "users" and tensor.ndim == 2 and len(tensor) == len(own) and name.startswith("user")
    ]
    return {"": np.concatenate(parts, axis=1)}


def _recommendations(evidence: Evidence) -> dict[str, View]:
    """Top-K lists as sets of items and, where items have vectors, as the mean vector of the items listed."""
    lists = top_items(evidence, max(LIST_LENGTHS))
    items = evidence.items
    n_items = len(items) if items is not None else int(lists.max()) + 1
    found: dict[str, View] = {}
    for length in LIST_LENGTHS:
        chosen = lists[:, :length]
        rows, places = np.nonzero(chosen >= 0)
        ones = np.ones(len(rows), dtype=np.float32)
        sets = csr_matrix((ones, (rows, chosen[rows, places])), shape=(len(chosen), n_items))
        found[f"top{length}"] = sketch(sets, evidence.seed)
        if items is not None:
            found[f"top{length}-mean"] = _mean_vectors(sets, items)
    return found


def _mean_vectors(sets: csr_matrix, items: np.ndarray) -> np.ndarray:
    """The mean vector of each user's items; zero where there are none."""
    sizes = np.asarray(sets.sum(1)).reshape(-1, 1)
    return np.asarray(sets @ items.astype(np.float32)) / np.maximum(sizes, 1)


def top_items(evidence: Evidence, length: int) -> np.ndarray:
    """The `length` best unseen items of every user, best first, chunked; -1 where fewer are left."""
    users = len(evidence.embeddings)
    if evidence.items is not None:
        if evidence.items.shape[1] != evidence.embeddings.shape[1]:
            raise BadInput(
                f"threat recommendations: items have {evidence.items.shape[1]} dimensions, users "
                f"{evidence.embeddings.shape[1]}; give the item matrix of the same model"
            )
        table, queries = torch.as_tensor(evidence.items).float().T, torch.as_tensor(evidence.embeddings).float()
        n_items = table.shape[1]

        def score(rows: torch.Tensor) -> torch.Tensor:
            return queries[rows] @ table
    else:
        assert evidence.model is not None
        released = evidence.model.with_user_matrix(evidence.embeddings)
        n_items = released.scores(torch.arange(1)).shape[1]

        def score(rows: torch.Tensor) -> torch.Tensor:
            return released.scores(rows).float().cpu()

    history = evidence.history
    found = []
    for rows in torch.arange(users).split(max(1, CHUNK_SCORES // n_items)):
        scores = score(rows).clone()
        if history is not None:
            seen = history[rows.numpy()].tocoo()
            scores[torch.as_tensor(seen.row).long(), torch.as_tensor(seen.col).long()] = -torch.inf
        best = scores.topk(min(length, n_items), dim=1)
        found.append(torch.where(torch.isneginf(best.values), -1, best.indices))
    return torch.cat(found).numpy()


def sketch(lists: csr_matrix, seed: int) -> np.ndarray:
    """A dense summary of item lists by truncated SVD, rare items weighing more. No label is looked at."""
    from sklearn.utils.extmath import randomized_svd

    weighted: Any = csr_matrix(lists, dtype=np.float64)
    popularity = np.asarray(weighted.sum(0)).ravel()
    scale = np.log1p(weighted.shape[0] / np.maximum(popularity, 1))
    lengths = np.sqrt(np.maximum(np.asarray(weighted.sum(1)).ravel(), 1))
    weighted = csr_matrix(weighted.multiply(scale[None]).multiply(1 / lengths[:, None]))
    width = min(SKETCH_DIMENSIONS, min(weighted.shape) - 1)
    if width < 1:
        return weighted.toarray()
    left, strength, _ = randomized_svd(weighted, width, random_state=int(numpy_rng(seed, "sketch").integers(2**31)))
    return left * strength


def _history(evidence: Evidence) -> dict[str, View]:
    assert evidence.history is not None
    return {"": sketch(evidence.history, evidence.seed), "history": evidence.history}


def _hidden_only(evidence: Evidence) -> dict[str, Attribute]:
    """The hidden labels of exactly those users who have none among the known ones."""
    found = {}
    for name, hidden in evidence.hidden.items():
        known = evidence.attributes.get(name)
        if known is not None:
            hidden = hidden.take(np.where(known.labelled, -1, np.arange(len(known.values))))
        found[name] = hidden
    return found


THREATS = {
    threat.name: threat
    for threat in (
        Threat(
            "embeddings", "Someone who gets the released matrix and knows the attribute of some users.",
            "nothing more", lambda e: True, lambda e: {"": e.embeddings},
        ),
        Threat(
            "differencing", "Someone who also holds an older matrix, or another release, and compares the two.",
            "an older matrix (--baseline)", lambda e: e.baseline is not None, _difference,
        ),
        Threat(
            "recommendations", "Someone who sees only which items are recommended to each user.",
            "the item matrix (--items) or the trained model (--model)",
            lambda e: e.items is not None or e.model is not None, _recommendations,
        ),
        Threat(
            "parameters", "An insider who sees every parameter the model keeps about a user, edited or not.",
            "the trained model (--model)", lambda e: e.model is not None, _parameters,
        ),
        Threat(
            "interactions", "Someone who sees what users did, without any model: what can be inferred anyway.",
            "the interactions (--interactions)", lambda e: e.history is not None, _history,
        ),
        Threat(
            "unlabelled", "Someone who attacks the users whose attribute the platform itself did not know, and knows "
            "it for some of them.",
            "the true labels of those users (--hidden-labels)", lambda e: bool(e.hidden), lambda e: {"": e.embeddings},
        ),
    )
}
