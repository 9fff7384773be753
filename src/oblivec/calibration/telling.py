"""Move along the functions that tell most: kernel machines fitted on one half of the users, judged on the other.

Means, spreads, every axis and every neighbourhood can be at chance while a function of many directions together still
tells the groups apart; among hundreds of directions, networks find such functions. Here a kernel machine seeks one for
every group. How far each group stands out along its function is judged on users who had no part in it, so that what was
learned by heart is not seen. Then all of the group's users go down the gradient, by the Newton step that takes the
group to where the others are, and the halves change places.

What is left to go is known only roughly from one function, but much the same for the next one: the running mean over
functions is what counts, whatever its sign.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from oblivec.calibration.dense import gram
from oblivec.calibration.groups import Groups, group_means
from oblivec.engines.local import in_threads

SHARPNESS = 0.7
"""Of the Gaussian kernel, at the median squared distance between users who differ."""
RIDGE = 0.03
"""Little: what is left to find is weak along all that is smooth."""
CENTRES, SOUGHT = 1024, 4096
"""Kernels a function is a sum of, and users it is fitted on, at most: work is linear in N."""
MEMORY = 0.7
"""How much of the running mean a function leaves as it was."""
QUIET = 0.6
"""Standard errors of the running mean, over all groups, up to which nothing stands out: chance gives about 0.4."""
LONGEST = 0.05
"""How far a group may move along a function, as a share of the rows' length: beyond, gradients have turned."""
FEWEST = 2
"""Users a group needs in each half; smaller groups stay out of it."""
SAME = 1e-6
"""Squared distance, as a share of the rows' squared length, up to which two rows are the same but for rounding."""
CHUNK = 1024


@dataclass
class Telling:
    """Repeated rounds for one attribute. `standing` is how far its groups stand out, in standard errors."""

    step: float
    standing: Tensor | None = field(default=None)

    @property
    def quiet(self) -> bool:
        """Whether the functions of late told nothing."""
        return self.standing is not None and bool(self.standing.square().mean().sqrt() < QUIET)

    def round(self, X: Tensor, groups: Groups, rng: torch.Generator) -> Tensor:
        """X after a move along the functions that either half finds."""
        groups = groups.at_least(2 * FEWEST)
        if len(groups.members) < 2 or X.shape[1] == 0:
            return X
        halves = groups.halves(rng)
        for sought, judged in (halves, halves[::-1]):
            X = self._along(_Functions.fit(X, sought, rng), X, groups, judged)
        return X

    def _along(self, functions: _Functions, X: Tensor, groups: Groups, judged: Groups) -> Tensor:
        values, gradients = functions(X, groups)
        left = 1 - groups.shares
        seen = values[judged.rows]
        means = group_means(seen, judged.number, len(judged.members))
        ahead = (means.diagonal() - seen.mean(0)) / left
        error = (seen.var(0) / (judged.sizes * left)).sqrt().clamp_min(1e-30)
        standing = ahead / error
        if self.standing is not None and self.standing.shape == standing.shape:
            standing = torch.lerp(standing, self.standing, MEMORY)
        self.standing = standing
        steepness = group_means(gradients[groups.rows].square().sum(1, keepdim=True), groups.number, len(left))[:, 0]
        rate = self.step * standing * error * left / steepness.clamp_min(1e-30)  # the others come to meet it
        length = X[groups.rows].square().sum(1).mean().sqrt()
        rate = rate * (LONGEST * length / (rate.abs() * steepness.sqrt()).clamp_min(1e-30)).clamp(max=1)
        moved = X.clone()
        moved[groups.rows] -= rate[groups.number][:, None] * gradients[groups.rows]
        return moved


@dataclass(frozen=True)
class _Functions:
    """One for every group: a sum of Gaussian kernels, large on its users and small on the others."""

    centres: Tensor
    sharpness: Tensor
    weights: Tensor

    @classmethod
    def fit(cls, X: Tensor, groups: Groups, rng: torch.Generator) -> _Functions:
        """Ridge regression on who is in which group, every group counting alike."""
        count = len(groups.members)
        chosen = torch.randperm(len(groups.rows), generator=rng, device=rng.device)[:SOUGHT].to(X.device)
        rows = X[groups.rows[chosen]]
        centres = rows[:CENTRES]
        functions = cls(centres, SHARPNESS / _typical_square(centres), X.new_zeros(len(centres), count))
        balance = (1 / (count * groups.shares))[groups.number[chosen], None].double()
        wanted = F.one_hot(groups.number[chosen], count).double() - 1 / count
        seen, own = functions.kernels(rows).double(), functions.kernels(centres).double()
        normal = sum(in_threads(gram, (seen * balance.sqrt()).split(CHUNK)), RIDGE * own)
        normal.diagonal().add_(1e-6 * len(rows))
        weights = torch.cholesky_solve(seen.T @ (wanted * balance), torch.linalg.cholesky(normal))
        return cls(centres, functions.sharpness, weights.to(X.dtype))

    def kernels(self, X: Tensor) -> Tensor:
        return torch.exp(-self.sharpness * torch.cdist(X, self.centres).square())

    def __call__(self, X: Tensor, groups: Groups) -> tuple[Tensor, Tensor]:
        """Everybody's value of every group's function, and the gradient of the one of its own group."""
        values, gradients = X.new_zeros(len(X), self.weights.shape[1]), torch.zeros_like(X)

        def look(part: slice) -> None:
            rows, number = groups.rows[part], groups.number[part]
            kernels = self.kernels(X[rows])
            values[rows] = kernels @ self.weights
            kernels *= self.weights.T[number]
            towards = kernels @ self.centres - kernels.sum(1, keepdim=True) * X[rows]
            gradients[rows] = 2 * self.sharpness * towards

        in_threads(look, [slice(start, start + CHUNK) for start in range(0, len(groups.rows), CHUNK)])
        return values, gradients


def _typical_square(rows: Tensor) -> Tensor:
    """Median squared distance between rows. Equal rows do not count: of users with no history there may be many."""
    squares = torch.cdist(rows, rows).square()
    floor = SAME * rows.square().sum(1).mean() + 1e-30
    apart = squares[squares > floor]
    return apart.median() if len(apart) else floor
