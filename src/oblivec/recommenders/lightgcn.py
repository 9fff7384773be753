"""LightGCN (He et al., 2020): embeddings smoothed over the interaction graph, trained with BPR.

The user matrix is the *final propagated* one. Handing out the layer-0 table instead would let propagation bring an
unlearned signal back from the items.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from scipy.sparse import bmat, csr_matrix, diags
from torch import Tensor

from oblivec.datasets.interactions import LeaveOneOut
from oblivec.randomness import torch_rng
from oblivec.recommenders.base import Recommender, RecommenderConfig, Tensors, Trainer
from oblivec.recommenders.sampling import Pairs, adam, batches


class LightGCNConfig(RecommenderConfig):
    batch_size: int = Field(4096, ge=1)
    """Training pairs per step, at most."""
    layers: int = Field(3, ge=0)
    """Propagation steps; the final embedding is the mean over layers 0 to this."""
    l2: float = Field(1e-4, ge=0)
    """Weight of the squared norms of the batch's layer-0 embeddings, per training pair."""
    candidates: int = Field(8, ge=1)
    """Unseen items drawn per pair, of which the one scored highest is the negative; 1 is plain uniform BPR.

    Uniform negatives are soon all easy and the top of the list stops improving; the hardest of a few keeps teaching it.
    """
    initial_std: float = Field(0.1, gt=0)
    """Standard deviation of the layer-0 embeddings at the start."""


class Graph:
    """The normalised adjacency of users (first) and items, stacked, in CSR form (int32: what the CPU kernel wants).

    Propagation is a polynomial of a symmetric matrix, hence symmetric itself: the gradient passes back through the
    very same function, and nothing needs to be stored for it.
    """

    def __init__(self, train: csr_matrix, layers: int, device: torch.device | str):
        seen = csr_matrix(train, dtype=np.float64)
        adjacency = csr_matrix(bmat([[None, seen], [seen.T, None]]))
        scale = diags(1.0 / np.sqrt(np.maximum(np.asarray(adjacency.sum(1)).ravel(), 1.0)))
        self._layers = layers
        self._adjacency = _csr_tensor(csr_matrix(scale @ adjacency @ scale, dtype=np.float32), device)

    def propagate(self, table: Tensor) -> Tensor:
        """Mean over layers 0..L of A^l applied to the table, by Horner's rule: L products, nothing else."""
        total = table
        for layer in range(1, self._layers + 1):
            share = 1.0 if layer < self._layers else 1.0 / (self._layers + 1)
            total = torch.addmm(table, self._adjacency, total, beta=share, alpha=share)
        return total


def _csr_tensor(matrix: csr_matrix, device: torch.device | str) -> Tensor:
    with warnings.catch_warnings():
        # torch announces on every CSR tensor that CSR is in beta; we depend on nothing it may still change.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta", category=UserWarning)
        return torch.sparse_csr_tensor(
            torch.as_tensor(matrix.indptr.astype(np.int32)), torch.as_tensor(matrix.indices.astype(np.int32)),
            torch.as_tensor(matrix.data), size=matrix.shape, check_invariants=True,
        ).to(device)


@torch.no_grad()
def hardest(users: Tensor, items: Tensor, candidates: Tensor) -> Tensor:
    """Of each row of candidate items, the one its user's embedding scores highest."""
    if candidates.shape[1] == 1:
        return candidates[:, 0]
    scores = torch.einsum("bd,bcd->bc", users, items[candidates])
    return candidates.gather(1, scores.argmax(1, keepdim=True))[:, 0]


def bpr_loss(users: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
    """Mean over pairs of -log sigmoid(score of the seen item - score of the unseen one)."""
    return F.softplus((users * (negatives - positives)).sum(1)).mean()


def _examples(
    pairs: Pairs, config: LightGCNConfig, draws: torch.Generator
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """One epoch of (users, seen items, candidate negatives), the negatives drawn for the whole epoch at once."""
    negatives = pairs.negatives(pairs.users.repeat_interleave(config.candidates), draws).view(-1, config.candidates)
    for batch in batches(len(pairs), config.batch_for(len(pairs)), draws):
        yield pairs.users[batch], pairs.items[batch], negatives[batch]


class _Fit(Trainer):
    """BPR on the propagated table, its gradient written out: autograd would pass over the table several more times."""

    def __init__(self, config: LightGCNConfig, split: LeaveOneOut, seed: int, device: torch.device):
        self.config = config
        self.pairs = Pairs(split, device)
        self.graph = Graph(split.train, config.layers, device)
        self.counts = [split.n_users, split.n_items]
        start = torch_rng(seed, "lightgcn", "start")
        tables = [torch.randn(count, config.dimensions, generator=start) for count in self.counts]
        self.table = (torch.cat(tables) * config.initial_std).to(device)
        self.optimizer = adam([self.table], config.learning_rate)
        self.draws = torch_rng(seed, "lightgcn", "draws", device=device)

    def epoch(self) -> float:
        total = torch.zeros((), device=self.draws.device)
        for users, positives, candidates in _examples(self.pairs, self.config, self.draws):
            loss, self.table.grad = self.loss_and_gradient(users, positives, candidates)
            self.optimizer.step()
            total += loss * len(users)
        return float(total / max(len(self.pairs), 1))

    def loss_and_gradient(self, users: Tensor, positives: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        """The BPR loss of a batch, and the gradient of that loss plus the L2 term with respect to the layer-0 table."""
        final = self.graph.propagate(self.table)
        negatives = hardest(final[users], final[self.counts[0] :], candidates)
        nodes = torch.cat([users, positives + self.counts[0], negatives + self.counts[0]])
        user_rows, positive_rows, negative_rows = final[nodes].chunk(3)
        apart = negative_rows - positive_rows
        margins = (user_rows * apart).sum(1)
        pull = (torch.sigmoid(margins) / len(users))[:, None]  # of the loss, with respect to the margins
        to_users, to_items = pull * apart, pull * user_rows
        if self.pressure is not None:
            to_users = to_users + self.pressure(users, user_rows)
        slope = torch.zeros_like(final).index_add_(0, nodes, torch.cat([to_users, -to_items, to_items]))
        times = torch.zeros_like(final[:, :1]).index_add_(0, nodes, torch.ones_like(pull).repeat(3, 1))
        gradient = self.graph.propagate(slope).addcmul_(self.table, times, value=self.config.l2 / len(users))
        return F.softplus(margins).mean(), gradient

    def tensors(self) -> Tensors:
        users, items = self.graph.propagate(self.table).split(self.counts)
        return {"users": users.clone(), "items": items.clone()}


class RefitItems(Trainer):
    """BPR on the final item matrix alone; the graph has done its work."""

    def __init__(self, config: LightGCNConfig, tensors: Tensors, split: LeaveOneOut, seed: int, device: torch.device):
        self.config = config
        self.pairs = Pairs(split, device)
        self.users = tensors["users"]
        self.items = tensors["items"].requires_grad_()
        self.optimizer = adam([self.items], config.learning_rate)
        self.draws = torch_rng(seed, "lightgcn", "refit", device=device)

    def epoch(self) -> float:
        total = torch.zeros((), device=self.draws.device)
        for users, positives, candidates in _examples(self.pairs, self.config, self.draws):
            rows = self.users[users]
            chosen = self.items[torch.cat([positives, hardest(rows, self.items, candidates)])]
            loss = bpr_loss(rows, *chosen.chunk(2))
            self.optimizer.zero_grad()
            (loss + self.config.l2 / 2 * chosen.square().sum() / len(users)).backward()
            self.optimizer.step()
            total += loss.detach() * len(users)
        return float(total / max(len(self.pairs), 1))

    def tensors(self) -> Tensors:
        return {"items": self.items.detach()}


class LightGCN(Recommender):
    name = "lightgcn"
    Config = LightGCNConfig
    config: LightGCNConfig
    is_dot_product = True
    paper_settings: ClassVar[dict[str, Any]] = {}

    def _trainer(self, split: LeaveOneOut, seed: int, device: torch.device) -> Trainer:
        return _Fit(self.config, split, seed, device)

    def _refit_trainer(self, split: LeaveOneOut, seed: int, device: torch.device) -> Trainer:
        return RefitItems(self.config, self.tensors, split, seed, device)

    def _score(self, rows: Tensor) -> Tensor:
        return rows @ self.tensors["items"].T
