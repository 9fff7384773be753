"""Bring neighbourhoods to chance: whether a user's nearest users share its group more often than random groups would.

Means, covariances and random axes say nothing about which users lie side by side. Here every user counts its own group
among its nearest users, and moves a little along the gradient of a smooth stand-in for that share, in which a Gaussian
as wide as the neighbourhood weighs them. Who is near depends on how the matrix is looked at, and users are in a group
of every attribute: shares in all geometries, at all scales and of all groups are brought to chance by one Newton step,
so that no step for one undoes that for another. Both sides of a pair move, so each goes half of the way. The groups'
means stay where they are; `clipping` has put them at chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import Tensor

from oblivec.calibration.dense import smallest
from oblivec.calibration.geometry import Geometry, Seen
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
"""Of the steepness: shares at several scales and geometries hang together, and what sets them apart is noisy."""
LONGEST = 0.04
"""How far a group may move in a round, as a share of its neighbourhoods' width: beyond, gradients have turned."""
REFERENCES = 8192
"""Users among whom neighbours are sought, drawn anew in every round: all of them up to here, so work is linear in N."""
SPARSE = 4
"""Of how many of those one is left where neighbourhoods are to be wide."""
CHUNK = 256
"""Users at a time: their distances to all references stay in a processor's cache."""
NULL_DRAWS, FEWEST_DRAWN = 4, 8
"""Draws of the groups by chance at least, and more of few groups, until so many groups were drawn that are free."""
FEWEST = 8
"""Users a group needs before it moves."""
MOST_GROUPS = 256
"""Groups of an attribute that take part, the largest: work and memory grow with the square of their number."""
SWEEPS = 3
"""Passes over the attributes that take the groups' mean move out of everybody's."""
FIRST_LENGTH = 0.5
"""What part of a Newton step to go at first ..."""
LENGTH_CHANGE = 0.4, 1.25
"""... and by what it changes from one round to the next, at least and at most."""
SEEN = 2.0
"""Standard deviations from which on what stood out says how well a step did."""


@dataclass
class Memory:
    """Of the rounds so far, by attribute: what stood out in the last one, and what part of a Newton step to go.

    Users who lie close together see each other leave, so that shares change by more than their own gradients say, how
    much more depends on the matrix. What is left of what stood out before tells.
    """

    before: dict[int, Tensor] = field(default_factory=dict)
    length: dict[int, float] = field(default_factory=dict)

    def length_of(self, number: int, standing: Tensor) -> float:
        before, length = self.before.get(number), self.length.get(number, FIRST_LENGTH)
        if before is not None and before.shape == standing.shape and before.square().mean() >= SEEN**2:
            left = float((before * standing).sum() / before.square().sum())
            shortest, longest = LENGTH_CHANGE
            length = min(length * min(max(1 / max(1 - left, 1e-3), shortest), longest), 1.0)
        self.before[number], self.length[number] = standing, length
        return length


def neighbourhood_round(
    X: Tensor, geometries: Sequence[Geometry], attributes: Sequence[Groups], rng: torch.Generator, memory: Memory
) -> tuple[Tensor, float]:
    """X after one step for all attributes in all geometries together, X itself where no share stands out from chance;
    and how far the shares of any attribute stood out before it, in standard deviations of chance."""
    attributes = [groups.largest(MOST_GROUPS) for groups in attributes]
    codes = [groups.of_all(len(X)) for groups in attributes]
    chunks = torch.arange(len(X), device=X.device).split(CHUNK)
    views: list[list[_Shares]] = [[] for _ in codes]
    for geometry in geometries:
        seen = geometry.see(X)
        references = min(REFERENCES, len(X))
        neighbourhoods = _Neighbourhoods.among(seen.rows, references // SPARSE if geometry.sparse else references, rng)
        shares = [_Shares(code, seen, neighbourhoods, rng) for code in codes]
        in_threads(partial(_look, shares), chunks)
        for of_one, view in zip(views, shares, strict=True):
            of_one.append(view)
    looks = [_Look.of(of_one) for of_one in views]
    wanted = [memory.length_of(number, look.standing) * look.excess for number, look in enumerate(looks)]
    move = _newton_step(looks, wanted, chunks, X)
    for _ in range(SWEEPS):
        for code, groups in zip(codes, attributes, strict=True):
            labelled = code >= 0
            move[labelled] -= group_means(move[labelled], code[labelled], len(groups.members))[code[labelled]]
    return X + move, max((view.loudness for of_one in views for view in of_one), default=0.0)


def _look(seen: Sequence[_Shares], rows: Tensor) -> None:
    found = seen[0].neighbourhoods.of(rows)
    for view in seen:
        view.look(rows, *found)


@dataclass(frozen=True)
class _Look:
    """One attribute in all geometries. Scales are those of the first geometry, then those of the second."""

    views: Sequence[_Shares]
    excess: Tensor
    """Groups x scales: how much too large shares are, as far as that is more than noise."""
    standing: Tensor
    """The same, all of it, in standard deviations of chance."""

    @classmethod
    def of(cls, views: Sequence[_Shares]) -> _Look:
        excess, standing = zip(*(view.excess() for view in views), strict=True)
        return cls(views, torch.cat(excess, dim=1), torch.cat(standing, dim=1))

    @property
    def code(self) -> Tensor:
        return self.views[0].code

    @property
    def sizes(self) -> Tensor:
        return self.views[0].sizes

    def places(self, rows: Tensor, first: int) -> Tensor:
        """Users x scales: where the shares that they have a part in stand, one after the other, from the first on."""
        scales = self.excess.shape[1]
        return first + self.code[rows].clamp_min(0)[:, None] * scales + torch.arange(scales, device=rows.device)

    def slopes(self, rows: Tensor) -> Tensor:
        """Users x scales x d: gradients of their shares in coordinates; zero for those in no group."""
        return torch.cat([view.seen.slopes(rows, view.gradient[rows]) for view in self.views], dim=1)

    def ways(self, rows: Tensor) -> Tensor:
        """Users x scales x d: where they go for a share, which is up its gradient as that geometry measures it."""
        return torch.cat([view.seen.ways(rows, view.gradient[rows]) for view in self.views], dim=1)


def _newton_step(looks: Sequence[_Look], wanted: Sequence[Tensor], chunks: Sequence[Tensor], X: Tensor) -> Tensor:
    """Against the gradients: to first order it takes `wanted` from the shares of every group and scale at once."""
    first = [0, *accumulate(one.numel() for one in wanted)]
    steepness = X.new_zeros(first[-1] ** 2)  # how much a share changes with the step for each other one
    for rows in chunks:
        places = [look.places(rows, start) for look, start in zip(looks, first, strict=False)]
        ways = [look.ways(rows) for look in looks]
        for look, here in zip(looks, places, strict=True):
            slopes = look.slopes(rows)
            for way, there in zip(ways, places, strict=True):
                index = here[:, :, None] * first[-1] + there[:, None, :]
                steepness.index_add_(0, index.flatten(), (slopes @ way.mT).flatten())
    sizes = torch.cat([look.sizes.repeat_interleave(one.shape[1]) for look, one in zip(looks, wanted, strict=True)])
    steepness = steepness.view(first[-1], -1) / sizes[:, None]
    scale = steepness.diagonal().clamp_min(1e-30).rsqrt()  # steepness differs by scale
    normal = steepness * scale[:, None] * scale + RIDGE * torch.eye(len(scale), device=X.device)
    step = torch.linalg.solve(normal, torch.cat([one.flatten() for one in wanted]) * scale) * scale
    move = torch.zeros_like(X)
    for rows in chunks:
        for look, start in zip(looks, first, strict=False):
            move[rows] -= 0.5 * torch.bmm(step[look.places(rows, start)][:, None], look.ways(rows))[:, 0]
    return move * _allowed(looks, move)[:, None]


def _allowed(looks: Sequence[_Look], move: Tensor) -> Tensor:
    """What part of its move each user may go, so that no group goes too far in any geometry."""
    part = move.new_ones(len(move))
    for look in looks:
        labelled = look.code >= 0
        code, groups = look.code[labelled], len(look.sizes)
        for view in look.views:
            length = group_means(view.seen.moved(move)[labelled].square().sum(1), code, groups).sqrt()
            longest = LONGEST * group_means(view.width[labelled], code, groups).sqrt()
            part[labelled] = part[labelled].minimum((longest / length.clamp_min(1e-30))[code])
    return part


@dataclass(frozen=True)
class _Neighbourhoods:
    """Where neighbours are sought: all users, or a sample."""

    X: Tensor
    references: Tensor
    itself: Tensor
    """Everybody's place among the references; for those who are none, one place behind them."""
    lengths: Tensor

    @classmethod
    def among(cls, X: Tensor, count: int, rng: torch.Generator) -> _Neighbourhoods:
        references = torch.randperm(len(X), generator=rng, device=rng.device)[:count].to(X.device)
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
    """One attribute in one geometry: every user's share of its own group among its nearest, how it changes, and what
    chance gives.

    Some users are near to many others. Whose group they are in decides how often that group is seen, by its members
    and by everybody else, which tells nobody apart and by chance differs a great deal more than what does. So a group's
    share among its members' nearest is compared with its share among everybody's.
    """

    code: Tensor
    seen: Seen
    neighbourhoods: _Neighbourhoods
    rng: torch.Generator
    loudness: float = 0.0
    """How far the groups stand out, in standard deviations of chance."""

    def __post_init__(self) -> None:
        labelled, groups = torch.nonzero(self.code >= 0)[:, 0], int(self.code.max()) + 1
        self.sizes = torch.bincount(self.code[labelled], minlength=groups).float()
        codes = [self.code]
        for _ in range(max(NULL_DRAWS, math.ceil(FEWEST_DRAWN / max(groups - 1, 1)))):
            order = torch.randperm(len(labelled), generator=self.rng, device=self.rng.device).to(self.code.device)
            codes.append(self.code.index_copy(0, labelled, self.code[labelled[order]]))
        self.codes = torch.stack(codes, dim=1).int()
        """Users x draws: the groups as they are, then drawn by chance."""
        X, references = self.neighbourhoods.X, self.neighbourhoods.references
        (users, dimensions), draws, scales = X.shape, len(codes), len(SHARPNESS)
        self.own = X.new_zeros(users, scales, draws)
        self.anybody = X.new_zeros(math.ceil(users / CHUNK), scales, draws * groups)
        """Chunks x scales x (draws x groups): a group's share among the nearest of each labelled user, summed."""
        self.width = X.new_zeros(users)
        self.gradient = X.new_zeros(users, scales, dimensions)
        members = [F.one_hot(code[references] + 1, groups + 1)[:, 1:] for code in codes]
        self.members = torch.stack(members, dim=1).flatten(1).float()
        """References x (draws x groups): who is in which."""

    def look(self, rows: Tensor, index: Tensor, width: Tensor, weight: Tensor, places: Tensor) -> None:
        self.width[rows] = width
        nearest = self.neighbourhoods.references[index]
        codes = self.codes[nearest]
        labelled = (codes[..., 0] >= 0)[:, None]
        alike = (codes == self.codes[rows, None]).float()
        same = alike[..., 0]
        rank = torch.arange(nearest.shape[1], device=rows.device)
        counted = _normalised((rank < torch.tensor(COUNTED, device=rows.device)[:, None]) * labelled)
        weight = _normalised(weight * labelled)
        smooth = torch.bmm(weight, same[..., None])
        both = (counted + weight) / 2
        self.own[rows] = torch.bmm(both, alike)
        asked = both * (self.code[rows] >= 0)[:, None, None]
        weighed = asked.new_zeros(len(SHARPNESS), len(self.members))
        weighed.scatter_add_(1, index.flatten().expand(len(SHARPNESS), -1), asked.transpose(0, 1).flatten(1))
        self.anybody[int(rows[0]) // CHUNK] = weighed @ self.members
        steepest = 2 * width.new_tensor(SHARPNESS)[:, None] / width[:, None, None]
        # The gradient of a weight's logarithm is this times the way to the user, less its mean; these weights sum to
        # zero, so places do as well as ways.
        slope = steepest * torch.bmm(weight * (same[:, None] - smooth), places)
        self.gradient[rows] = slope * (self.code[rows] >= 0)[:, None, None]

    def excess(self) -> tuple[Tensor, Tensor]:
        """Groups x scales: how much more often a group is seen by its members than by anybody, as far as that is more
        than noise; and all of it in standard deviations of chance."""
        sizes, large = self.sizes[:, None], self.sizes >= FEWEST
        excess, *by_chance = self._excesses(self.code >= 0, sizes)
        if not large.any():
            return torch.zeros_like(excess), torch.zeros_like(excess)
        share = sizes / sizes.sum()
        binomial = (share * (1 - share).square() / sizes).sqrt().clamp_min(1e-12)
        noise = binomial * (torch.stack(by_chance) / binomial)[:, large].square().mean((0, 1)).sqrt()  # over all groups
        standing = excess / noise.clamp_min(1e-12) * large[:, None]
        self.loudness = float(standing[large].square().mean().sqrt())
        return excess * (1 - noise / excess.abs().clamp_min(1e-12)).clamp_min(0) * large[:, None], standing

    def _excesses(self, labelled: Tensor, sizes: Tensor) -> list[Tensor]:
        """Groups x scales, of the groups as they are and of each draw: how much more often a group is seen by its
        members than by anybody, but for that nobody sees themselves."""
        count = float(sizes.sum())
        itself = sizes / count - (sizes - 1) / max(count - 1, 1)
        codes, own = self.codes[labelled].long(), self.own[labelled]
        anybody = self.anybody.sum(0).T.view(codes.shape[1], len(sizes), -1) / count
        return [
            group_means(own[..., draw], codes[:, draw], len(sizes)) - seen + itself
            for draw, seen in enumerate(anybody)
        ]


def _normalised(weight: Tensor) -> Tensor:
    return weight / weight.sum(2, keepdim=True).clamp_min(1e-30)
