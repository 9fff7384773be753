"""NCF as NeuMF (He et al., 2017): a GMF branch and an MLP branch, each with its own user and item table.

The user matrix is both user tables side by side, GMF first. Earlier work edits the GMF table only; the MLP
table leaks as well, so both are exposed.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from oblivec.datasets.interactions import LeaveOneOut
from oblivec.randomness import torch_rng
from oblivec.recommenders.base import Recommender, RecommenderConfig, Tensors, Trainer, under
from oblivec.recommenders.sampling import Pairs, adam, batches

_SCORING_FLOATS = {"cpu": 2**20, "gpu": 2**24}
"""Hidden activations held at a time while scoring: what stays in a CPU's cache; 64 MB on a GPU."""


class NCFConfig(RecommenderConfig):
    epochs: int = Field(20, ge=1)
    """Passes over the training interactions."""
    negatives: int = Field(4, ge=1)
    """Unseen items trained on per seen one, afresh each epoch."""
    candidates: int = Field(4, ge=1)
    """Unseen items drawn for each of those, of which the one scored highest is taken; 1 is plain uniform sampling."""
    hidden: tuple[int, ...] = Field((64, 32, 16), min_length=1)
    """Widths of the MLP branch's layers."""
    l2: float = Field(0.0, ge=0)
    """Weight of the squared norms of the batch's embeddings, per training example."""
    dropout: float = Field(0.3, ge=0, lt=1)
    """Share of the MLP branch's inputs silenced during training."""
    initial_std: float = Field(0.01, gt=0)
    """Standard deviation of the embeddings at the start."""


class _Fit(Trainer):
    """Binary cross-entropy of seen against sampled unseen items. With `users` frozen, it is the refit."""

    def __init__(
        self, config: NCFConfig, tensors: Tensors, trained: list[str], split: LeaveOneOut, seed: int,
        device: torch.device,
    ):
        self.config = config
        self.pairs = Pairs(split, device)
        self.values = {name: tensor.to(device) for name, tensor in tensors.items()}
        self.optimizer = adam([self.values[name].requires_grad_() for name in trained], config.learning_rate)
        self.draws = torch_rng(seed, "ncf", "draws", *trained, device=device)

    def epoch(self) -> float:
        repeats, choices = self.config.negatives, self.config.candidates
        users = self.pairs.users.repeat(1 + repeats)
        unseen = self.pairs.negatives(self.pairs.users.repeat(repeats).repeat_interleave(choices), self.draws)
        items = torch.cat([self.pairs.items[:, None].expand(-1, choices), unseen.view(-1, choices)])
        labels = torch.zeros(len(users), device=users.device)
        labels[: len(self.pairs)] = 1.0
        total = torch.zeros((), device=users.device)
        for batch in batches(len(users), self.config.batch_for(len(users)), self.draws):
            total += self._step(users[batch], items[batch], labels[batch]) * len(batch)
        return float(total / max(len(users), 1))

    def _step(self, users: Tensor, items: Tensor, labels: Tensor) -> Tensor:
        user_rows, item_rows = self.values["users"][users], self.values["items"][self._hardest(users, items)]
        logits = self._logits(user_rows, item_rows)
        loss = F.binary_cross_entropy_with_logits(logits, labels)
        norms = user_rows.square().sum() + item_rows.square().sum()
        objective = loss + self.config.l2 / 2 * norms / len(users)
        if self.pressure is not None:
            objective = objective + under(self.pressure, users, user_rows)
        self.optimizer.zero_grad()
        objective.backward()
        self.optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def _hardest(self, users: Tensor, items: Tensor) -> Tensor:
        """Of each row of candidate items the one scored highest; a seen item is its own only candidate."""
        choices = items.shape[1]
        if choices == 1:
            return items[:, 0]
        rows = self.values["users"][users].repeat_interleave(choices, dim=0)
        scores = self._logits(rows, self.values["items"][items.reshape(-1)]).view(-1, choices)
        return items.gather(1, scores.argmax(1, keepdim=True))[:, 0]

    def _logits(self, users: Tensor, items: Tensor) -> Tensor:
        d = self.config.dimensions
        deep = torch.cat([users[:, d:], items[:, d:]], dim=1)
        if self.config.dropout:
            kept = torch.rand(deep.shape, generator=self.draws, device=deep.device) >= self.config.dropout
            deep = deep * kept / (1 - self.config.dropout)
        for layer in range(len(self.config.hidden)):
            deep = F.relu(F.linear(deep, self.values[f"hidden.{layer}.weight"], self.values[f"hidden.{layer}.bias"]))
        features = torch.cat([users[:, :d] * items[:, :d], deep], dim=1)
        return F.linear(features, self.values["output.weight"], self.values["output.bias"]).squeeze(1)

    def tensors(self) -> Tensors:
        return {name: value.detach().clone() for name, value in self.values.items()}


class NCF(Recommender):
    name = "ncf"
    Config = NCFConfig
    config: NCFConfig
    paper_settings: ClassVar[dict[str, Any]] = {}

    @property
    def user_blocks(self) -> dict[str, int]:
        return {"gmf": self.config.dimensions, "mlp": self.config.dimensions}

    def _trainer(self, split: LeaveOneOut, seed: int, device: torch.device) -> Trainer:
        tensors = self._start(split.n_users, split.n_items, seed)
        return _Fit(self.config, tensors, list(tensors), split, seed, device)

    def _refit_trainer(self, split: LeaveOneOut, seed: int, device: torch.device) -> Trainer:
        trained = [name for name in self.tensors if name != "users"]
        return _Fit(self.config, self.tensors, trained, split, seed, device)

    def _start(self, n_users: int, n_items: int, seed: int) -> Tensors:
        """Small random tables, Glorot layers."""
        rng = torch_rng(seed, "ncf", "start")
        d, widths = self.config.dimensions, (2 * self.config.dimensions, *self.config.hidden)
        tensors = {
            name: torch.randn(count, 2 * d, generator=rng) * self.config.initial_std
            for name, count in (("users", n_users), ("items", n_items))
        }
        layers = [(f"hidden.{i}", widths[i], widths[i + 1]) for i in range(len(widths) - 1)]
        for name, fan_in, fan_out in [*layers, ("output", d + widths[-1], 1)]:
            bound = (6.0 / (fan_in + fan_out)) ** 0.5
            tensors[f"{name}.weight"] = (2 * torch.rand(fan_out, fan_in, generator=rng) - 1) * bound
            tensors[f"{name}.bias"] = torch.zeros(fan_out)
        return tensors

    def _score(self, rows: Tensor) -> Tensor:
        """The first hidden layer is linear in user and item apart, so each is computed once and the two are added."""
        d, tensors = self.config.dimensions, self.tensors
        items, output = tensors["items"], tensors["output.weight"]
        scores = (rows[:, :d] * output[0, :d]) @ items[:, :d].T + tensors["output.bias"]
        first = tensors["hidden.0.weight"]
        from_users = F.linear(rows[:, d:], first[:, :d], tensors["hidden.0.bias"])
        from_items = F.linear(items[:, d:], first[:, d:])
        floats = _SCORING_FLOATS["cpu" if rows.device.type == "cpu" else "gpu"]
        block = max(1, floats // from_items.shape[1])
        for part, some_items in zip(scores.split(block, dim=1), from_items.split(block), strict=True):
            step = max(1, floats // some_items.numel())
            for start in range(0, len(rows), step):
                deep = F.relu_(from_users[start : start + step, None] + some_items)
                for layer in range(1, len(self.config.hidden)):
                    deep = F.relu_(F.linear(deep, tensors[f"hidden.{layer}.weight"], tensors[f"hidden.{layer}.bias"]))
                part[start : start + step] += deep @ output[0, d:]
        return scores
