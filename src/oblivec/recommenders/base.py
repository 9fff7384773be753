"""What every recommender is: a user matrix, and a frozen way to score items from it.

Training produces named tensors. One of them, `users`, is the user matrix, and the scores of user u depend on `users[u]`
and on nothing else about u. That is what makes a release drop in: replace the matrix, keep the rest.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from oblivec.console import progress
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.devices import resolve_device
from oblivec.errors import BadInput, OblivecError

Tensors = dict[str, Tensor]
Watcher = Callable[[int, "Recommender"], None]
"""Called after each epoch with its number and the model as it then stands."""
Pressure = Callable[[Tensor, Tensor], Tensor]
"""Called in each training step with the numbers of the batch's users and their rows, detached: what the model is about
to score with. Returns what to add to the gradient of the loss with respect to those rows. Whoever applies it knows why;
the recommender does not."""


class RecommenderConfig(BaseModel):
    """What to learn and how long. Where to run (device, seed) is given to `fit`. Unknown settings are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dimensions: int = Field(32, ge=1)
    """Width of the user matrix (NCF: of each of its two tables)."""
    epochs: int = Field(100, ge=1)
    """Passes over the training interactions."""
    batch_size: int = Field(2048, ge=1)
    """Training examples per step, at most."""
    steps_per_epoch: int = Field(200, ge=1)
    """On a small data set the batch shrinks until an epoch has this many steps; one number of epochs then fits all."""
    learning_rate: float = Field(1e-3, gt=0)
    """Adam's step size."""

    def batch_for(self, examples: int) -> int:
        """The batch size for a data set of that many examples."""
        return max(1, min(self.batch_size, examples // self.steps_per_epoch))


class Trainer(ABC):
    """The loop of one model: the same protocol for a first fit and for a refit of the item side."""

    pressure: Pressure | None = None
    """Heeded by a first fit only: a refit leaves the users as they are."""

    @abstractmethod
    def epoch(self) -> float:
        """One pass over the data; returns the mean training loss."""

    @abstractmethod
    def tensors(self) -> Tensors:
        """The model as it now stands."""


class Recommender(ABC):
    """One interface for all models: fit, give the user matrix, take one back, score, refit the item side."""

    name: ClassVar[str]
    Config: ClassVar[type[RecommenderConfig]]
    paper_settings: ClassVar[dict[str, Any]]
    """What the paper prints (Appendix A) where the defaults here differ: the preset `paper`."""
    is_dot_product: ClassVar[bool] = False
    """Whether the score is the dot product of a user row and a row of the tensor `items`."""

    def __init__(self, config: RecommenderConfig | None = None, tensors: Tensors | None = None):
        self.config = config if config is not None else self.Config.model_validate({})
        self.tensors: Tensors = tensors or {}
        self.losses: list[float] = []

    @classmethod
    def configure(cls, preset: str = "default", **settings: Any) -> Self:
        """An unfitted model from a preset (`default` or `paper`) with some settings overruled."""
        if preset not in ("default", "paper"):
            raise BadInput(f"preset {preset!r}: unknown; use default or paper")
        try:
            return cls(cls.Config(**((cls.paper_settings if preset == "paper" else {}) | settings)))
        except ValidationError as problem:
            first = problem.errors()[0]
            setting = ".".join(map(str, first["loc"]))
            known = ", ".join(cls.Config.model_fields)
            raise BadInput(f"{cls.name}: setting {setting}: {first['msg']}; the settings are {known}") from None

    # --- training -------------------------------------------------------------------------------------------------

    def fit(
        self, split: LeaveOneOut, *, seed: int = 0, device: torch.device | str = "auto", watch: Watcher | None = None,
        pressure: Pressure | None = None,
    ) -> Self:
        """Train on `split.train`. The test items are never looked at. `pressure` pushes on the users.

        On the CPU the same seed gives the same bits for the same number of threads; a GPU may add in another order.
        """
        if split.train.nnz == 0:
            raise BadInput("the training set has no interactions; give at least one user with two")
        self.losses = []
        trainer = self._trainer(split, seed, _device(device))
        trainer.pressure = pressure
        for epoch, _ in enumerate(self._run(trainer, self.config.epochs, f"Training {self.name}"), start=1):
            if watch is not None:
                self.tensors = trainer.tensors()
                watch(epoch, self)
        self.tensors = trainer.tensors()
        return self

    def refit_items(
        self, split: LeaveOneOut, *, epochs: int, seed: int = 0, device: torch.device | str = "auto"
    ) -> Self:
        """A new model whose item side was trained further on `split.train` for the user matrix as it stands.

        The user matrix is frozen, bit for bit; this model is left as it is.
        """
        place = _device(device)
        fresh = self.to(place)
        fresh.tensors = {name: tensor.clone() for name, tensor in fresh.tensors.items()}
        fresh.losses = []
        users = fresh.users
        trainer = fresh._refit_trainer(split, seed, place)
        for _ in fresh._run(trainer, epochs, f"Refitting {self.name}"):
            pass
        fresh.tensors = trainer.tensors() | {"users": users}
        return fresh

    def _run(self, trainer: Trainer, epochs: int, label: str) -> Iterator[float]:
        with progress(label, epochs) as tick:
            for epoch in range(epochs):
                loss = trainer.epoch()
                if not math.isfinite(loss):
                    raise OblivecError(f"{self.name}: the training loss is {loss} after epoch {epoch + 1}; "
                                       "lower learning_rate")
                self.losses.append(loss)
                tick(note=f"loss {loss:.4f}")
                yield loss

    @abstractmethod
    def _trainer(self, split: LeaveOneOut, seed: int, device: torch.device) -> Trainer: ...

    @abstractmethod
    def _refit_trainer(self, split: LeaveOneOut, seed: int, device: torch.device) -> Trainer: ...

    # --- the user matrix, out and in ------------------------------------------------------------------------------

    @property
    def users(self) -> Tensor:
        """The user matrix on the model's device."""
        if "users" not in self.tensors:
            raise OblivecError(f"{self.name}: not fitted yet; call fit first")
        return self.tensors["users"]

    @property
    def user_blocks(self) -> dict[str, int]:
        """Names and widths of the tables that stand side by side in the user matrix."""
        return {"users": self.users.shape[1]}

    def user_matrix(self) -> np.ndarray:
        return self.users.cpu().numpy().copy()

    def item_matrix(self) -> np.ndarray | None:
        """The item matrix where the score is a dot product with it, else None."""
        return self.tensors["items"].cpu().numpy().copy() if self.is_dot_product else None

    def with_user_matrix(self, users: np.ndarray | Tensor) -> Self:
        """The same model with another user matrix; this one is left as it is."""
        replacement = torch.as_tensor(users).to(self.users)
        if replacement.shape != self.users.shape:
            raise BadInput(f"the user matrix is {tuple(replacement.shape)}, "
                           f"{self.name} needs {tuple(self.users.shape)}")
        twin = copy.copy(self)
        twin.tensors = self.tensors | {"users": replacement}
        return twin

    def to(self, device: torch.device | str) -> Self:
        twin = copy.copy(self)
        twin.tensors = {name: tensor.to(device) for name, tensor in self.tensors.items()}
        return twin

    # --- scoring --------------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def scores(self, users: Tensor) -> Tensor:
        """B x M scores of all items for the users numbered `users`; higher is better."""
        return self._score(self.users[users.to(self.users.device)])

    @abstractmethod
    def _score(self, rows: Tensor) -> Tensor:
        """Scores of all items for B rows of the user matrix."""


def under(pressure: Pressure, users: Tensor, rows: Tensor) -> Tensor:
    """A term for the loss whose gradient with respect to `rows` is the pressure on them."""
    return (rows * pressure(users, rows.detach())).sum()


def _device(device: torch.device | str) -> torch.device:
    return device if isinstance(device, torch.device) else resolve_device(device)
