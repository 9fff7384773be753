"""The label-free edit: take from a matrix what it says of its users, whatever their labels are.

What others' labels let one say of a user (`said`) is all that an attacker can learn from that user's row, as far as the
labels known here go. These scores are taken once, from the original, and carried along: rows may move until nothing in
them predicts the scores any more. What is linear goes at once. Then machines regress the scores on the rows, every user
left out of what is said about it, and everybody goes down the gradient as far as its own score says: to first order,
where the machines' covariance with the scores is zero. In between, spreads that go with a score are evened (`spreads`):
machines that weigh all directions together hardly see what two of them hold.

Nobody's own label is asked, so the difference to the original says no more about a user than the original did, given
the labels of the others. Users without a label are edited like everybody else. It is an edit of the matrix as it
stands, not a function that could be kept: users who come later take part in the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from pydantic import Field
from torch import Tensor

from oblivec.calibration.configured import Settings
from oblivec.calibration.coordinates import Coordinates
from oblivec.calibration.left_out import SHARP, SHARPNESS, TOGETHER, Machine
from oblivec.calibration.said import AMONG, scores
from oblivec.calibration.shared import shared_rows, without
from oblivec.calibration.space import Space
from oblivec.calibration.spreads import without_spreads
from oblivec.console import progress
from oblivec.engines.local import in_threads
from oblivec.information.target import Target
from oblivec.randomness import torch_rng

LOOKS = (0.0, AMONG, SHARP, 0.1), (1.0, None, SHARPNESS, 0.03)
"""In turn: the leading directions all alike, and every one as wide as it is; the machines' sharpness and ridge."""
ROUNDS_PER_SPREAD = 4
"""Rounds from one evening of spreads to the next; the first round is followed by one."""
LONGEST = 0.3
"""How far a user may go in a round, as a share of a typical user's distance from the mean."""


class UnsayingConfig(Settings):
    unsayings: int = Field(10, ge=0)
    """Rounds of the label-free edit, after what is linear."""


def unsay(U: Tensor, targets: Sequence[Target], config: UnsayingConfig, seed: int, label: str) -> Tensor:
    """U with what it says about these attributes taken from everybody, with a label or without.

    Users who share a row with many others stay together, where they are.
    """
    shared = shared_rows(U)
    coordinates, X = Coordinates.of(U, ~shared, torch_rng(seed, "ties", label, device=U.device))
    space = coordinates.space
    known = [target for target in (without(target, shared) for target in targets) if not target.is_constant]
    if space.dimensions == 0 or not known:
        return U.clone()
    rng = torch_rng(seed, "unsaying", label, device=U.device)
    moving = torch.nonzero(~shared)[:, 0]
    said = scores(space.encode(U), known, space, rng, moving)

    def edit(X: Tensor, number: int) -> Tensor:
        rows = X[moving]
        if number:
            rows = _without_linear(_round(rows, said, space, LOOKS[(number - 1) % len(LOOKS)], rng), said)
        if number % ROUNDS_PER_SPREAD == 1:
            rows = without_spreads(rows, said, rng)
        return X.index_copy(0, moving, _without_linear(rows, said))

    with progress(f"Unsaying {label}", config.unsayings) as tick:
        for number in range(config.unsayings + 1 if said.shape[1] else 0):
            X = coordinates.as_released(X, partial(edit, number=number))
            tick()
    return torch.where(shared[:, None], U, coordinates.decode(X))


def _without_linear(X: Tensor, said: Tensor) -> Tensor:
    """X without what is linear in the scores, which are centred, uncorrelated and of unit variance."""
    return X - said @ (said.T @ X) / len(X)


def _round(
    X: Tensor, said: Tensor, space: Space, look: tuple[float, int | None, float, float], rng: torch.Generator
) -> Tensor:
    natural, width, sharpness, ridge = look
    scale = space.scales(natural)[:width]
    limit = LONGEST * len(scale) ** 0.5
    order = torch.randperm(len(X), generator=rng, device=rng.device).to(X.device)
    moved = X.clone()

    def take(users: Tensor) -> None:
        machine, own = Machine.of(X[users, :width] * scale, sharpness, ridge), said[users]
        values, gradients = machine.left_out(own)
        move = torch.zeros_like(machine.rows)
        for value, gradient, score in zip(values.T, gradients, own.T, strict=True):
            slope = gradient * scale
            fall = (score.square() * slope.square().sum(1)).mean().clamp_min(1e-12)
            move += ((value * score).mean() / fall * score)[:, None] * slope
        moved[users, :width] -= move * (limit / move.norm(dim=1, keepdim=True).clamp_min(limit))

    in_threads(take, order.tensor_split(math.ceil(len(X) / TOGETHER)))
    return moved
