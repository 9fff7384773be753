"""The network q that reads an attribute from an embedding: the variational distribution inside vCLUB."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from oblivec.information.target import Target
from oblivec.information.vclub import (
    class_shares,
    gaussian_vclub,
    label_free_gaussian_vclub,
    label_free_vclub,
    moments,
    vclub,
)

LOG_VARIANCE = 6.0
"""Bound on |log variance| of the Gaussian head, the attribute having variance 1: without one, a q that hits a value
exactly has an infinite likelihood."""
FLAT = 1e-6
"""A column whose standard deviation is smaller than this part of the matrix's largest entry counts as constant."""


class VariationalConfig(BaseModel):
    """The network q and how it learns. The defaults are the paper's (Appendix A); unknown settings are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    width: int = Field(100, ge=1)
    """Units of a hidden layer. Printed: 100."""
    layers: int = Field(2, ge=1)
    """Hidden layers. Printed is "a two-layer MLP with a hidden layer dimension of 100 and a softmax output layer",
    which may mean one hidden layer or two; read as two."""
    activation: Literal["relu", "tanh"] = "relu"
    """Not printed; ReLU, as in the attacker the paper takes from scikit-learn."""
    optimiser: Literal["adam", "adamw"] = "adam"
    """Not printed for q; Adam, which is printed for the embeddings."""
    learning_rate: float = Field(1e-4, gt=0)
    """Printed: 1e-4."""
    weight_decay: float = Field(0.0, ge=0)
    """Not printed; none."""
    steps: int = Field(1, ge=1)
    """Steps of q per step on the embeddings. Not printed as a number; Algorithm 1 has one line for each, so one."""
    standardise: bool = False
    """Whether q sees every column of the matrix centred and in units of its standard deviation (as it was before the
    first step), constant columns not at all. Not printed; no."""


class Variational(nn.Module, ABC):
    """A multilayer perceptron with a head that makes its outputs a distribution over an attribute's values."""

    shift: Tensor
    gain: Tensor

    def __init__(self, inputs: int, outputs: int, config: VariationalConfig, rng: torch.Generator):
        """`rng` is a generator on the CPU, so that every device starts from the same weights."""
        super().__init__()
        sizes = [inputs, *[config.width] * config.layers, outputs]
        layers: list[nn.Module] = []
        for fan_in, fan_out in pairwise(sizes):
            layers += [_linear(fan_in, fan_out, rng), nn.ReLU() if config.activation == "relu" else nn.Tanh()]
        self.network = nn.Sequential(*layers[:-1])
        self.register_buffer("shift", torch.zeros(inputs))
        self.register_buffer("gain", torch.ones(inputs))

    def standardise_by(self, x: Tensor) -> None:
        """From now on see columns in units of their standard deviation in `x`; those constant there not at all."""
        spread, shift = torch.std_mean(x, dim=0, correction=0)
        flat = spread <= FLAT * x.abs().max()
        self.shift.copy_(shift)
        self.gain.copy_(torch.where(flat, 0.0, 1 / torch.where(flat, 1.0, spread)))

    @property
    def column_variance(self) -> Tensor:
        """Of each column, in the unit q sees it in: 1 without standardisation, 0 for a column q does not see."""
        return torch.where(self.gain > 0, self.gain, torch.inf).pow(-2)

    def forward(self, x: Tensor) -> Tensor:
        return self.network((x - self.shift) * self.gain)

    @abstractmethod
    def marginal(self, labels: Tensor) -> Tensor:
        """What `vclub` needs to know of the whole sample's labels."""

    @abstractmethod
    def log_likelihood(self, x: Tensor, labels: Tensor) -> Tensor:
        """L(phi), Equation (log-likelihood): the mean of log q(y_i | x_i)."""

    @abstractmethod
    def vclub(self, x: Tensor, labels: Tensor, marginal: Tensor | None = None) -> Tensor:
        """Equation (hat-vclub)."""

    @abstractmethod
    def label_free_vclub(self, x: Tensor) -> Tensor:
        """The form that needs no labels."""


class Categorical(Variational):
    """A softmax over the classes."""

    def __init__(self, inputs: int, n_classes: int, config: VariationalConfig, rng: torch.Generator):
        super().__init__(inputs, n_classes, config, rng)
        self.n_classes = n_classes

    def log_q(self, x: Tensor) -> Tensor:
        """log q(c | x_i), B x C."""
        return self(x).log_softmax(dim=1)

    def marginal(self, labels: Tensor) -> Tensor:
        return class_shares(labels, self.n_classes)

    def log_likelihood(self, x: Tensor, labels: Tensor) -> Tensor:
        return self.log_q(x).gather(1, labels[:, None]).mean()

    def vclub(self, x: Tensor, labels: Tensor, marginal: Tensor | None = None) -> Tensor:
        return vclub(self.log_q(x), labels, marginal)

    def label_free_vclub(self, x: Tensor) -> Tensor:
        return label_free_vclub(self.log_q(x))


class Gaussian(Variational):
    """A normal distribution with its own mean and variance per user, for a continuous attribute of variance 1.

    The paper has categorical attributes only; this is the family CLUB itself uses for real values.
    """

    def __init__(self, inputs: int, config: VariationalConfig, rng: torch.Generator):
        super().__init__(inputs, 2, config, rng)

    def mean_and_variance(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self(x).unbind(dim=1)
        return mean, log_variance.clamp(-LOG_VARIANCE, LOG_VARIANCE).exp()

    def marginal(self, labels: Tensor) -> Tensor:
        return moments(labels)

    def log_likelihood(self, x: Tensor, labels: Tensor) -> Tensor:
        mean, variance = self.mean_and_variance(x)
        return -0.5 * ((labels - mean).square() / variance + (2 * torch.pi * variance).log()).mean()

    def vclub(self, x: Tensor, labels: Tensor, marginal: Tensor | None = None) -> Tensor:
        return gaussian_vclub(*self.mean_and_variance(x), labels, marginal)

    def label_free_vclub(self, x: Tensor) -> Tensor:
        return label_free_gaussian_vclub(*self.mean_and_variance(x))


def variational(inputs: int, target: Target, config: VariationalConfig, rng: torch.Generator) -> Variational:
    """A fresh q for the attribute: of `inputs` columns, on the CPU."""
    if target.n_classes == 0:
        return Gaussian(inputs, config, rng)
    return Categorical(inputs, target.n_classes, config, rng)


def _linear(fan_in: int, fan_out: int, rng: torch.Generator) -> nn.Linear:
    """PyTorch's own initialisation, but drawn from `rng` and from nothing global."""
    layer = nn.Linear(fan_in, fan_out, device="meta").to_empty(device="cpu")
    bound = fan_in**-0.5
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=rng)
        layer.bias.uniform_(-bound, bound, generator=rng)
    return layer
