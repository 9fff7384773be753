"""Remove attributes from a matrix together: `lego`'s engine, for one attribute (step 1) and for several (step 2).

Everything here is label-aware: users move with their group. Users without a label for an attribute are not moved for
it; `unsaying` edits them. Users move along directions the matrix already uses, and each step stops where chance
begins, so nothing is written where nobody looked before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from pydantic import Field
from torch import Tensor

from oblivec.calibration import left_out, networks
from oblivec.calibration.axes import axes_round
from oblivec.calibration.cells import even_cells, even_planes
from oblivec.calibration.clipping import clip_covariances, clip_means, clip_pairs, clip_variances
from oblivec.calibration.configured import Settings
from oblivec.calibration.geometry import Geometry
from oblivec.calibration.groups import COARSE_OR_FINE, Groups, mean_basis
from oblivec.calibration.lengths import deal_lengths
from oblivec.calibration.neighbourhoods import Memory, neighbourhood_round
from oblivec.calibration.planes import deal_planes
from oblivec.calibration.shared import shared_rows, without
from oblivec.calibration.slices import Slices
from oblivec.calibration.space import Space
from oblivec.calibration.telling import Look, Telling
from oblivec.calibration.waves import deal_out
from oblivec.console import progress
from oblivec.information.target import Target
from oblivec.randomness import torch_rng

NARROW, NARROWEST = 32, 8
"""Leading directions at which clipping and slices begin; both go on with twice as many, up to all. Among hundreds of
directions a signal that sits in the widest drowns in the noise of the rest."""

AXES_AMONG, NETWORKS_AMONG, WHITENED_AMONG = 32, 16, 64
"""Leading directions among which the axes that tell most are sought, and among which networks and machines that take
all directions alike look: among hundreds, most are noise to them."""

MEAN_SWEEPS = 2
"""Attributes hang together: the means of one are not at chance any more once another's have been brought there."""

SEARCHES_PER_CLIP = 4
"""Searches between two passes of clipping at most; one more ends the searches."""

ENOUGH_SEARCHES, LOUD_SEARCHES = 12, 2.0
"""After so many searches there are more only where an attribute's functions stand out by this many standard errors."""

STRONG, STRONG_PASSES = 0.05, 3
"""Cells that explain this share of who is in which group are dealt with first, several times: neighbourhoods inside a
cluster that leans would have to be torn apart to look even."""

FEWEST_ENDINGS, LOUD_NEIGHBOURS = 3, 2.0
"""Passes over neighbourhoods that are always made, and standard deviations of chance from which on there are more."""

APART = 0.1
"""Smallest eigenvalue of the columns' correlations at which columns are looked at one by one, or two by two. Where they
hang together more closely, moving one alone would write into the narrow directions between them."""


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
    endings: int = Field(16, ge=0)
    """Passes over neighbourhoods and clipping, in turn, after the last round; from the third on they end where no
    neighbourhood stands out."""
    settlings: int = Field(8, ge=0)
    """Looks by machines after those, to both sides of chance; they end before where nothing stands out."""
    networks: int = Field(20, ge=0)
    """Searches by networks, at the very end; they end before where nothing tells."""
    natural: float = Field(0.5, ge=0, le=1)
    """Geometry of the slices: 1 rotates the matrix as it is, 0 as whitened. As it is, what is noise along a wide
    direction is a large move along a narrow one, and writes there; whitened, what sits in the widest drowns."""


def remove(U: Tensor, targets: Sequence[Target], config: RemovalConfig, seed: int, label: str) -> Tensor:
    """U with every target at chance; rows as far from where they were as that takes."""
    space, shared = Space.of(U), shared_rows(U)
    targets = [target for target in (without(target, shared) for target in targets) if not target.is_constant]
    if space.dimensions == 0 or not targets:
        return U.clone()
    work = _Removal(space, targets, torch_rng(seed, "removal", label, device=U.device), config)
    X = space.encode(U)
    steps = config.clips + config.rounds + config.searches + config.endings + config.settlings + config.networks
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
            before, X = X, work.even(X, torch_rng(seed, "strong", label, number, device=U.device), STRONG)
            if torch.allclose(before, X, atol=1e-5):
                break
        for number in range(1, config.endings + 1):
            if number == min(FEWEST_ENDINGS, config.endings):  # what steps that move everybody a little could not do
                X = work.even(X, work.rng)
            X = work.clip(work.part_neighbours(work.deal(X)))
            tick()
            if number >= FEWEST_ENDINGS and work.neighbours_standing < LOUD_NEIGHBOURS:
                break
        for _ in range(config.settlings):
            X = work.settle(X)
            if not any(telling.loud for telling in (work.whitened, work.natural)):
                break
            tick()
        for _ in range(config.networks):
            X = work.ask_networks(X)
            if not work.telling_networks.loud:
                break
            tick()
        X = work.clip(work.deal(X, planes=True))
    return torch.where(shared[:, None], U, space.decode(X))


class _Removal:
    """The steps, each for all attributes, from coordinates to coordinates."""

    def __init__(self, space: Space, targets: Sequence[Target], rng: torch.Generator, config: RemovalConfig):
        self.targets, self.rng, self.step = targets, rng, config.step
        self.widths = _widths(NARROW, space.dimensions)
        self.scale, self.slice_scale, self.columns = space.scales(1), space.scales(config.natural), space.columns
        self.from_columns = torch.linalg.pinv(self.columns)
        self.geometries = _geometries(space, self.scale, self.from_columns)
        self.columns_are_apart = bool(torch.linalg.eigvalsh(self.columns.T @ self.columns)[0] >= APART)
        self.telling = Telling(left_out.by_machines, left_out.DOUBT)
        self.whitened = Telling(partial(left_out.by_machines, sharpness=left_out.SHARP), left_out.DOUBT)
        self.natural = Telling(_in_widths(left_out.by_machines, self.scale), left_out.DOUBT)
        self.telling_networks = Telling(_in_widths(networks.by_networks, self.scale), networks.DOUBT)
        self.slices = {width: [Slices(config.step) for _ in targets] for width in _widths(NARROWEST, space.dimensions)}
        self.parted = Memory()
        self.neighbours_standing = 0.0
        """How far neighbourhoods stood out when they were parted last."""
        self.classes = [Groups.by_class(target) if target.n_classes else None for target in targets]

    def groups(self) -> Iterator[tuple[Target, Groups]]:
        """Every attribute with its users in groups: those of its classes, or by rank, drawn anew."""
        for target, classes in zip(self.targets, self.classes, strict=True):
            yield target, classes or Groups.by_rank(target, self.rng)

    def coarse_or_fine(self) -> list[Groups]:
        """The same, those by rank drawn few or many: for steps that ask whether a group stands out."""
        return [classes or Groups.by_rank(target, self.rng, self._count())
                for target, classes in zip(self.targets, self.classes, strict=True)]

    def _count(self) -> int:
        return COARSE_OR_FINE[int(torch.randint(len(COARSE_OR_FINE), (), generator=self.rng, device=self.rng.device))]

    def clip(self, X: Tensor) -> Tensor:
        """Spreads first, from all directions to the leading ones; means have the last word."""
        for width in reversed(self.widths):
            for _, groups in self.groups():
                leading = clip_variances(clip_covariances(X[:, :width], groups, self.rng), groups)
                X = torch.cat([leading, X[:, width:]], dim=1)
        if self.columns_are_apart:
            X = self.in_columns(X, self.clip_columns)
        for _ in range(MEAN_SWEEPS):
            for width in self.widths:
                for target, groups in self.groups():
                    basis, columns = mean_basis(target, groups), self.columns[:width]
                    leading = clip_means(X[:, :width], groups, basis, columns, self.rng)
                    X = torch.cat([leading, X[:, width:]], dim=1)
        return X

    def clip_columns(self, Z: Tensor) -> Tensor:
        for _, groups in self.groups():
            Z = clip_pairs(Z, groups)
        return Z

    def deal(self, X: Tensor, *, fine_only: bool = False, planes: bool = False) -> Tensor:
        """Single directions and single columns, in every detail; where asked for, `planes` of two of them, which take
        longest to look at; and lengths, which `fine_only` leaves to later."""
        for _, groups in self.groups():
            X = self.in_both(X, partial(deal_out, groups=groups, rng=self.rng, fine_only=fine_only))
            if planes:
                X = self.in_both(X, partial(deal_planes, groups=groups, rng=self.rng))
            if not fine_only:
                X = self.deal_lengths(X, partial(deal_lengths, groups=groups, rng=self.rng))
        return X

    def deal_lengths(self, X: Tensor, dealt: Callable[[Tensor], Tensor]) -> Tensor:
        """As attackers measure them: in natural widths, in columns, and with directions all alike."""
        X = self.in_columns(self.in_widths(X, dealt), dealt)
        for width in sorted({X.shape[1], min(WHITENED_AMONG, X.shape[1])}):
            X = torch.cat([dealt(X[:, :width]), X[:, width:]], dim=1)
        return X

    def slice(self, X: Tensor) -> Tensor:
        """From all directions to the leading ones."""
        for width, slices in reversed(self.slices.items()):
            scale = self.slice_scale[:width]
            for transport, (_, groups) in zip(slices, self.groups(), strict=True):
                leading = transport.round(X[:, :width] * scale, groups, self.rng) / scale
                X = torch.cat([leading, X[:, width:]], dim=1)
        return X

    def search(self, X: Tensor, *, everything: bool) -> Tensor:
        """Along the functions that tell most, and along single axes, which a function of all directions drowns.

        Axes are sought for `everything`, or for the attributes whose functions tell something.
        """
        attributes = self.coarse_or_fine()
        X = self.telling.round(X * self.scale, attributes, self.rng) / self.scale
        width = min(AXES_AMONG, X.shape[1])
        for number in range(len(attributes)) if everything else self.telling.loud:
            leading = axes_round(X[:, :width] * self.scale[:width], attributes[number], self.step, self.rng)
            X = torch.cat([leading / self.scale[:width], X[:, width:]], dim=1)
        return X

    def settle(self, X: Tensor) -> Tensor:
        """Along what machines find, which take all leading directions alike, or as wide as they are.

        Parting neighbours takes users far along narrow directions: whoever whitens the matrix would read what was
        removed with its sign turned.
        """
        attributes = self.coarse_or_fine()
        return self._tell(self.natural, self._tell(self.whitened, X, attributes, WHITENED_AMONG), attributes)

    def ask_networks(self, X: Tensor) -> Tensor:
        """Along what networks find among the leading directions."""
        return self._tell(self.telling_networks, X, self.coarse_or_fine(), NETWORKS_AMONG)

    def _tell(self, telling: Telling, X: Tensor, attributes: Sequence[Groups], width: int | None = None) -> Tensor:
        leading = X[:, :width]
        return torch.cat([telling.round(leading, attributes, self.rng), X[:, leading.shape[1] :]], dim=1)

    @property
    def is_quiet(self) -> bool:
        return not self.telling.loud

    def even(self, X: Tensor, rng: torch.Generator, least: float = 0.0) -> Tensor:
        for _, groups in self.groups():
            X = even_cells(X * self.scale, groups, rng, least) / self.scale
            if self.columns_are_apart:
                X = self.in_columns(X, partial(even_planes, groups=groups, rng=rng, least=least))
        return X

    def part_neighbours(self, X: Tensor) -> Tensor:
        """In all geometries together."""
        attributes = self.coarse_or_fine()
        X, self.neighbours_standing = neighbourhood_round(X, self.geometries, attributes, self.rng, self.parted)
        return X

    def in_both(self, X: Tensor, step: Callable[[Tensor], Tensor]) -> Tensor:
        """A step done on coordinates, then on the matrix's own columns where these are apart."""
        X = step(X)
        return self.in_columns(X, step) if self.columns_are_apart else X

    def in_widths(self, X: Tensor, step: Callable[[Tensor], Tensor]) -> Tensor:
        """A step done on directions as wide as they are."""
        return _seen_as(X, torch.diag(self.scale), torch.diag(1 / self.scale), step)

    def in_columns(self, X: Tensor, step: Callable[[Tensor], Tensor]) -> Tensor:
        """A step done on the matrix's own columns."""
        return _seen_as(X, self.columns, self.from_columns, step)


def _geometries(space: Space, scale: Tensor, from_columns: Tensor) -> list[Geometry]:
    """In which neighbours are parted: as the matrix is, and as attackers see it who scale its columns; where rows are
    taken apart, also as those do who compare directions, near and wide."""
    geometries = [Geometry(torch.diag(scale), torch.diag(1 / scale)), Geometry(space.columns, from_columns)]
    if space.typical:
        geometries += [Geometry(*space.rows), Geometry(*space.rows, sparse=True)]
    return geometries


def _seen_as(X: Tensor, geometry: Tensor, back: Tensor, step: Callable[[Tensor], Tensor]) -> Tensor:
    """X after a step in another geometry; what that does not show stays."""
    seen = X @ geometry
    return X + (step(seen) - seen) @ back


def _in_widths(look: Look, scale: Tensor) -> Look:
    """The look at directions in these widths, for users who move in coordinates: whatever is learned has some slope in
    every direction, and along a narrow one, where it means nothing, users would be taken far."""

    def seen(X: Tensor, attributes: Sequence[Groups], rng: torch.Generator) -> tuple[list[Tensor], list[Tensor]]:
        width = scale[: X.shape[1]]
        values, gradients = look(X * width, attributes, rng)
        return values, [gradient * width for gradient in gradients]

    return seen


def _widths(width: int, dimensions: int) -> list[int]:
    widths = []
    while width < dimensions:
        widths.append(width)
        width *= 2
    return [*widths, dimensions]
