"""What a baseline is: a method that protects several attributes at once, used by name like any other.

There are two kinds. Most edit a user matrix (`ReleaseBaseline.protect`), as LEGO does; one has to be there when the
recommender is trained. What both have is `apply`: from a recommender to one that protects a requirement. Adding a
baseline is one file: subclass, give it a name, decorate it with `@register`, import it in
`oblivec/baselines/__init__.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from oblivec.calibration.configured import Configured, Settings, find
from oblivec.datasets.attributes import Attribute
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.devices import resolve_device
from oblivec.errors import BadInput
from oblivec.recommenders.base import Recommender


@dataclass(frozen=True)
class Protected:
    """A release, and what there is to say about it."""

    release: Tensor
    """N x d, float32, where the user matrix lies."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Plain JSON for a person: steps, objective, `notes`. Neither labels nor ids."""


@dataclass(frozen=True)
class Applied:
    """A recommender that protects a requirement, and what there is to say about it."""

    recommender: Recommender
    facts: dict[str, Any] = field(default_factory=dict)


class BaselineConfig(Settings):
    """Settings of a baseline."""


class Baseline(Configured):
    """Protects a requirement, all its attributes at once."""

    Config: ClassVar[type[BaselineConfig]]

    @abstractmethod
    def apply(
        self,
        recommender: Recommender,
        split: LeaveOneOut,
        attributes: Sequence[Attribute],
        *,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> Applied:
        """A recommender like this one that protects `attributes`; the one given is left as it is."""


class ReleaseBaseline(Baseline):
    """Edits the user matrix of a trained recommender."""

    def protect(
        self,
        U: Tensor,
        attributes: Sequence[Attribute],
        *,
        items: Tensor | None = None,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> Protected:
        """The release of the N x d matrix `U` for the requirement `attributes`; without attributes, `U` itself.

        `items` (M x d), where the score is a dot product, may tell the method what matters. The same seed gives the
        same bits on the same device. The release lies where `U` lies; `device` is where the work is done.
        """
        matrix, catalogue = prepare(U, attributes, items, device)
        if not attributes:
            return Protected(U.detach().clone().float(), {"notes": ["nothing to protect: the matrix is unchanged"]})
        release, facts = self._edit(matrix, attributes, catalogue, seed)
        return Protected(release.to(U.device, torch.float32), {"notes": []} | facts)

    @abstractmethod
    def _edit(
        self, U: Tensor, attributes: Sequence[Attribute], items: Tensor | None, seed: int
    ) -> tuple[Tensor, dict[str, Any]]:
        """The release and the facts; `U` must not be changed. There is at least one attribute."""

    def apply(
        self,
        recommender: Recommender,
        split: LeaveOneOut,
        attributes: Sequence[Attribute],
        *,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> Applied:
        """The recommender, which must be trained, with the release in place of its user matrix."""
        items = recommender.tensors["items"] if recommender.is_dot_product else None
        protected = self.protect(recommender.users, attributes, items=items, seed=seed, device=device)
        return Applied(recommender.with_user_matrix(protected.release), protected.facts)


def spread(U: Tensor) -> float:
    """Root mean square of the entries around their column's mean: the unit in which steps and noise mean the same."""
    return float((U - U.mean(0)).square().mean().sqrt())


def prepare(
    U: Tensor, attributes: Sequence[Attribute], items: Tensor | None, device: torch.device | str
) -> tuple[Tensor, Tensor | None]:
    """What is given, checked; the matrices in float32 where the work is done."""
    _check(U, attributes, items)
    place = resolve_device(device)
    catalogue = None if items is None else items.detach().to(place, torch.float32)
    return U.detach().to(place, torch.float32), catalogue


def _check(U: Tensor, attributes: Sequence[Attribute], items: Tensor | None) -> None:
    if U.ndim != 2 or len(U) == 0:
        raise BadInput(f"the user matrix has shape {tuple(U.shape)}; give one row per user")
    if not torch.isfinite(U).all():
        raise BadInput("the user matrix has values that are not finite; train the model again")
    if items is not None and (items.ndim != 2 or items.shape[1] != U.shape[1]):
        raise BadInput(f"items: have shape {tuple(items.shape)}, the user matrix {tuple(U.shape)}; "
                       "give the item matrix of the same model")
    check_attributes(len(U), attributes)


def check_attributes(n_users: int, attributes: Sequence[Attribute]) -> None:
    """One label, or a hole, per user; and at least one label."""
    for attribute in attributes:
        if len(attribute.values) != n_users:
            raise BadInput(f"attribute {attribute.name}: {len(attribute.values)} labels for {n_users} users; "
                           "give one per row of the user matrix")
        if not attribute.labelled.any():
            raise BadInput(f"attribute {attribute.name}: every label is missing, so it cannot be removed; "
                           "give some users' labels, or leave it out")


REGISTRY: dict[str, type[Baseline]] = {}

Kind = TypeVar("Kind", bound=type[Baseline])


def register(kind: Kind) -> Kind:
    REGISTRY[kind.name] = kind
    return kind


def baseline(name: str, **settings: Any) -> Baseline:
    """A baseline by name, e.g. `baseline("dp", scale=0.5)`."""
    return find(REGISTRY, "baseline", name).configure(**settings)
