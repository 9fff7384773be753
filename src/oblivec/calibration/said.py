"""What a matrix says of its users: scores for an attribute, by machines that know the labels of others.

Kernel ridge regression of the labels on the rows. A machine's scores of users whose labels it learned are those it
would give had it not, in closed form: with A = (K + ridge)^-1, leaving the fold F out gives y_F - A_FF^-1 (A y)_F. So a
score never repeats a user's own label, and for users without one it is a function of the rows alone.

Folds have as many of every class as every other. Were users left out one by one, who is of a rare class would be told
from those who are not by one label missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from oblivec.calibration.left_out import typical_square
from oblivec.calibration.space import Space
from oblivec.information.target import Target

AMONG = 64
"""Leading directions the machines look at: among hundreds, most are noise to them."""
TOGETHER = 6144
"""Users a machine learns from at most. More are dealt to several, who say together what each found."""
SURE, CLEAR = 3.0, 0.06
"""Standard errors, and correlation with what it is to tell, from which a score counts. The latter for one output, and
more where there are many, as the root of their number: each then says less about the attribute, and all of them
together would take the matrix apart for what is mostly noise."""
ALIKE = 0.05
"""Scores this much smaller than the largest, after what they have in common with it, say nothing of their own."""
FOLDS = 10
PART = 8192
"""Users scored at a time."""


@dataclass(frozen=True)
class Kind:
    """A kernel: what is linear, in directions all alike or nearer to their widths, and Gaussians beside it."""

    natural: float
    gaussians: float
    ridge: float


KINDS = Kind(natural=0.0, gaussians=0.0, ridge=0.1), Kind(natural=0.5, gaussians=1.0, ridge=0.3)
"""Two, because each is wrong in its own way about the few labels it has, and what one leaves the other takes."""


def scores(X: Tensor, targets: list[Target], space: Space, rng: torch.Generator, users: Tensor) -> Tensor:
    """These users x k: all that tells an attribute better than chance does. Over these users the scores are centred,
    uncorrelated and of unit variance."""
    told = [_told(X, target, space.scales(kind.natural), kind, rng) for target in targets for kind in KINDS]
    return _uncorrelated(torch.cat(told, dim=1)[users], ALIKE)


def _told(X: Tensor, target: Target, scale: Tensor, kind: Kind, rng: torch.Generator) -> Tensor:
    """The scores of one kind of machine, as many as stand out."""
    wanted = _wanted(target)
    said = _said((X * scale)[:, :AMONG], target.rows, wanted, _fold(target.labels, rng), kind, rng)
    own = said[target.rows]
    right = own.T @ wanted / len(wanted)
    mixed = torch.linalg.eigh((right + right.T) / 2)[1]
    correlation = (mixed.T @ right @ mixed).diagonal() / (own @ mixed).std(0).clamp_min(1e-12)
    return said @ mixed[:, correlation > max(SURE / math.sqrt(len(wanted)), CLEAR * math.sqrt(wanted.shape[1]))]


def _wanted(target: Target) -> Tensor:
    """Labelled users x outputs, uncorrelated, so that classes weigh alike however few have them: who is of which class;
    or the value and its rank."""
    if target.n_classes:
        return _uncorrelated(F.one_hot(target.labels, target.n_classes).float(), 1e-3)
    ranks = target.labels.argsort().argsort().float()
    return _uncorrelated(torch.stack([target.labels, ranks / ranks.std().clamp_min(1e-12)], dim=1), 1e-3)


def _fold(labels: Tensor, rng: torch.Generator) -> Tensor:
    """Everybody's fold, drawn so that all have the same share of every class, or of every range of values."""
    order = torch.randperm(len(labels), generator=rng, device=rng.device).to(labels.device)
    order = order[labels[order].argsort(stable=True)]
    return torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device) % FOLDS)


def _said(
    rows: Tensor, known: Tensor, wanted: Tensor, fold: Tensor, kind: Kind, rng: torch.Generator
) -> Tensor:
    """Users x outputs: the mean over machines, each of a part of the users with labels."""
    order = torch.randperm(len(known), generator=rng, device=rng.device).to(known.device)
    parts = order.tensor_split(math.ceil(len(known) / TOGETHER))
    per_square = 1 / typical_square(rows[known[order[:1024]]])

    def kernels(some: Tensor, learned: Tensor) -> Tensor:
        found = some @ learned.T / rows.shape[1]
        return found + kind.gaussians * (-per_square * torch.cdist(some, learned).square()).exp()

    total = rows.new_zeros(len(rows), wanted.shape[1])
    for part in parts:
        learned = rows[known[part]]
        normal = kernels(learned, learned)
        normal.diagonal().add_(kind.ridge)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(normal))
        weights = inverse @ wanted[part]
        said = torch.cat([kernels(some, learned) @ weights for some in rows.split(PART)])
        for number in range(FOLDS):
            own = torch.nonzero(fold[part] == number)[:, 0]
            left_out = torch.linalg.solve(inverse[own][:, own], weights[own])
            said[known[part[own]]] = wanted[part[own]] - left_out
        total += said / len(parts)
    return total


def _uncorrelated(values: Tensor, least: float) -> Tensor:
    """The same with unit variance along every direction that has more than the share `least` of the widest."""
    if values.shape[1] == 0:
        return values
    found, widths, _ = torch.linalg.svd(values - values.mean(0), full_matrices=False)
    return found[:, widths > least * widths[0]] * math.sqrt(len(values))
