"""Bring neighbourhoods to chance: whether a user's nearest users share its group more often than random groups would.

Means, covariances and random axes say nothing about which users lie side by side. Here every user counts its own group
among its nearest users, and moves a little along the gradient of a smooth stand-in for that share, in which a Gaussian
as wide as the neighbourhood weighs them: by the step that, to first order, takes the group's mean share to what
everybody sees of the group. Both sides of a pair move, so each goes half of the way. The groups' means stay where they
are; `clipping` has put them at chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
import torch.nn.functional as F
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
NULL_DRAWS, FEWEST_DRAWN = 4, 8
"""Draws of the groups by chance at least, and more of few groups, until so many groups were drawn that are free."""
FEWEST = 8
"""Users a group needs before it moves."""
SWEEPS = 3
"""Passes over the attributes that take the groups' mean move out of everybody's."""


@dataclass
class Memory:
    """Of the rounds so far in one geometry, by attribute: what stood out in the last one, and how long steps are.

    Where users of a group lie close together they see each other leave, and go further than a Newton step thinks: where
    a surplus has become a deficit, or the other way round, the steps that follow are half as long.
    """

    before: dict[int, Tensor] = field(default_factory=dict)
    length: dict[int, float] = field(default_factory=dict)

    def length_of(self, number: int, standing: Tensor) -> float:
        before = self.before.get(number)
        turned = before is not None and before.shape == standing.shape and bool((before * standing).sum() < 0)
        self.before[number] = standing
        self.length[number] = self.length.get(number, 1.0) * (0.5 if turned else 1.0)
        return self.length[number]


def neighbourhood_round(
    X: Tensor, attributes: Sequence[Groups], rng: torch.Generator, memory: Memory | None = None
) -> tuple[Tensor, float]:
    """X after one step for all attributes together, X itself where no share stands out from chance; and how far the
    shares of any attribute stood out before it, in standard deviations of chance. `memory` is for the rounds after."""
    memory = memory or Memory()
    codes = [_codes(groups, len(X)) for groups in attributes]
    views = [_Shares(code, rng, X) for code in codes]
    neighbourhoods = _Neighbourhoods.among(X, rng)
    for view in views:
        view.seek_among(neighbourhoods.references)

    def look(rows: Tensor) -> None:
        found = neighbourhoods.of(rows)
        for view in views:
            view.look(rows, *found)

    in_threads(look, torch.arange(len(X), device=X.device).split(CHUNK))
    move = torch.stack([view.move(partial(memory.length_of, number)) for number, view in enumerate(views)]).sum(0)
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
        """Which references are these users' nearest, how wide a neighbourhood is, their weights and their places."""
        here, there = self.X[rows], self.X[self.references]
        count = min(NEAREST, len(there) - 1)
        beyond = here.new_empty(len(rows), len(there) + 1)  # squared distances less the user's own squared length
        torch.addmm(self.lengths, here, there.T, alpha=-2, out=beyond[:, :-1])
        beyond.scatter_(1, self.itself[rows, None], torch.inf)
        near, index = smallest(beyond[:, :-1], count)
        near = (near + here.square().sum(1, keepdim=True)).clamp_min(0)
        width = near[:, min(WIDTH_AT, count - 1), None].clamp_min(1e-12)
        weight = torch.softmax(-here.new_tensor(SHARPNESS)[:, None] * (near / width)[:, None], dim=2)
        return index, width[:, 0], weight, there[index]


@dataclass
class _Shares:
    """One attribute: every user's share of its own group among its nearest, how it changes, and what chance gives.

    Some users are near to many others. Whose group they are in decides how often that group is seen, by its members
    and by everybody else, which tells nobody apart and by chance differs a great deal more than what does. So a group's
    share among its members' nearest is compared with its share among everybody's.
    """

    code: Tensor
    rng: torch.Generator
    X: Tensor
    standing: float = 0.0

    def __post_init__(self) -> None:
        labelled, self.groups = torch.nonzero(self.code >= 0)[:, 0], int(self.code.max()) + 1
        self.codes = [self.code]
        """The groups as they are, then drawn by chance."""
        for _ in range(max(NULL_DRAWS, math.ceil(FEWEST_DRAWN / max(self.groups - 1, 1)))):
            order = torch.randperm(len(labelled), generator=self.rng, device=self.rng.device).to(self.code.device)
            self.codes.append(self.code.index_copy(0, labelled, self.code[labelled[order]]))
        (users, dimensions), draws, scales = self.X.shape, len(self.codes), len(SHARPNESS)
        self.own = self.X.new_zeros(draws, users, scales)
        self.anybody = self.X.new_zeros(math.ceil(users / CHUNK), scales, draws * self.groups)
        """Chunks x scales x (draws x groups): a group's share among the nearest of each labelled user, summed."""
        self.width = self.X.new_zeros(users)
        self.gradient = self.X.new_zeros(users, scales, dimensions)

    def seek_among(self, references: Tensor) -> None:
        self.references = references
        members = [F.one_hot(code[references] + 1, self.groups + 1)[:, 1:] for code in self.codes]
        self.members = torch.stack(members, dim=1).flatten(1).float()
        """References x (draws x groups): who is in which."""

    def look(self, rows: Tensor, index: Tensor, width: Tensor, weight: Tensor, places: Tensor) -> None:
        self.width[rows] = width
        nearest = self.references[index]
        labelled = (self.code[nearest] >= 0)[:, None]
        same = (self.code[nearest] == self.code[rows, None]).float()
        rank = torch.arange(nearest.shape[1], device=rows.device)
        counted = _normalised((rank < torch.tensor(COUNTED, device=rows.device)[:, None]) * labelled)
        weight = _normalised(weight * labelled)
        smooth = torch.bmm(weight, same[..., None])
        both = (counted + weight) / 2
        for draw, code in enumerate(self.codes):
            alike = same if draw == 0 else (code[nearest] == code[rows, None]).float()
            self.own[draw, rows] = torch.bmm(both, alike[..., None])[..., 0]
        asked = both * (self.code[rows] >= 0)[:, None, None]
        weighed = asked.new_zeros(len(SHARPNESS), len(self.references))
        weighed.scatter_add_(1, index.flatten().expand(len(SHARPNESS), -1), asked.transpose(0, 1).flatten(1))
        self.anybody[int(rows[0]) // CHUNK] = weighed @ self.members
        steepest = 2 * self.X.new_tensor(SHARPNESS)[:, None] / width[:, None, None]
        # The gradient of a weight's logarithm is this times the way to the user, less its mean; these weights sum to
        # zero, so places do as well as ways.
        self.gradient[rows] = steepest * torch.bmm(weight * (same[:, None] - smooth), places)

    def move(self, length_of: Callable[[Tensor], float]) -> Tensor:
        """Against the gradients: a Newton step to the expected shares, for what of the excess is more than noise."""
        labelled = self.code >= 0
        code = self.code[labelled]
        sizes = torch.bincount(code).float()[:, None]
        large = sizes[:, 0] >= FEWEST
        if not large.any():
            return torch.zeros_like(self.X)
        excess, *by_chance = self._excesses(labelled, sizes)
        share = sizes / len(code)
        binomial = (share * (1 - share).square() / sizes).sqrt().clamp_min(1e-12)
        noise = binomial * (torch.stack(by_chance) / binomial)[:, large].square().mean((0, 1)).sqrt()  # over all groups
        standing = (excess / noise.clamp_min(1e-12)) * large[:, None]
        self.standing = float(standing[large].square().mean().sqrt())
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
        move = length_of(standing) * move * (allowed / length.clamp_min(1e-30)).clamp(max=1)[code]
        return torch.zeros_like(self.X).index_put((labelled,), move)

    def _excesses(self, labelled: Tensor, sizes: Tensor) -> list[Tensor]:
        """Groups x scales, of the groups as they are and of each draw: how much more often a group is seen by its
        members than by anybody, but for that nobody sees themselves."""
        count = float(sizes.sum())
        itself = sizes / count - (sizes - 1) / max(count - 1, 1)
        anybody = self.anybody.sum(0).T.view(len(self.codes), len(sizes), -1) / count
        return [
            group_means(own[labelled], code[labelled], len(sizes)) - seen + itself
            for own, code, seen in zip(self.own, self.codes, anybody, strict=True)
        ]


def _normalised(weight: Tensor) -> Tensor:
    return weight / weight.sum(2, keepdim=True).clamp_min(1e-30)


def _codes(groups: Groups, n: int) -> Tensor:
    """Everybody's group, -1 for those in none."""
    code = torch.full((n,), -1, dtype=torch.long, device=groups.rows.device)
    code[groups.rows] = groups.number
    return code
