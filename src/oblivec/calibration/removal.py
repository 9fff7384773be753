"""Remove attributes from a matrix together: `lego`'s engine, for one attribute (step 1) and for several (step 2).

Everything here is label-aware: users move with their group. Users without a label for an attribute are not moved for
it; `unsaying` edits them. Users move along directions the matrix already uses, and each step stops where chance
begins, so nothing is written where nobody looked before.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from pydantic import Field
from torch import Tensor

from oblivec.calibration.configured import Settings
from oblivec.calibration.coordinates import Coordinates
from oblivec.calibration.shared import shared_rows, without
from oblivec.calibration.steps import Steps
from oblivec.console import progress
from oblivec.information.target import Target
from oblivec.randomness import torch_rng

SEARCHES_PER_CLIP = 4
"""Searches between two passes of clipping at most; one more ends the searches."""

ENOUGH_SEARCHES, LOUD_SEARCHES = 12, 2.0
"""After so many searches there are more only where an attribute's functions stand out by this many standard errors."""

STRONG_PASSES = 3
"""Cells that lean strongly are dealt with first, several times: neighbourhoods inside a cluster that leans would have
to be torn apart to look even."""

FEWEST_ENDINGS, LOUD_NEIGHBOURS = 3, 2.0
"""Passes over neighbourhoods that are always made, and standard deviations of chance from which on there are more."""

QUIET_LOOKS = 2
"""Looks by networks, one after the other, in which nothing tells before they end: one may be quiet by chance."""


class RemovalConfig(Settings):
    clips: int = Field(2, ge=0)
    """Passes of clipping before the first slice: attributes that hang together need more than one."""
    rounds: int = Field(30, ge=0)
    """Rounds of sliced transport, each with fresh rotations for every attribute and number of leading directions."""
    step: float = Field(0.5, gt=0, le=1)
    """How far a round goes towards the common shape."""
    clip_every: int = Field(10, ge=1)
    """Rounds between two passes of clipping; one more ends the rounds."""
    searches: int = Field(30, ge=0)
    """Searches for the functions and axes that tell most, after the last round; they end before where nothing tells,
    from the twelfth on where little does."""
    regions: int = Field(30, ge=0)
    """Searches by regions after those; they end before where nothing tells."""
    endings: int = Field(16, ge=0)
    """Passes over neighbourhoods and clipping, in turn, after the last round; from the third on they end where no
    neighbourhood stands out."""
    settlings: int = Field(8, ge=0)
    """Looks by machines after those, to both sides of chance; they end before where nothing stands out."""
    thresholds: int = Field(30, ge=0)
    """Searches by thresholds of columns after those; they end before where nothing tells."""
    networks: int = Field(20, ge=0)
    """Searches by networks, at the very end; they end before where nothing tells, twice."""
    natural: float = Field(0.5, ge=0, le=1)
    """Geometry of the slices: 1 rotates the matrix as it is, 0 as whitened. As it is, what is noise along a wide
    direction is a large move along a narrow one, and writes there; whitened, what sits in the widest drowns."""


def remove(U: Tensor, targets: Sequence[Target], config: RemovalConfig, seed: int, label: str) -> Tensor:
    """U with every target at chance; rows as far from where they were as that takes."""
    shared = shared_rows(U)
    coordinates, X = Coordinates.of(U, ~shared, torch_rng(seed, "ties", label, device=U.device))
    targets = [target for target in (without(target, shared) for target in targets) if not target.is_constant]
    if coordinates.space.dimensions == 0 or not targets:
        return U.clone()
    rng = torch_rng(seed, "removal", label, device=U.device)
    work = Steps(coordinates, targets, rng, config.step, config.natural)
    looks = config.searches + config.regions + config.settlings + config.thresholds + config.networks
    steps = config.clips + config.rounds + config.endings + looks
    with progress(f"Removing {label}", steps) as tick:
        X = work.deal(X, fine_only=True)
        for _ in range(config.clips):
            X = work.clip(X)
            tick()
        for number in range(1, config.rounds + 1):
            X = work.slice(X)
            if number % config.clip_every == 0 or number == config.rounds:
                X = work.clip(X)
            tick()
        since_clipping = 0
        for number in range(config.searches):
            X = work.deal(X, planes=number == 0) if since_clipping == 0 else X
            X, since_clipping = work.search(X, everything=since_clipping == 0), since_clipping + 1
            tick()
            if work.is_quiet and since_clipping == 1:
                break
            if number + 1 >= ENOUGH_SEARCHES and work.telling.loudness < LOUD_SEARCHES:
                break
            if work.is_quiet or since_clipping == SEARCHES_PER_CLIP:
                X, since_clipping = work.clip(X), 0
        X = work.clip(X) if since_clipping else X
        for number in range(STRONG_PASSES if config.endings else 0):
            before, X = X, work.even(X, torch_rng(seed, "strong", label, number, device=U.device))
            if torch.allclose(before, X, atol=1e-5):
                break
        for number in range(1, config.regions + 1):
            X = work.ask_regions(X)
            if not work.regions_tell:
                break
            X = work.clip(X) if number % SEARCHES_PER_CLIP == 0 else X
            tick()
        for number in range(1, config.endings + 1):
            if number == min(FEWEST_ENDINGS, config.endings):
                X = work.even_weak_planes(X)
            X = work.clip(work.part_neighbours(work.deal(X)))
            tick()
            if number >= FEWEST_ENDINGS and work.neighbours_standing < LOUD_NEIGHBOURS:
                break
        for _ in range(config.settlings):
            X = work.settle(X)
            if work.is_settled:
                break
            tick()
        for number in range(1, config.thresholds + 1):
            X = work.ask_thresholds(X)
            if not work.thresholds_tell:
                break
            X = work.clip(work.deal(X)) if number % SEARCHES_PER_CLIP == 0 else X
            tick()
        quiet = 0
        for _ in range(config.networks):
            X = work.ask_networks(X)
            quiet = 0 if work.networks_tell else quiet + 1
            if quiet == QUIET_LOOKS:
                break
            tick()
        X = work.clip(work.deal(X, planes=True))
        if coordinates.ties.columns:
            X = coordinates.as_released(X, work.clip)
    return torch.where(shared[:, None], U, coordinates.decode(X))
