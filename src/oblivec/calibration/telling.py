"""Move along the functions that tell most.

Means, spreads, every axis and every neighbourhood can be at chance while a function of many directions together still
tells the groups apart; among hundreds of directions, attackers find such functions. Here one is sought for every group,
by kernel machines (`left_out`) or by networks (`networks`), and a user's value is what a machine says that has not seen
that user: what was learned by heart does not count. Then all of the group's users go down the gradient of those values,
by half of the Newton step that would take the group to where the others are: a function leans on other users, and those
move as well, so that whole steps overshoot and write what they should remove. What tells is spread over many
functions: it takes many such searches, each a small move.

What is left to go is known only roughly from one function, but much the same for the next one: the running mean over
functions is what counts, whatever its sign. For an attribute that does not stand out nobody moves, and no gradient is
asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from oblivec.calibration.groups import Groups, group_means


@dataclass(frozen=True)
class Sight:
    """What was found by a look, of every user by what has not seen that user."""

    values: Sequence[Tensor]
    """Per attribute, users x groups: how far each is taken for a member of each group."""
    gradient: Callable[[int], Tensor]
    """Of an attribute by its number, users x d: that of the value of the user's own group. Dear to get, often."""


Look = Callable[[Tensor, Sequence[Groups], torch.Generator], Sight]
"""From rows and attributes to what tells."""
MEMORY = 0.5
"""How much of the running mean a function leaves as it was."""
STEADY = ((1 - MEMORY) / (1 + MEMORY)) ** 0.5
"""Spread of the running mean by chance, where one function's is 1."""
QUIET = 1.25
"""Standard errors of the running mean, over an attribute's groups, up to which nothing stands out: chance gives 0.6,
and 1 at the first look."""
HALF_WAY = 0.5
"""What a user's own move does to its value, the moves of the users that its function leans on do once more."""
LONGEST = 0.05
"""How far a group may move along a function, as a share of the rows' length: beyond, gradients have turned."""
FEWEST = 4
"""Users a group needs; smaller groups stay out of it."""


@dataclass
class Telling:
    """Repeated rounds for several attributes. `standing` is how far their groups stand out, in standard errors."""

    look: Look
    doubt: float
    """The variance of a group's mean value by chance, as a multiple of that of independent values."""
    share: float = HALF_WAY
    """Of a Newton step."""
    steady: bool = False
    """Whether a first look counts no more than a running mean does: for looks that are dear and seldom find much."""
    standing: dict[int, Tensor] = field(default_factory=dict)

    @property
    def loud(self) -> list[int]:
        """The attributes whose functions of late told something."""
        return [number for number, one in self.standing.items() if _loudness(one) >= QUIET]

    @property
    def loudness(self) -> float:
        """How far the attribute stands out that does so most."""
        return max(map(_loudness, self.standing.values()), default=0.0)

    def round(self, X: Tensor, attributes: Sequence[Groups], rng: torch.Generator) -> Tensor:
        """X after a move along the functions of every attribute that they tell anything of."""
        large = [groups.at_least(FEWEST) for groups in attributes]
        self.standing |= {number: X.new_zeros(1) for number, groups in enumerate(large) if len(groups.members) < 2}
        sought = {number: groups for number, groups in enumerate(large) if len(groups.members) > 1}
        if not sought or X.shape[1] == 0:
            return X
        sight = self.look(X, list(sought.values()), rng)
        rates = [
            self._rate(number, groups, values[groups.rows])
            for (number, groups), values in zip(sought.items(), sight.values, strict=True)
        ]
        moved, loud = X.clone(), self.loud
        for place, ((number, groups), rate) in enumerate(zip(sought.items(), rates, strict=True)):
            if number in loud:
                moved[groups.rows] -= _step(groups, rate, sight.gradient(place)[groups.rows], X[groups.rows])
        return moved

    def _rate(self, number: int, groups: Groups, values: Tensor) -> Tensor:
        """How much of its value every group is to lose, from the members' values."""
        left = 1 - groups.shares
        means = group_means(values, groups.number, len(groups.members))
        ahead = (means.diagonal() - values.mean(0)) / left
        error = (self.doubt * values.var(0) / (groups.sizes * left)).sqrt().clamp_min(1e-30)
        standing, before = ahead / error, self.standing.get(number)
        if before is not None and before.shape == standing.shape:
            standing = torch.lerp(standing, before, MEMORY)
        elif self.steady:
            standing = standing * STEADY
        self.standing[number] = standing
        return self.share * standing * error * left  # the others come to meet it


def _step(groups: Groups, rate: Tensor, gradients: Tensor, X: Tensor) -> Tensor:
    """What to take from the members' rows X for their groups to lose so much, from their gradients."""
    steepness = group_means(gradients.square().sum(1, keepdim=True), groups.number, len(rate))[:, 0]
    rate = rate / steepness.clamp_min(1e-30)
    length = X.square().sum(1).mean().sqrt()
    rate = rate * (LONGEST * length / (rate.abs() * steepness.sqrt()).clamp_min(1e-30)).clamp(max=1)
    return rate[groups.number][:, None] * gradients


def _loudness(standing: Tensor) -> float:
    return float(standing.square().mean().sqrt())
