"""How likely is the item a user took next? In nats, which tell two recommenders apart with far fewer users than ranks.

A conditional logit (McFadden, 1974): of the items that a user has not seen, each is taken with a probability in
proportion to the exponential of a weighted sum of what is known of it. The few weights are those under which the test
items are most likely, so each adds about 1 / 2N nats by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from oblivec.datasets.interactions import LeaveOneOut
from oblivec.metrics.ranking import MEMORY_BUDGET_MB

Known = Callable[[Tensor], Tensor]
"""From B user numbers (int64) to what is known of every item for each of them, B x M x K, finite."""
_MOST_STEPS, _ENOUGH = 50, 1e-7
"""Newton steps at most, and the gain per user, in nats, below which they end."""
_TENSORS = 5
"""How many of that size one chunk needs at the same time."""


@dataclass(frozen=True)
class Choice:
    weights: np.ndarray
    """One for each of the K."""
    nats: np.ndarray
    """Log-likelihood of every tested user's item."""


@torch.no_grad()
def fit_choice(known: Known, split: LeaveOneOut, *, device: torch.device | str = "cpu") -> Choice:
    """Newton's method, a step halved until it gains; the log-likelihood is concave. Chunked over users."""
    count = known(torch.as_tensor(split.tested_users[:1], device=device)).shape[2]
    weights = torch.zeros(count, dtype=torch.float64)
    nats, slope, curvature = _look(known, split, weights, device)
    for _ in range(_MOST_STEPS):
        ridge = 1e-9 * curvature.diagonal().mean() + 1e-30  # what is known twice, or of no item, has no curvature
        step = torch.linalg.solve(curvature + ridge * torch.eye(count, dtype=torch.float64), slope)
        for _ in range(_MOST_STEPS):
            tried = _look(known, split, weights + step, device)
            if tried[0].mean() >= nats.mean():
                break
            step = step / 2
        else:
            break
        gain = float(tried[0].mean() - nats.mean())
        weights = weights + step
        nats, slope, curvature = tried
        if gain < _ENOUGH:
            break
    return Choice(weights.numpy(), nats.numpy())


def _look(
    known: Known, split: LeaveOneOut, weights: Tensor, device: torch.device | str
) -> tuple[Tensor, Tensor, Tensor]:
    """Every tested user's log-likelihood; the sums over users of its slope and of minus its curvature."""
    count, users = len(weights), split.tested_users
    chunk = max(1, int(MEMORY_BUDGET_MB * 2**20 / (4 * _TENSORS * count * max(split.n_items, 1))))
    nats, slope, curvature = [], weights.new_zeros(count), weights.new_zeros(count, count)
    for start in range(0, len(users), chunk):
        rows = users[start : start + chunk]
        facts = known(torch.as_tensor(rows, device=device)).float()
        here = torch.arange(len(rows), device=facts.device)
        taken = torch.as_tensor(split.test_items[rows], device=facts.device)
        seen = split.train[rows]
        values = facts @ weights.to(facts)
        values[here.repeat_interleave(torch.as_tensor(np.diff(seen.indptr), device=here.device)),
               torch.as_tensor(seen.indices.astype(np.int64), device=here.device)] = -torch.inf
        logs = torch.log_softmax(values, dim=1)
        share = logs.exp()[..., None] * facts
        mean = share.sum(1)
        nats.append(logs[here, taken].double().cpu())
        slope += (facts[here, taken] - mean).sum(0).double().cpu()
        curvature += (torch.einsum("bmk,bml->kl", share, facts) - mean.T @ mean).double().cpu()
    return torch.cat(nats), slope, curvature
