"""What regions of the matrix tell: users lie more densely in some places than in others, and a group may lean to some.

Centres are those of a k-means, drawn anew for every look; a user belongs to several of them, to the nearest most. A
function of these memberships, one for every group, is fitted by least squares and asked about every user as if it had
never seen that one, in closed form. Kernel machines, which may be wide or narrow but are so everywhere, see little of
it: among as many functions as users the few that follow the density drown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from oblivec.calibration.groups import Groups
from oblivec.calibration.left_out import wanted_of
from oblivec.calibration.telling import Sight

CENTRES = (32, 128)
"""Regions come coarse and fine; what both say of a user counts together."""
FEWEST_PER_CENTRE = 20
"""Users for each centre: fewer users, fewer centres."""
SHARPNESS = 4.0
"""How much more a user belongs to its nearest centre than to the next, typically: exp(this) times."""
RIDGE = 1.0
"""In users: little beside those of any centre."""
LARGEST_SAMPLE = 20_000
"""Users the centres are made from."""


def by_regions(X: Tensor, attributes: Sequence[Groups], rng: torch.Generator) -> Sight:
    """What memberships say of users left out; zero for users of no attribute."""
    values = [X.new_zeros(len(X), len(groups.members)) for groups in attributes]
    users = torch.cat([groups.rows for groups in attributes]).unique()
    counts = sorted({min(count, len(users) // FEWEST_PER_CENTRE) for count in CENTRES} - {0, 1})
    numbers = [groups.of_all(len(X))[users] for groups in attributes]
    regions = [Regions.of(X[users], count, rng) for count in counts]
    fits = [
        [one.without_each(number, groups.shares) for one in regions]
        for number, groups in zip(numbers, attributes, strict=True)
    ]
    for value, several in zip(values, fits, strict=True):
        for fit, _ in several:
            value[users] += fit

    def gradient(attribute: int) -> Tensor:
        found = torch.zeros_like(X)
        for one, (_, weights) in zip(regions, fits[attribute], strict=True):
            found[users] += one.slopes(weights)
        return found

    return Sight(values, gradient)


@dataclass(frozen=True)
class Regions:
    centres: Tensor
    """Centres x d."""
    member: Tensor
    """Users x centres, each row summing to one."""
    per_square: Tensor
    """By how much a squared distance counts."""

    @classmethod
    def of(cls, rows: Tensor, count: int, rng: torch.Generator) -> Regions:
        centres = k_means(rows, count, rng)
        squares = torch.cdist(rows, centres).square()
        nearest = squares.topk(2, dim=1, largest=False).values
        per_square = SHARPNESS / (nearest[:, 1] - nearest[:, 0]).median().clamp_min(1e-30)
        return cls(centres, (-per_square * squares).softmax(1), per_square)

    def without_each(self, number: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
        """Users x groups, everybody's value of every group's function, fitted without that user; and users x centres,
        the weights of the function of the user's own group, fitted so. `number` -1 is in no group."""
        inside, own = (number >= 0)[:, None], number.clamp_min(0)[:, None]
        shown = self.member * inside
        wanted = wanted_of(number, shares)
        inverse = torch.linalg.inv(shown.T @ shown + RIDGE * torch.eye(shown.shape[1], device=shown.device))
        weights = inverse @ (shown.T @ wanted)
        spread = shown @ inverse
        change = (wanted - shown @ weights) / (1 - (spread * shown).sum(1, keepdim=True))
        return wanted - change, (weights.T[own[:, 0]] - spread * change.gather(1, own)) * inside

    def slopes(self, weights: Tensor) -> Tensor:
        """Users x d: gradients of functions with these weights, one row for each user."""
        pull = self.member * weights
        return 2 * self.per_square * (pull @ self.centres - pull.sum(1, keepdim=True) * (self.member @ self.centres))


def k_means(rows: Tensor, count: int, rng: torch.Generator) -> Tensor:
    """Centres x d."""
    from sklearn.cluster import KMeans

    sample = rows[torch.randperm(len(rows), generator=rng, device=rng.device)[:LARGEST_SAMPLE].to(rows.device)]
    seed = int(torch.randint(2**31 - 1, (), generator=rng, device=rng.device))
    fitted = KMeans(count, n_init="auto", random_state=seed).fit(sample.cpu().numpy())
    return torch.as_tensor(fitted.cluster_centers_, dtype=rows.dtype, device=rows.device)
