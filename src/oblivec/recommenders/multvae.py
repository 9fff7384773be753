"""MultVAE (Liang et al., 2018): decode the variational encoding of a user's interactions with a multinomial likelihood.

The user matrix is mu, the mean of the encoding and what is decoded at evaluation. Whoever can run the encoder on a
user's interactions again gets the original row back.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from scipy.sparse import csr_matrix
from torch import Tensor

from oblivec.datasets.interactions import LeaveOneOut
from oblivec.randomness import torch_rng
from oblivec.recommenders.base import Recommender, RecommenderConfig, Tensors, Trainer, under
from oblivec.recommenders.sampling import adam, batches

_ENCODER = ("encoder.0.weight", "encoder.0.bias", "encoder.1.weight", "encoder.1.bias")
_DECODER = ("decoder.0.weight", "decoder.0.bias", "decoder.1.weight", "decoder.1.bias")


class MultVAEConfig(RecommenderConfig):
    dimensions: int = Field(200, ge=1)
    """Width of the encoding and of the user matrix."""
    hidden: int = Field(600, ge=1)
    """Width of the hidden layer on either side of the encoding."""
    epochs: int = Field(100, ge=1)
    """Passes over the users. The paper prints 20, which stops short of what MovieLens-1M allows."""
    batch_size: int = Field(256, ge=1)
    """Users per step, at most."""
    steps_per_epoch: int = Field(24, ge=1)
    """On a small data set the batch shrinks until an epoch has this many steps; one number of epochs then fits all."""
    dropout: float = Field(0.5, ge=0, lt=1)
    """Share of a user's interactions hidden from the encoder during training."""
    kl_weight: float = Field(0.2, ge=0)
    """Where the weight of the KL term ends (beta); below 1 the encoding is allowed to say more than the prior."""
    kl_anneal: float = Field(0.5, ge=0, le=1)
    """Share of the training steps over which that weight grows from zero."""
    l2: float = Field(1e-4, ge=0)
    """Adam's weight decay."""
    averaged: float = Field(0.5, ge=0, le=1)
    """Share of the epochs, at the end, over whose weights the model is averaged; 0 keeps the last weights alone."""


class Rows:
    """The interactions of users as flat lists: work and memory grow with what was seen, not with the catalogue."""

    def __init__(self, train: csr_matrix, device: torch.device | str):
        self.n_users = len(train.indptr) - 1
        self._starts = torch.as_tensor(train.indptr.astype(np.int64), device=device)
        self._items = torch.as_tensor(train.indices.astype(np.int64), device=device)

    def of(self, users: Tensor) -> tuple[Tensor, Tensor]:
        """(row within `users`, item) of every interaction, in the order of `users`."""
        lengths = self._starts[users + 1] - self._starts[users]
        row = torch.repeat_interleave(torch.arange(len(users), device=users.device), lengths)
        first = torch.cumsum(lengths, 0) - lengths
        return row, self._items[torch.arange(len(row), device=users.device) - first[row] + self._starts[users][row]]


def encode(tensors: Tensors, row: Tensor, item: Tensor, n_rows: int, dropout_mask: Tensor | None = None) -> Tensor:
    """mu and log variance side by side for interaction lists scaled to unit length."""
    sizes = torch.bincount(row, minlength=n_rows)
    weights = sizes.clamp(min=1).float().rsqrt()[row]
    if dropout_mask is not None:
        weights = weights * dropout_mask
    offsets = torch.cumsum(sizes, 0) - sizes
    hidden = F.embedding_bag(item, tensors["encoder.0.weight"], offsets, mode="sum", per_sample_weights=weights)
    hidden = torch.tanh(hidden + tensors["encoder.0.bias"])
    return F.linear(hidden, tensors["encoder.1.weight"], tensors["encoder.1.bias"])


def decode(tensors: Tensors, codes: Tensor) -> Tensor:
    hidden = torch.tanh(F.linear(codes, tensors["decoder.0.weight"], tensors["decoder.0.bias"]))
    return F.linear(hidden, tensors["decoder.1.weight"], tensors["decoder.1.bias"])


def multinomial_loss(logits: Tensor, row: Tensor, item: Tensor) -> Tensor:
    """Mean over users of -sum over their items of log softmax(logits)."""
    sizes = torch.bincount(row, minlength=len(logits))
    return (logits.logsumexp(1) @ sizes.to(logits.dtype) - logits[row, item].sum()) / len(logits)


class _Fit(Trainer):
    def __init__(self, config: MultVAEConfig, tensors: Tensors, split: LeaveOneOut, seed: int, device: torch.device):
        self.config = config
        self.rows = Rows(split.train, device)
        self.batch_size = config.batch_for(self.rows.n_users)
        self.values = {name: tensor.to(device).requires_grad_() for name, tensor in tensors.items()}
        self.optimizer = adam(list(self.values.values()), config.learning_rate, config.l2)
        self.draws = torch_rng(seed, "multvae", "draws", device=device)
        self.anneal_steps = config.kl_anneal * config.epochs * -(-self.rows.n_users // self.batch_size)
        self.steps = self.epochs = 0
        self.mean: Tensors = {}

    def epoch(self) -> float:
        total = torch.zeros((), device=self.draws.device)
        for users in batches(self.rows.n_users, self.batch_size, self.draws):
            total += self._step(users) * len(users)
        self.epochs += 1
        self._average()
        return float(total / self.rows.n_users)

    def _average(self) -> None:
        """The running mean of the weights over the last epochs: single epochs differ by as much as seeds do."""
        past = self.epochs - math.floor(self.config.epochs * (1 - self.config.averaged))
        if past == 1:
            self.mean = {name: value.detach().clone() for name, value in self.values.items()}
        elif past > 1:
            for name, value in self.values.items():
                self.mean[name].lerp_(value.detach(), 1 / past)

    def _step(self, users: Tensor) -> Tensor:
        self.steps += 1
        row, item = self.rows.of(users)
        kept = torch.rand(row.shape, generator=self.draws, device=row.device) >= self.config.dropout
        encoding = encode(self.values, row, item, len(users), kept / (1 - self.config.dropout))
        mean, log_variance = encoding.chunk(2, dim=1)
        noise = torch.randn(mean.shape, generator=self.draws, device=mean.device)
        codes = mean + noise * torch.exp(log_variance / 2)
        logits = decode(self.values, codes)
        kl = 0.5 * (log_variance.exp() + mean.square() - 1 - log_variance).sum(1).mean()
        weight = self.config.kl_weight * min(1.0, self.steps / max(self.anneal_steps, 1))
        loss = multinomial_loss(logits, row, item)
        objective = loss + weight * kl
        if self.pressure is not None:
            objective = objective + under(self.pressure, users, codes)
        self.optimizer.zero_grad()
        objective.backward()
        self.optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def tensors(self) -> Tensors:
        values = self.mean or {name: value.detach() for name, value in self.values.items()}
        means = []
        for users in torch.arange(self.rows.n_users, device=self.draws.device).split(1024):
            row, item = self.rows.of(users)
            means.append(encode(values, row, item, len(users)).chunk(2, dim=1)[0])
        return {name: value.clone() for name, value in values.items()} | {"users": torch.cat(means)}


class _RefitDecoder(Trainer):
    """The decoder for a user matrix that stands still: no encoder, no noise, no KL."""

    def __init__(self, config: MultVAEConfig, tensors: Tensors, split: LeaveOneOut, seed: int, device: torch.device):
        self.config = config
        self.rows = Rows(split.train, device)
        self.batch_size = config.batch_for(self.rows.n_users)
        self.values = tensors
        self.optimizer = adam([tensors[name].requires_grad_() for name in _DECODER], config.learning_rate, config.l2)
        self.draws = torch_rng(seed, "multvae", "refit", device=device)

    def epoch(self) -> float:
        total = torch.zeros((), device=self.draws.device)
        for users in batches(self.rows.n_users, self.batch_size, self.draws):
            loss = multinomial_loss(decode(self.values, self.values["users"][users]), *self.rows.of(users))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.detach() * len(users)
        return float(total / self.rows.n_users)

    def tensors(self) -> Tensors:
        return {name: value.detach() for name, value in self.values.items()}


class MultVAE(Recommender):
    name = "multvae"
    Config = MultVAEConfig
    config: MultVAEConfig
    paper_settings: ClassVar[dict[str, Any]] = {"epochs": 20}

    def _trainer(self, split: LeaveOneOut, seed: int, device: torch.device) -> Trainer:
        return _Fit(self.config, self._start(split.n_items, seed), split, seed, device)

    def _refit_trainer(self, split: LeaveOneOut, seed: int, device: torch.device) -> Trainer:
        return _RefitDecoder(self.config, self.tensors, split, seed, device)

    def _start(self, n_items: int, seed: int) -> Tensors:
        """Glorot weights, biases near zero, as published."""
        rng = torch_rng(seed, "multvae", "start")
        d, hidden = self.config.dimensions, self.config.hidden
        shapes = {"encoder.0": (n_items, hidden), "encoder.1": (2 * d, hidden), "decoder.0": (hidden, d),
                  "decoder.1": (n_items, hidden)}
        tensors: Tensors = {}
        for name, shape in shapes.items():
            deviation = (2.0 / sum(shape)) ** 0.5
            tensors[f"{name}.weight"] = torch.randn(shape, generator=rng) * deviation
            width = hidden if name == "encoder.0" else shape[0]
            tensors[f"{name}.bias"] = torch.randn(width, generator=rng) * 0.001
        return tensors

    def encode(self, train: csr_matrix) -> np.ndarray:
        """The user matrix of users unseen at fit time, from their interactions."""
        place = self.users.device
        rows = Rows(csr_matrix(train), place)
        with torch.inference_mode():
            row, item = rows.of(torch.arange(rows.n_users, device=place))
            return encode(self.tensors, row, item, rows.n_users).chunk(2, dim=1)[0].cpu().numpy()

    def _score(self, rows: Tensor) -> Tensor:
        return decode(self.tensors, rows)
