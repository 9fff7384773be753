"""Networks that read an attribute from the coordinates, each judged on users it never saw.

Two halves of the labelled users, one critic trained on each, judged on the other. What a critic says about users it has
learned by heart is no evidence; what it says about the others is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from oblivec.information.target import Target

HIDDEN = 64
STEPS = 30
BATCH = 1024
LEARNING_RATE = 0.02
WEIGHT_DECAY = 0.01
DROPOUT = 0.5


@dataclass(frozen=True)
class Critics:
    """Two networks of one hidden layer with a linear path beside it; parameters carry a leading axis of two."""

    weights: tuple[Tensor, ...]
    scale: Tensor
    """What coordinates are multiplied with before the critics see them."""
    evidence: float
    """How many standard errors better than guessing they are on the users they never saw."""
    trust: float
    """By what their outputs should be multiplied to be right about those users: less than 1 where they overfit."""

    def __call__(self, X: Tensor) -> Tensor:
        """What they say together: users x outputs, centred over the classes; a predicted value when continuous."""
        return _centred(_outputs(self.weights, (X * self.scale).expand(2, -1, -1)).mean(0))


def train_critics(X: Tensor, target: Target, scale: Tensor, rng: torch.Generator) -> Critics:
    """Fresh critics for the matrix as it stands; every class weighs the same."""
    outputs = target.n_classes or 1
    order = torch.randperm(len(target.rows), generator=rng, device=rng.device).to(X.device)
    halves = (order[::2], order[1::2])
    seen, labels = X[target.rows] * scale, target.labels
    weight = _balance(labels, target.n_classes)
    parameters = _initial(X.shape[1], outputs, rng)
    optimiser = torch.optim.AdamW(parameters, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    size = min(BATCH, len(halves[1]))
    for step in range(STEPS):
        batch = torch.stack([
            rows[torch.randint(len(rows), (size,), generator=rng, device=rng.device)] for rows in halves
        ])
        said = _outputs(parameters, seen[batch], rng)
        loss = (_loss(said, labels[batch], target.n_classes) * weight[batch]).mean(1).sum()
        for group in optimiser.param_groups:
            group["lr"] = LEARNING_RATE * (1 - 0.9 * step / STEPS)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
    weights = tuple(parameter.detach() for parameter in parameters)
    judged = []
    for number, rows in ((0, halves[1]), (1, halves[0])):
        said = _centred(_outputs(tuple(one[[number]] for one in weights), seen[rows][None])[0])
        judged.append((_evidence(said, labels[rows], weight[rows], target.n_classes),
                       _trust(said, labels[rows], weight[rows], target.n_classes)))
    return Critics(weights, scale, sum(z for z, _ in judged) / math.sqrt(2), sum(t for _, t in judged) / 2)


def _initial(d: int, outputs: int, rng: torch.Generator) -> list[Tensor]:
    def glorot(rows: int, columns: int) -> Tensor:
        bound = math.sqrt(6 / (rows + columns))
        return (torch.rand(2, rows, columns, generator=rng, device=rng.device) * 2 - 1) * bound

    shapes = [glorot(d, HIDDEN), torch.zeros(2, 1, HIDDEN), 0.3 * glorot(HIDDEN, outputs), torch.zeros(2, 1, outputs),
              torch.zeros(2, d, outputs)]
    return [tensor.to(rng.device).requires_grad_() for tensor in shapes]


def _outputs(weights: tuple[Tensor, ...] | list[Tensor], x: Tensor, rng: torch.Generator | None = None) -> Tensor:
    inner, inner_bias, outer, outer_bias, straight = weights
    hidden = torch.relu(torch.baddbmm(inner_bias, x, inner))
    if rng is not None:
        kept = torch.rand(hidden.shape, generator=rng, device=rng.device) >= DROPOUT
        hidden = hidden * kept / (1 - DROPOUT)
    return torch.baddbmm(outer_bias, hidden, outer) + x @ straight


def _loss(said: Tensor, labels: Tensor, n_classes: int) -> Tensor:
    if n_classes:
        return F.cross_entropy(said.transpose(1, 2), labels, reduction="none")
    return (said.squeeze(2) - labels).square()


def _balance(labels: Tensor, n_classes: int) -> Tensor:
    if not n_classes:
        return torch.ones_like(labels)
    sizes = torch.bincount(labels, minlength=n_classes).float()
    return (len(labels) / (sizes > 0).sum() / sizes.clamp_min(1))[labels]


def _centred(said: Tensor) -> Tensor:
    return said - said.mean(1, keepdim=True) if said.shape[1] > 1 else said


def _evidence(said: Tensor, labels: Tensor, weight: Tensor, n_classes: int) -> float:
    """The sampled vCLUB, Equation (hat-vclub), of held-out users in standard errors; for values, their covariance."""
    if n_classes:
        gain = said.gather(1, labels[:, None])[:, 0] - said.mean(0)[labels]  # log q up to what all classes share
    else:
        gain = (said[:, 0] - said.mean()) * (labels - labels.mean())
    gain = gain * weight
    error = gain.std(correction=0) / math.sqrt(len(gain))
    return float(gain.mean() / error) if error > 0 else 0.0


def _trust(said: Tensor, labels: Tensor, weight: Tensor, n_classes: int) -> float:
    """The factor, at most 1, that makes the outputs fit held-out users best."""
    if not n_classes:
        spread = said[:, 0] - said.mean()
        return float(((spread * labels).mean() / spread.square().mean().clamp_min(1e-12)).clamp(0, 1))
    factors = torch.linspace(0, 1, 21, device=said.device)
    losses = [float((F.cross_entropy(factor * said, labels, reduction="none") * weight).mean()) for factor in factors]
    return float(factors[int(torch.tensor(losses).argmin())])
