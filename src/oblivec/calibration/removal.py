"""Remove attributes from a matrix together: `lego`'s engine, for one attribute (step 1) and for several (step 2).

Everything here is label-aware: users move with their group. Users without a label for an attribute are not moved for
it; `flow` has a map for them. No gradients and no network, so nothing is written where the matrix did not look before.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from pydantic import Field
from torch import Tensor

from oblivec.calibration.cells import even_cells, even_planes
from oblivec.calibration.clipping import clip_covariances, clip_means, clip_pairs, clip_variances
from oblivec.calibration.configured import Settings
from oblivec.calibration.groups import Groups, mean_basis
from oblivec.calibration.neighbourhoods import neighbourhood_round
from oblivec.calibration.slices import Slices
from oblivec.calibration.space import Space
from oblivec.console import progress
from oblivec.information.target import Target
from oblivec.randomness import torch_rng

NARROW = 32
"""Leading directions at which clipping begins; it goes on with twice as many, up to all. Among hundreds of directions a
signal that sits in the widest drowns in the noise of the rest."""

MEAN_SWEEPS = 2
"""Attributes hang together: the means of one are not at chance any more once another's have been brought there."""

STRONG, STRONG_PASSES = 0.05, 3
"""Cells that explain this share of who is in which group are dealt with first, several times: neighbourhoods inside a
cluster that leans would have to be torn apart to look even."""


class RemovalConfig(Settings):
    clips: int = Field(2, ge=0)
    """Passes of clipping before the first slice: attributes that hang together need more than one."""
    rounds: int = Field(60, ge=0)
    """Rounds of sliced transport, each with a fresh rotation for every attribute."""
    step: float = Field(0.5, gt=0, le=1)
    """How far a round goes towards the common shape."""
    clip_every: int = Field(10, ge=1)
    """Rounds between two passes of clipping; one more ends the work."""
    endings: int = Field(3, ge=0)
    """Passes over neighbourhoods and clipping, in turn, after the last round."""
    natural: float = Field(1.0, ge=0, le=1)
    """Geometry of the slices: 1 rotates the matrix as it is, 0 as whitened. Clipping looks at all directions alike."""


def remove(U: Tensor, targets: Sequence[Target], config: RemovalConfig, seed: int, label: str) -> Tensor:
    """U with every target at chance; rows as far from where they were as that takes."""
    space = Space.of(U)
    targets = [target for target in targets if not target.is_constant]
    if space.dimensions == 0 or not targets:
        return U.clone()
    rng = torch_rng(seed, "removal", label, device=U.device)
    X, scale, columns = space.encode(U), space.scales(config.natural), space.columns
    back = torch.linalg.pinv(columns)
    slices = [Slices(config.step) for _ in targets]
    fixed = [Groups.by_class(target) if target.n_classes else None for target in targets]

    def grouped(number: int) -> Groups:
        return fixed[number] or Groups.by_rank(targets[number], rng)

    def clip(X: Tensor) -> Tensor:
        widths = _widths(space.dimensions)
        for width in reversed(widths):
            for number in range(len(targets)):
                groups = grouped(number)
                leading = clip_variances(clip_covariances(X[:, :width], groups, rng), groups)
                X = torch.cat([leading, X[:, width:]], dim=1)
        seen = X @ columns
        for number in range(len(targets)):
            seen = clip_pairs(seen, grouped(number))
        X = X + (seen - X @ columns) @ back
        for _ in range(MEAN_SWEEPS):
            for width in widths:
                for number, target in enumerate(targets):
                    groups = grouped(number)
                    leading = clip_means(X[:, :width], groups, mean_basis(target, groups), rng)
                    X = torch.cat([leading, X[:, width:]], dim=1)
        return X

    def spread(X: Tensor, rng: torch.Generator, least: float) -> Tensor:
        for number in range(len(targets)):
            groups = grouped(number)
            X = even_cells(X * scale, groups, rng, least) / scale
            seen = X @ columns
            X = X + (even_planes(seen, groups, rng, least) - seen) @ back
        return X

    with progress(f"Removing {label}", config.clips + config.rounds + config.endings) as tick:
        for _ in range(config.clips):
            X = clip(X)
            tick()
        for number in range(config.rounds):
            for which, transport in enumerate(slices):
                X = transport.round(X * scale, grouped(which), rng) / scale
            if (number + 1) % config.clip_every == 0 or number + 1 == config.rounds:
                X = clip(X)
            tick()
        for number in range(STRONG_PASSES if config.endings else 0):
            before, X = X, spread(X, torch_rng(seed, "strong", label, number, device=U.device), STRONG)
            if torch.allclose(before, X, atol=1e-5):
                break
        for number in range(config.endings):
            if number + 1 == config.endings:  # what steps that move everybody a little could not do
                X = spread(X, rng, 0.0)
            for geometry, inverse in ((torch.diag(scale), torch.diag(1 / scale)), (columns, back)):
                seen = X @ geometry
                groups = [grouped(number) for number in range(len(targets))]
                X = X + (neighbourhood_round(seen, groups, rng) - seen) @ inverse
            X = clip(X)
            tick()
    return space.decode(X)


def _widths(dimensions: int) -> list[int]:
    widths = []
    width = NARROW
    while width < dimensions:
        widths.append(width)
        width *= 2
    return [*widths, dimensions]
