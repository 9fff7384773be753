"""The steps that remove attributes, each for all attributes, from coordinates to coordinates.

In which order they are taken, and how often, is `removal`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from oblivec.calibration import left_out, networks
from oblivec.calibration.axes import Axes
from oblivec.calibration.cells import even_cells, even_planes
from oblivec.calibration.clipping import clip_covariances, clip_means, clip_pairs, clip_variances
from oblivec.calibration.coordinates import Coordinates
from oblivec.calibration.geometry import Geometry
from oblivec.calibration.groups import COARSE_OR_FINE, Groups, mean_basis
from oblivec.calibration.lengths import deal_lengths
from oblivec.calibration.neighbourhoods import Memory, neighbourhood_round
from oblivec.calibration.planes import deal_planes
from oblivec.calibration.regions import by_regions
from oblivec.calibration.slices import Slices
from oblivec.calibration.space import Space
from oblivec.calibration.telling import Look, Sight, Telling
from oblivec.calibration.thresholds import Ranks, by_thresholds, columns_apart
from oblivec.calibration.waves import deal_out
from oblivec.engines.local import in_threads, offspring
from oblivec.information.target import Target

NARROW, NARROWEST = 32, 8
"""Leading directions at which clipping and slices begin; both go on with twice as many, up to all. Among hundreds of
directions a signal that sits in the widest drowns in the noise of the rest."""

AXES_AMONG, NETWORKS_AMONG, WHITENED_AMONG = 32, 64, 64
"""Leading directions among which the axes that tell most are sought, and among which networks and machines that take
all directions alike look: among hundreds, most are noise to them."""

MEAN_SWEEPS = 2
"""Attributes hang together: the means of one are not at chance any more once another's have been brought there."""

STRONG = 0.05
"""Cells that explain this share of who is in which group are dealt with by moving users from one to another."""

APART = 0.1
"""Smallest eigenvalue of the columns' correlations at which columns are looked at one by one, or two by two. Where they
hang together more closely, moving one alone would write into the narrow directions between them."""


class Steps:
    """All steps on one matrix. `step`, `natural`: as in `RemovalConfig`."""

    def __init__(
        self, coordinates: Coordinates, targets: Sequence[Target], rng: torch.Generator, step: float, natural: float
    ):
        space = coordinates.space
        self.coordinates, self.targets, self.rng, self.step = coordinates, targets, rng, step
        self.widths = _widths(NARROW, space.dimensions)
        self.scale, self.slice_scale, self.columns = space.scales(1), space.scales(natural), space.columns
        self.from_columns = torch.linalg.pinv(self.columns)
        self.geometries = _geometries(space, self.scale, self.from_columns)
        self.columns_are_apart = bool(torch.linalg.eigvalsh(self.columns.T @ self.columns)[0] >= APART)
        self.telling = Telling(left_out.by_machines, left_out.DOUBT)
        self.whitened = Telling(partial(left_out.by_machines, sharpness=left_out.SHARP), left_out.DOUBT)
        self.natural = Telling(_in_widths(left_out.by_machines, self.scale), left_out.DOUBT)
        self.regions = Telling(by_regions, left_out.DOUBT)
        self.splits = Telling(by_thresholds, left_out.DOUBT, share=1.0, steady=True)
        self.nets = Telling(_in_widths(networks.by_networks, self.scale), networks.DOUBT)
        self.slices = {width: [Slices(step) for _ in targets] for width in _widths(NARROWEST, space.dimensions)}
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
        attributes = [groups for _, groups in self.groups()]
        rngs = offspring(self.rng, len(attributes))

        def dealt(number: int, X: Tensor = X) -> Tensor:
            return self._deal(X, attributes[number], rngs[number], fine_only, planes)

        # Nobody stands out most of the time, so all attributes are looked at side by side.
        looked = in_threads(dealt, range(len(attributes)))
        first, *more = [number for number, one in enumerate(looked) if not torch.equal(one, X)] or [0]
        X = looked[first]
        for number in more:
            X = dealt(number, X)
        return X

    def _deal(self, X: Tensor, groups: Groups, rng: torch.Generator, fine_only: bool, planes: bool) -> Tensor:
        X = self.in_both(X, partial(deal_out, groups=groups, rng=rng, fine_only=fine_only))
        if planes:
            X = self.in_both(X, partial(deal_planes, groups=groups, rng=rng))
        return X if fine_only else self.deal_lengths(X, partial(deal_lengths, groups=groups, rng=rng))

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
        asked = attributes if everything else [attributes[number] for number in self.telling.loud]
        scale = self.scale[:AXES_AMONG]
        leading, rest = X[:, :AXES_AMONG] * scale, X[:, AXES_AMONG:]
        look = partial(Axes.of, leading)
        for axes in in_threads(lambda one: look(*one), zip(asked, offspring(self.rng, len(asked)), strict=True)):
            leading = axes.round(leading, self.step)
        return torch.cat([leading / scale, rest], dim=1)

    def ask_regions(self, X: Tensor) -> Tensor:
        """Along what tells of where users lie densely."""
        return self.regions.round(X * self.scale, self.coarse_or_fine(), self.rng) / self.scale

    @property
    def regions_tell(self) -> bool:
        return bool(self.regions.loud)

    def settle(self, X: Tensor) -> Tensor:
        """Along what machines find, which take all leading directions alike, or as wide as they are.

        Parting neighbours takes users far along narrow directions: whoever whitens the matrix would read what was
        removed with its sign turned.
        """
        attributes = self.coarse_or_fine()
        return self.coordinates.as_released(
            X, lambda X: self._tell(self.natural, self._tell(self.whitened, X, attributes, WHITENED_AMONG), attributes)
        )

    @property
    def is_settled(self) -> bool:
        return not self.whitened.loud and not self.natural.loud

    def ask_thresholds(self, X: Tensor) -> Tensor:
        """Along what thresholds of columns tell together; users move in ranks, as dense places take small steps."""
        space = self.coordinates.space
        rows = space.decode(X)
        columns = columns_apart(rows, APART)
        if not len(columns):
            return X
        ranks = Ranks.of(rows[:, columns])
        before, seen = ranks.encode(rows[:, columns]), ranks.encode(self.coordinates.centred(X)[:, columns])
        after = before + self.splits.round(seen, self.coarse_or_fine(), self.rng) - seen
        return space.encode(rows.index_copy(1, columns, ranks.decode(after)))

    @property
    def thresholds_tell(self) -> bool:
        return bool(self.splits.loud)

    def ask_networks(self, X: Tensor) -> Tensor:
        """Along what networks find among the leading directions."""
        attributes = self.coarse_or_fine()
        return self.coordinates.as_released(X, lambda X: self._tell(self.nets, X, attributes, NETWORKS_AMONG))

    @property
    def networks_tell(self) -> bool:
        return bool(self.nets.loud)

    def _tell(self, telling: Telling, X: Tensor, attributes: Sequence[Groups], width: int | None = None) -> Tensor:
        leading = X[:, :width]
        return torch.cat([telling.round(leading, attributes, self.rng), X[:, leading.shape[1] :]], dim=1)

    @property
    def is_quiet(self) -> bool:
        return not self.telling.loud

    def even(self, X: Tensor, rng: torch.Generator) -> Tensor:
        """Cells that lean strongly, of all directions and of pairs of columns."""
        for _, groups in self.groups():
            X = even_cells(X * self.scale, groups, rng, STRONG) / self.scale
            X = self.even_planes(X, groups, rng, STRONG)
        return X

    def even_weak_planes(self, X: Tensor) -> Tensor:
        for _, groups in self.groups():
            X = self.even_planes(X, groups, self.rng, 0.0)
        return X

    def even_planes(self, X: Tensor, groups: Groups, rng: torch.Generator, least: float) -> Tensor:
        step = partial(even_planes, groups=groups, rng=rng, least=least)
        return self.in_columns(X, step) if self.columns_are_apart else X

    def part_neighbours(self, X: Tensor) -> Tensor:
        """In all geometries together."""
        return self.coordinates.as_released(X, self._part_neighbours)

    def _part_neighbours(self, X: Tensor) -> Tensor:
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

    def seen(X: Tensor, attributes: Sequence[Groups], rng: torch.Generator) -> Sight:
        width = scale[: X.shape[1]]
        sight = look(X * width, attributes, rng)
        return Sight(sight.values, lambda attribute: sight.gradient(attribute) * width)

    return seen


def _widths(width: int, dimensions: int) -> list[int]:
    widths = []
    while width < dimensions:
        widths.append(width)
        width *= 2
    return [*widths, dimensions]
