"""Users grouped by label, in the form the transports need: row lists, shares, and a smooth basis over ranks.

A continuous attribute is grouped anew for every round, by ranks with a random offset: no border between groups lasts,
so nothing is binned in the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from oblivec.information.target import Target

ORDERS = 5
"""Highest order of a group's shape that is compared: 0 is its place, 1 its width, 2 its skew."""
FEWEST = {0: 1, 1: 8, 2: 40, 3: 100, 4: 100, 5: 100}
"""Users a group needs before a shape of that order is estimated at all."""
CONTINUOUS_GROUPS = 8
COARSE_OR_FINE = (1, 2, 4, 8)
"""Groups of a continuous attribute, one more with the random offset, for steps that ask whether a group stands out:
a trend over all ranks is lost in the noise of small groups, a wave along the ranks is not seen by large ones."""
POLYNOMIALS = 6
"""Degree of the polynomials in the ranks of a continuous attribute whose means are brought to chance."""


@dataclass(frozen=True)
class Groups:
    members: tuple[Tensor, ...]
    """Rows of each group; every labelled user is in one."""

    @classmethod
    def of(cls, target: Target, rng: torch.Generator) -> Groups:
        return cls.by_class(target) if target.n_classes else cls.by_rank(target, rng)

    @classmethod
    def by_class(cls, target: Target) -> Groups:
        parts = [target.rows[target.labels == code] for code in range(target.n_classes)]
        return cls(tuple(rows for rows in parts if len(rows)))

    @classmethod
    def by_rank(cls, target: Target, rng: torch.Generator, count: int = CONTINUOUS_GROUPS) -> Groups:
        """Neighbouring values together; equal values in random order; the first and last group of random size."""
        noise = torch.rand(len(target.labels), generator=rng, device=rng.device).to(target.labels.device)
        order = torch.argsort(noise)
        order = order[torch.argsort(target.labels[order], stable=True)]
        offset = float(torch.rand((), generator=rng, device=rng.device))
        width = len(order) / count
        cuts = [max(round((number + offset) * width), 1) for number in range(count)]
        parts = torch.tensor_split(target.rows[order], [cut for cut in cuts if cut < len(order)])
        return cls(tuple(rows for rows in parts if len(rows)))

    @cached_property
    def rows(self) -> Tensor:
        """All members, group after group."""
        return torch.cat(self.members)

    @cached_property
    def sizes(self) -> Tensor:
        return torch.tensor([len(rows) for rows in self.members], dtype=torch.float32, device=self.rows.device)

    @cached_property
    def shares(self) -> Tensor:
        return self.sizes / self.sizes.sum()

    @cached_property
    def number(self) -> Tensor:
        """Which group each of `rows` is in."""
        return torch.repeat_interleave(torch.arange(len(self.members), device=self.rows.device), self.sizes.long())

    def of_all(self, users: int) -> Tensor:
        """Which group each of so many users is in, -1 for none."""
        return self.rows.new_full((users,), -1).index_put((self.rows,), self.number)

    @cached_property
    def shapes(self) -> tuple[Tensor, ...]:
        """Per group, n x orders: Hermite polynomials of the normal scores of the ranks, orthonormal over the group."""
        return tuple(_hermite(len(rows), self.rows.device) for rows in self.members)

    def permuted(self, rng: torch.Generator) -> tuple[Tensor, ...]:
        """The same users in groups of the same sizes, at random: what no signal looks like."""
        order = torch.randperm(len(self.rows), generator=rng, device=rng.device).to(self.rows.device)
        return torch.split(self.rows[order], [len(rows) for rows in self.members])

    def at_least(self, fewest: int) -> Groups:
        """Those of so many users."""
        return Groups(tuple(members for members in self.members if len(members) >= fewest))

    def largest(self, most: int) -> Groups:
        """At most so many, the largest."""
        kept = self.sizes.topk(min(most, len(self.members))).indices.sort().values.tolist()
        return Groups(tuple(self.members[number] for number in kept))

    def halves(self, rng: torch.Generator) -> tuple[Groups, Groups]:
        """At random, both with half of every group."""
        first, second = [], []
        for members in self.members:
            mixed = members[torch.randperm(len(members), generator=rng, device=rng.device).to(members.device)]
            first.append(mixed[: len(mixed) // 2])
            second.append(mixed[len(mixed) // 2 :])
        return Groups(tuple(first)), Groups(tuple(second))


def group_means(values: Tensor, number: Tensor, groups: int) -> Tensor:
    """Groups x ..., from values of users whose groups are `number`; zero for a group of nobody."""
    sums = values.new_zeros(groups, *values.shape[1:]).index_add_(0, number, values)
    sizes = torch.bincount(number, minlength=groups).clamp_min(1)
    return sums / sizes.reshape(-1, *[1] * (values.dim() - 1))


def mean_basis(target: Target, groups: Groups) -> Tensor:
    """Labelled users x k over `groups.rows`: what a mean may depend on, as orthonormal columns that each sum to zero.

    Contrasts of the classes, one less than there are; or polynomials in the ranks and values of a continuous attribute.
    """
    if target.n_classes:
        members = torch.nn.functional.one_hot(groups.number, len(groups.members)).float() / groups.sizes.sqrt()
        constant = groups.shares.sqrt()[:, None]  # the one combination of classes that is the same for everybody
        return members @ torch.linalg.qr(constant, mode="complete")[0][:, 1:]
    position = torch.empty(int(target.rows.max()) + 1, dtype=torch.long, device=target.rows.device)
    position[target.rows] = torch.arange(len(target.rows), device=target.rows.device)
    values = target.labels[position[groups.rows]].double()
    ranks = torch.argsort(torch.argsort(values)).double() / max(len(values) - 1, 1) * 2 - 1
    columns = [torch.ones_like(ranks), *(ranks**power for power in range(1, POLYNOMIALS + 1)), values, values**2]
    columns = columns[: max(2, min(len(columns), len(values) // 4))]
    basis, triangle = torch.linalg.qr(torch.stack(columns, 1))
    independent = triangle.diagonal().abs() > 1e-8 * math.sqrt(len(values))
    return basis[:, independent][:, 1:].float()


def _hermite(n: int, device: torch.device) -> Tensor:
    orders = max(order for order, fewest in FEWEST.items() if order <= ORDERS and n >= fewest)
    positions = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    scores = torch.special.ndtri(positions)
    powers = torch.stack([scores**order for order in range(orders + 1)], 1)
    basis = torch.linalg.qr(powers)[0] * math.sqrt(n)
    return (basis * basis[-1].sign()).float().to(device)  # every order grows towards the last rank
