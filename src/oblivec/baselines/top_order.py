"""The functional regulariser of D2DFR: a price for neighbours in a user's original top list that change places.

Scores are dot products with the item matrix. Work and memory are those of the lists, taken in blocks of users.
"""

from __future__ import annotations

import torch
from torch import Tensor

_SCORES = 2**22
"""Scores or list entries times dimensions held at a time."""


def top_lists(U: Tensor, items: Tensor, length: int) -> Tensor:
    """N x length numbers of the items each row scores highest, best first; shorter where the catalogue is."""
    step = max(1, _SCORES // len(items))
    return torch.cat([(rows @ items.T).topk(min(length, len(items)), dim=1).indices for rows in U.split(step)])


def order_loss(U: Tensor, items: Tensor, lists: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """Sum over users and places k of max(0, margin + score at place k + 1 - score at place k); its gradient in U."""
    value, gradient = U.new_zeros(()), torch.zeros_like(U)
    step = max(1, _SCORES // max(1, lists.shape[1] * U.shape[1]))
    for first in range(0, len(U), step):
        here = slice(first, first + step)
        steps = items[lists[here]].diff(dim=1)
        excess = torch.einsum("nkd,nd->nk", steps, U[here]) + margin
        value += excess.clamp_min(0).sum()
        gradient[here] = torch.einsum("nkd,nk->nd", steps, (excess > 0).to(U.dtype))
    return value, gradient
