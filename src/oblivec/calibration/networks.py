"""Networks that tell groups apart, each asked about users it was not shown.

Kernel machines weigh all directions by one width. A network learns which of them to look at, and near the middle, where
users are many, it finds what no kernel does. So that nothing is learned by heart the users are dealt into folds, and a
network reads only the fold it was not trained on. What training costs does not grow with the users.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from oblivec.calibration.adam import Adam
from oblivec.calibration.groups import Groups
from oblivec.calibration.telling import Sight
from oblivec.engines.local import in_threads, offspring

FOLDS = 5
HIDDEN = 64
STEPS = 400
BATCH = 200
"""Users per step and fold, every group drawn as often as every other."""
LEARNING_RATE = 1e-2
DOUBT = 1.5
"""Variance of a group's mean value by chance, as a multiple of that of independent values: folds learn from another."""
DECAY = 5e-3
"""Weight of half the squared weights: that of the paper's attacker."""


def by_networks(X: Tensor, attributes: Sequence[Groups], rng: torch.Generator) -> Sight:
    """What networks say of users they were not shown; zero for users of no group."""
    values = [X.new_zeros(len(X), len(groups.members)) for groups in attributes]
    gradients = [torch.zeros_like(X) for _ in attributes]
    rngs = offspring(rng, len(attributes))

    def look(number: int) -> None:
        _read(X, attributes[number], rngs[number], values[number], gradients[number])

    in_threads(look, range(len(attributes)))
    return Sight(values, gradients.__getitem__)


def _read(X: Tensor, groups: Groups, rng: torch.Generator, values: Tensor, gradients: Tensor) -> None:
    folds = deal(groups, rng)
    networks = train(X, folds, rng)
    for number in range(FOLDS):
        inner, inner_bias, outer, outer_bias = (one[number] for one in networks)
        for group, members in enumerate(folds):
            users = members[number::FOLDS]
            hidden = X[users] @ inner + inner_bias
            values[users] = hidden.relu() @ outer + outer_bias
            gradients[users] = ((hidden > 0) * outer[:, group]) @ inner.T


def deal(groups: Groups, rng: torch.Generator) -> list[Tensor]:
    """The members of every group in random order: every FOLDS-th is in the same fold."""
    return [
        members[torch.randperm(len(members), generator=rng, device=rng.device).to(members.device)]
        for members in groups.members
    ]


def train(X: Tensor, folds: Sequence[Tensor], rng: torch.Generator) -> list[Tensor]:
    """A network for every fold, trained on the others: weights with a leading axis of folds, outputs centred."""
    draws, labels = draw(folds, rng)
    fans = (X.shape[1], HIDDEN, len(folds))
    shapes = [(FOLDS, rows, fan_out) for fan_in, fan_out in pairwise(fans) for rows in (fan_in, 1)]
    start = []
    for shape, (fan_in, fan_out) in zip(shapes, (pair for pair in pairwise(fans) for _ in range(2)), strict=True):
        drawn = torch.rand(shape, generator=rng, device=rng.device).to(X.device)
        start.append((2 * drawn - 1) * (6 / (fan_in + fan_out)) ** 0.5)
    weights, adam = torch.cat([one.flatten() for one in start]), Adam()
    slopes = torch.empty_like(weights)

    def parts(of: Tensor) -> list[Tensor]:
        pieces = of.split([one.numel() for one in start])
        return [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]

    (inner, inner_bias, outer, outer_bias), slope = parts(weights), parts(slopes)
    for users, wanted in zip(draws, F.one_hot(labels, len(folds)).to(X.dtype), strict=True):
        # Backwards by hand: torch's own bookkeeping would take as long as the products.
        shown = X.index_select(0, users.flatten()).view(FOLDS, BATCH, -1)
        hidden = torch.baddbmm(inner_bias, shown, inner).relu_()
        wrong = (torch.baddbmm(outer_bias, hidden, outer).softmax(2) - wanted) / BATCH
        back = torch.bmm(wrong, outer.mT) * (hidden > 0)
        torch.baddbmm(inner, shown.mT, back, beta=DECAY, out=slope[0])
        torch.sum(back, 1, keepdim=True, out=slope[1])
        torch.baddbmm(outer, hidden.mT, wrong, beta=DECAY, out=slope[2])
        torch.sum(wrong, 1, keepdim=True, out=slope[3])
        weights -= LEARNING_RATE * adam.way(slopes)
    centre = torch.eye(len(folds), device=X.device) - 1 / len(folds)
    return [inner, inner_bias, outer @ centre, outer_bias @ centre]


def draw(folds: Sequence[Tensor], rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Steps x folds x batch: users to train on, never those of the fold; and their groups."""
    shown = [
        [members[torch.arange(len(members), device=members.device) % FOLDS != number] for members in folds]
        for number in range(FOLDS)
    ]
    sizes = torch.tensor([[len(members) for members in parts] for parts in shown], device=folds[0].device)
    everybody = torch.cat([members for parts in shown for members in parts])
    first = (sizes.flatten().cumsum(0) - sizes.flatten()).reshape(sizes.shape)
    group, member = torch.rand(2, STEPS, FOLDS, BATCH, generator=rng, device=rng.device).to(sizes.device)
    labels = (group * len(folds)).long().clamp_(max=len(folds) - 1)
    fold = torch.arange(FOLDS, device=sizes.device)[:, None]
    within = (member * sizes[fold, labels]).long().minimum(sizes[fold, labels] - 1)
    return everybody[first[fold, labels] + within], labels
