"""Bring neighbourhoods to chance: whether a user's nearest users share its group more often than random groups would.

Means, covariances and random axes say nothing about which users lie side by side. Here every user counts its own group
among its nearest users, and moves a little along the gradient of a smooth stand-in for that share, in which a Gaussian
as wide as the neighbourhood weighs them: by the step that, to first order, takes the group's mean share to what chance
gives. Both sides of a pair move, so each goes half of the way. The groups' means stay where they are; `clipping` has
put them at chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from oblivec.calibration.dense import smallest
from oblivec.calibration.groups import Groups, group_means
from oblivec.engines.local import in_threads

NEAREST = 128
"""Users a neighbourhood holds."""
COUNTED = (10, 50)
"""Nearest users among whom a group's share is counted. A share is the mean of what is counted and of what its stand-in
weighs. Weighed alone, a surplus among a few very close users is paid for by a deficit among the others, and who asks
nearest neighbours reads below chance; counted alone, support vectors still read above."""
WIDTH_AT = 30
"""The Gaussians' width is the distance to the user at this rank ..."""
SHARPNESS = (6.0, 1.0)
"""... where a user weighs exp(-SHARPNESS) of one at no distance: one stand-in for every share that is counted."""
RIDGE = 0.3
"""Of the steepness: shares at two scales hang together, and what sets them apart is noisy."""
LONGEST = 0.04
"""How far a group may move in a round, as a share of its neighbourhoods' width: beyond, gradients have turned."""
REFERENCES = 8192
"""Users among whom neighbours are sought, drawn anew in every round: all of them up to here, so work is linear in N."""
CHUNK = 256
"""Users at a time: their distances to all references stay in a processor's cache."""
NULL_DRAWS = 4
FEWEST = 8
"""Users a group needs before it moves."""
SWEEPS = 3
"""Passes over the attributes that take the groups' mean move out of everybody's."""


def neighbourhood_round(X: Tensor, attributes: Sequence[Groups], rng: torch.Generator) -> tuple[Tensor, float]:
    """X after one step for all attributes together, X itself where no share stands out from chance; and how far the
    shares of any attribute stood out before it, in standard deviations of chance."""
    codes = [_codes(groups, len(X)) for groups in attributes]
    views = [_Shares(code, rng, X) for code in codes]
    neighbourhoods = _Neighbourhoods.among(X, rng)

    def look(rows: Tensor) -> None:
        found = neighbourhoods.of(rows)
        for view in views:
            view.look(rows, *found)

    in_threads(look, torch.arange(len(X), device=X.device).split(CHUNK))
    move = torch.stack([view.move() for view in views]).sum(0)
    for _ in range(SWEEPS):
        for code, groups in zip(codes, attributes, strict=True):
            labelled = code >= 0
            move[labelled] -= group_means(move[labelled], code[labelled], len(groups.members))[code[labelled]]
    return X + move, max((view.standing for view in views), default=0.0)


@dataclass(frozen=True)
class _Neighbourhoods:
    """Where neighbours are sought: all users, or a sample."""

    X: Tensor
    references: Tensor
    itself: Tensor
    """Everybody's place among the references; for those who are none, one place behind them."""
    lengths: Tensor

    @classmethod
    def among(cls, X: Tensor, rng: torch.Generator) -> _Neighbourhoods:
        references = torch.randperm(len(X), generator=rng, device=rng.device)[:REFERENCES].to(X.device)
        itself = torch.full((len(X),), len(references), device=X.device)
        itself[references] = torch.arange(len(references), device=X.device)
        return cls(X, references, itself, X[references].square().sum(1))

    def of(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """These users' nearest users, how wide a neighbourhood is, and the weights and places of those users."""
        here, there = self.X[rows], self.X[self.references]
        count = min(NEAREST, len(there) - 1)
        beyond = here.new_empty(len(rows), len(there) + 1)  # squared distances less the user's own squared length
        torch.addmm(self.lengths, here, there.T, alpha=-2, out=beyond[:, :-1])
        beyond.scatter_(1, self.itself[rows, None], torch.inf)
        near, index = smallest(beyond[:, :-1], count)
        near = (near + here.square().sum(1, keepdim=True)).clamp_min(0)
        width = near[:, min(WIDTH_AT, count - 1), None].clamp_min(1e-12)
        weight = torch.softmax(-here.new_tensor(SHARPNESS)[:, None] * (near / width)[:, None], dim=2)
        return self.references[index], width[:, 0], weight, there[index]


@dataclass
class _Shares:
    """One attribute: every user's share of its own group among its nearest, how it changes, and what chance gives."""

    code: Tensor
    rng: torch.Generator
    X: Tensor
    standing: float = 0.0

    def __post_init__(self) -> None:
        labelled = torch.nonzero(self.code >= 0)[:, 0]
        self.permuted = []
        for _ in range(NULL_DRAWS):
            order = torch.randperm(len(labelled), generator=self.rng, device=self.rng.device).to(self.code.device)
            self.permuted.append(self.code.index_copy(0, labelled, self.code[labelled[order]]))
        users, dimensions = self.X.shape
        self.share = self.X.new_zeros(users, len(SHARPNESS))
        self.width = self.X.new_zeros(users)
        self.by_chance = self.X.new_zeros(NULL_DRAWS, users, len(SHARPNESS))
        self.gradient = self.X.new_zeros(users, len(SHARPNESS), dimensions)

    def look(self, rows: Tensor, nearest: Tensor, width: Tensor, weight: Tensor, places: Tensor) -> None:
        self.width[rows] = width
        labelled = (self.code[nearest] >= 0)[:, None]
        same = (self.code[nearest] == self.code[rows, None]).float()
        rank = torch.arange(nearest.shape[1], device=rows.device)
        counted = _normalised((rank < torch.tensor(COUNTED, device=rows.device)[:, None]) * labelled)
        weight = _normalised(weight * labelled)
        smooth = torch.bmm(weight, same[..., None])
        both = (counted + weight) / 2
        self.share[rows] = torch.bmm(both, same[..., None])[..., 0]
        for draw, code in enumerate(self.permuted):
            alike = (code[nearest] == code[rows, None]).float()
            self.by_chance[draw, rows] = torch.bmm(both, alike[..., None])[..., 0]
        steepest = 2 * self.X.new_tensor(SHARPNESS)[:, None] / width[:, None, None]
        # The gradient of a weight's logarithm is this times the way to the user, less its mean; these weights sum to
        # zero, so places do as well as ways.
        self.gradient[rows] = steepest * torch.bmm(weight * (same[:, None] - smooth), places)

    def move(self) -> Tensor:
        """Against the gradients: a Newton step to the expected shares, for what of the excess is more than noise."""
        labelled = self.code >= 0
        code = self.code[labelled]
        sizes = torch.bincount(code).float()[:, None]
        expected = (sizes - 1) / max(len(code) - 1, 1)
        excess = group_means(self.share[labelled], code, len(sizes)) - expected
        binomial = (expected * (1 - expected) / sizes).sqrt().clamp_min(1e-12)
        large = sizes[:, 0] >= FEWEST
        if not large.any():
            return torch.zeros_like(self.X)
        drawn = [group_means(null[one >= 0], one[one >= 0], len(sizes)) - expected
                 for null, one in zip(self.by_chance, self.permuted, strict=True)]
        noise = binomial * (torch.stack(drawn) / binomial)[:, large].square().mean((0, 1)).sqrt()  # pooled over groups
        self.standing = float((excess / noise.clamp_min(1e-12))[large].square().mean().sqrt())
        trusted = excess * (1 - noise / excess.abs().clamp_min(1e-12)).clamp_min(0) * large[:, None]
        gradient = self.gradient[labelled]
        steepness = group_means(gradient @ gradient.mT, code, len(sizes))
        scale = steepness.diagonal(dim1=1, dim2=2).clamp_min(1e-30).rsqrt()  # steepness differs by scale
        normal = steepness * scale[:, :, None] * scale[:, None, :]
        normal = normal + RIDGE * torch.eye(len(SHARPNESS), device=code.device)
        step = torch.linalg.solve(normal, (trusted * scale)[..., None])[..., 0] * scale
        move = -0.5 * torch.bmm(step[code][:, None], gradient)[:, 0]
        length = group_means(move.square().sum(1, keepdim=True), code, len(sizes)).sqrt()
        allowed = LONGEST * group_means(self.width[labelled, None], code, len(sizes)).sqrt()
        move = move * (allowed / length.clamp_min(1e-30)).clamp(max=1)[code]
        return torch.zeros_like(self.X).index_put((labelled,), move)


def _normalised(weight: Tensor) -> Tensor:
    return weight / weight.sum(2, keepdim=True).clamp_min(1e-30)


def _codes(groups: Groups, n: int) -> Tensor:
    """Everybody's group, -1 for those in none."""
    code = torch.full((n,), -1, dtype=torch.long, device=groups.rows.device)
    code[groups.rows] = groups.number
    return code
