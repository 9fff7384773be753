"""The map for users who come later: an edit that is a function of the embedding alone.

Directions along which group means stand out from chance are erased for everybody (LEACE, but only those directions).
Then critics read the attribute; every user moves, whatever their label, to where the critics can no longer tell; new
critics are trained on what came out; and so on until they find nothing on users they never saw. What is kept is the
sequence of critics. It applies to users who did not exist when it was made, and by the data processing inequality what
it gives out says no more about them than the embedding that went in; neither does the difference.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from pydantic import Field
from torch import Tensor

from oblivec.calibration.clipping import standing_out
from oblivec.calibration.configured import Settings
from oblivec.calibration.critics import Critics, train_critics
from oblivec.calibration.groups import Groups, mean_basis
from oblivec.calibration.space import Space
from oblivec.console import progress
from oblivec.information.target import Target
from oblivec.randomness import torch_rng

GEOMETRIES = (0.5, 1.0, 0.0)
"""Widths of directions the critics see in turn (`Space.scales`)."""
ENOUGH = 1.0
"""Standard errors of evidence up to which critics are taken to see nothing."""
LONGEST = 1.0
"""Longest step of a round, as a share of a typical user's distance from the mean."""
INDEPENDENT = 1e-3
"""Singular value from which a direction counts as one that others do not erase already."""
PART = 65_536
"""Users moved at a time."""
_WEIGHTS = ("inner", "inner_bias", "outer", "outer_bias", "straight")
_SPACE = ("offset", "basis", "typical", "mean", "directions", "spread")


class FlowConfig(Settings):
    flow_rounds: int = Field(40, ge=0)
    """At most this many critics, one after the other; fewer when three in a row find nothing."""
    flow_step: float = Field(1.0, gt=0, le=1)
    """How far a round goes to where its critics cannot tell, as a share of what they can be trusted for."""


class Flow:
    """A space and the steps to take in it."""

    def __init__(self, space: Space, erased: Tensor, steps: Sequence[tuple[Critics, float]] = ()):
        self.space, self.erased, self.steps = space, erased, list(steps)

    def __call__(self, U: Tensor) -> Tensor:
        """Where users with embeddings U are released, one row each."""
        X = self.erase(self.space.encode(U))
        for critics, length in self.steps:
            X = _step(X, critics, length)
        return self.space.decode(X)

    @classmethod
    def joined(cls, flows: Sequence[Flow]) -> Flow:
        """One map for all attributes of these, which were made for the same matrix.

        What any of them erases is erased at once: projections do not commute, and after the first one the second
        attribute's direction would no longer lie where its own map erases it.
        """
        kept, values, _ = torch.linalg.svd(torch.cat([flow.erased for flow in flows], dim=1), full_matrices=False)
        return cls(flows[0].space, kept[:, values > INDEPENDENT], [step for flow in flows for step in flow.steps])

    def erase(self, X: Tensor) -> Tensor:
        """Without the part along the erased directions (orthonormal columns)."""
        return X - X @ self.erased @ self.erased.T

    def tensors(self) -> dict[str, Tensor]:
        found = {name: getattr(self.space, name) for name in _SPACE} | {"erased": self.erased}
        if self.steps:
            for number, name in enumerate(_WEIGHTS):
                found[name] = torch.stack([critics.weights[number] for critics, _ in self.steps])
            found["scale"] = torch.stack([critics.scale for critics, _ in self.steps])
            found["length"] = torch.tensor([length for _, length in self.steps])
        return {name: tensor.cpu().contiguous() for name, tensor in found.items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], device: torch.device | str = "cpu") -> Flow:
        here = {name: tensor.to(device) for name, tensor in tensors.items()}
        lengths = here["length"].tolist() if "length" in here else []
        return cls(Space(*(here[name] for name in _SPACE)), here["erased"], [
            (Critics(tuple(here[name][number] for name in _WEIGHTS), here["scale"][number], 0.0, 0.0), length)
            for number, length in enumerate(lengths)
        ])


def fit_flow(
    U: Tensor, targets: Sequence[Target], config: FlowConfig, seed: int, label: str
) -> Flow:
    """The map that takes these attributes from U, and from whatever is distributed like it.

    Everybody moves by the same critics, those whose labels they learned included: were each half moved by the critic
    of the other, there would be two maps, and a critic of one half would find nothing in the other while attackers do.
    """
    space = Space.of(U)
    targets = [target for target in targets if not target.is_constant]
    flow = Flow(space, U.new_zeros(space.dimensions, 0))
    if space.dimensions == 0 or not targets:
        return flow
    rng = torch_rng(seed, "flow", label, device=U.device)
    X, quiet = space.encode(U), 0
    for target in targets:
        groups = Groups.of(target, rng)
        found = standing_out(flow.erase(X), groups, mean_basis(target, groups), rng)
        flow.erased = torch.linalg.qr(torch.cat([flow.erased, found], dim=1))[0]
    X = flow.erase(X)
    with progress(f"Finding a map for {label}", config.flow_rounds) as tick:
        for number in range(config.flow_rounds):
            scale = space.scales(GEOMETRIES[number % len(GEOMETRIES)])
            found = False
            for target in targets:
                critics = train_critics(X, target, scale, rng)
                if critics.evidence > ENOUGH and critics.trust > 0:
                    length = config.flow_step * critics.trust
                    flow.steps.append((critics, length))
                    X, found = _step(X, critics, length), True
            quiet = 0 if found else quiet + 1
            tick()
            if quiet == len(GEOMETRIES):
                break
    return flow


def _step(X: Tensor, critics: Critics, length: float) -> Tensor:
    """Towards the nearest point where the critics see no difference: Newton's step on half their squared output."""
    moved = []
    limit = LONGEST * X.shape[1] ** 0.5
    for part in X.split(PART):
        part = part.detach().requires_grad_()
        half_square = critics(part).square().sum(1) / 2
        (slope,) = torch.autograd.grad(half_square.sum(), part)
        # In the geometry the critics see: a step there is along scale * slope, and back by scale again.
        slope = slope / critics.scale.square().clamp_min(1e-6)
        fall = (slope * slope * critics.scale.square().clamp_min(1e-6)).sum(1, keepdim=True)
        move = 2 * half_square.detach()[:, None] * slope / fall.clamp_min(1e-12)
        size = move.norm(dim=1, keepdim=True)
        moved.append(part.detach() - length * move * (limit / size.clamp_min(limit)))
    return torch.cat(moved)
