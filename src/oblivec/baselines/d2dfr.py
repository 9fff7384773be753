"""`d2dfr` (Chen et al., 2024): move users until their class cannot be told by the distribution it has.

Distribution-to-distribution: every class is drawn to an anchor class by the multi-kernel discrepancy of `mmd`.
Functional regulariser: the order of each user's original top list is kept, see `top_order`. One attribute is removed at
a time; the next starts where the last ended, and may bring back what the last took out. Users without a label for an
attribute are not moved for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from oblivec.baselines.base import BaselineConfig, Protected, ReleaseBaseline, prepare, register, spread
from oblivec.baselines.mmd import discrepancy, discrepancy_gradient, widest_kernel
from oblivec.baselines.top_order import order_loss, top_lists
from oblivec.console import progress
from oblivec.datasets.attributes import Attribute
from oblivec.information.target import Target
from oblivec.randomness import torch_rng


class D2DFRConfig(BaselineConfig):
    """The loop's settings. What neither paper prints is marked so."""

    steps: int = Field(500, ge=1)
    """Adam steps per attribute, each on all users. Published: 500."""
    learning_rate: float = Field(5e-3, gt=0)
    """Adam's step in units of the spread of the matrix (the root mean square around the column means). Not printed."""
    coefficient: float = Field(1e-6, ge=0)
    """Weight of the regulariser, a sum over users, against the discrepancy. Printed: 1e-6."""
    top: int = Field(20, ge=2)
    """Length of the list whose order is kept. Published: 20."""
    margin: float = Field(0.05, ge=0)
    """By how much a better item's score shall stay ahead of the next one's. The authors' code: 0.05."""
    anchor_stays: bool = False
    """Whether the anchor class, the largest, is left where it is and only the others move. The authors' code moves it
    like any other."""
    continuous_groups: int = Field(4, ge=2)
    """Quantile groups that stand for the classes of a continuous attribute. Not covered by the paper."""
    sample: int | None = Field(None, ge=2)
    """Users drawn of each class for each step, so that a step does not grow with the square of the users. Default: all
    of them, as published."""
    block: int | None = Field(None, ge=1)
    """Users on either side of a block of pairs: bounds the memory, changes nothing else. Default: see mmd.BLOCK."""


@register
class D2DFR(ReleaseBaseline):
    name = "d2dfr"
    Config = D2DFRConfig
    config: D2DFRConfig

    def protect_in_turn(
        self,
        U: Tensor,
        attributes: Sequence[Attribute],
        *,
        items: Tensor | None = None,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> Iterator[Protected]:
        """The release after the first attribute, after the first two, and so on: each is what `protect` gives for so
        many, and together they cost no more than the last."""
        matrix, catalogue = prepare(U, attributes, items, device)
        for moved, facts in self._stages(matrix, attributes, catalogue, seed):
            yield Protected(moved.to(U.device, torch.float32, copy=True), facts)

    def _edit(
        self, U: Tensor, attributes: Sequence[Attribute], items: Tensor | None, seed: int
    ) -> tuple[Tensor, dict[str, Any]]:
        *_, last = self._stages(U, attributes, items, seed)
        return last

    def _stages(
        self, U: Tensor, attributes: Sequence[Attribute], items: Tensor | None, seed: int
    ) -> Iterator[tuple[Tensor, dict[str, Any]]]:
        """The matrix, which goes on being moved, and the facts after each attribute."""
        notes, runs = [], {}
        lists = None
        if items is None or len(items) < 2:
            notes.append("no item matrix: the regulariser that keeps the top lists is left out")
        elif self.config.coefficient > 0:
            lists = top_lists(U, items, self.config.top)
        moved, unit = U.clone(), spread(U)  # in its units a step, and what Adam takes for zero, mean the same anywhere
        for attribute in attributes:
            target = Target.of(attribute, U.device)
            members = groups(target, self.config.continuous_groups)
            if len(members) < 2 or unit == 0:
                notes.append(f"attribute {attribute.name}: nothing tells its classes apart, so nothing was moved")
            else:
                rows = target.rows
                own = None if lists is None or items is None else (items * unit, lists[rows])
                start = moved[rows] / unit
                aligned, runs[attribute.name] = self._align(start, members, own, seed, attribute.name)
                moved[rows] += (aligned - start) * unit  # who was not moved keeps every bit
            yield moved, {"notes": list(notes), "attributes": dict(runs)}

    def _align(
        self, start: Tensor, members: list[Tensor], own: tuple[Tensor, Tensor] | None, seed: int, name: str
    ) -> tuple[Tensor, dict[str, Any]]:
        """The labelled users' rows after the loop, and what there is to say about it."""
        config, X = self.config, start.clone()
        optimiser = torch.optim.Adam([X], lr=config.learning_rate)
        anchor = max(range(len(members)), key=lambda number: len(members[number]))  # the first of the largest
        draws = torch_rng(seed, "d2dfr", name, device=X.device)
        first = float(discrepancy(X, members, anchor, widest_kernel(X), config.block))
        with progress(f"Aligning {name}", config.steps) as tick:
            for _ in range(config.steps):
                some = [_draw(rows, config.sample, draws) for rows in members]
                X.grad = discrepancy_gradient(X, some, anchor, widest_kernel(X), config.block)
                if own is not None:
                    X.grad.add_(order_loss(X, *own, config.margin)[1], alpha=config.coefficient)
                if config.anchor_stays:
                    X.grad[members[anchor]] = 0.0
                optimiser.step()
                tick()
        last = float(discrepancy(X, members, anchor, widest_kernel(X), config.block))
        facts = {"steps": config.steps, "discrepancy_at_first": round(first, 6), "discrepancy_at_last": round(last, 6),
                 "moved": round(float((X - start).norm() / start.norm().clamp_min(1e-30)), 6)}
        return X, facts


def groups(target: Target, continuous_groups: int) -> list[Tensor]:
    """Positions among the labelled users of each class that occurs; quantile groups of a continuous attribute."""
    codes = target.labels
    if not target.n_classes:
        shares = torch.arange(1, continuous_groups, device=codes.device) / continuous_groups
        edges = codes.sort().values[(shares * (len(codes) - 1)).long()]
        codes = torch.searchsorted(edges, codes.contiguous())  # equal values share a group
    return [(codes == code).nonzero()[:, 0] for code in codes.unique()]


def _draw(rows: Tensor, count: int | None, draws: torch.Generator) -> Tensor:
    if count is None or len(rows) <= count:
        return rows
    return rows[torch.randperm(len(rows), generator=draws, device=rows.device)[:count]]
