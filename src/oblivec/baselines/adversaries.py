"""Adversaries that learn to read an attribute from the users' rows while these are being learnt.

Gradient reversal, written out: the adversaries go down the gradient of their loss, the rows go up the same gradient,
scaled. Both see the same batch at the same time.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from oblivec.datasets.attributes import Attribute
from oblivec.information.target import Target
from oblivec.randomness import torch_rng


class Group:
    """Several small networks of one hidden layer that read one attribute; their loss is the mean of theirs.

    A categorical attribute is read by cross-entropy with every class weighing the same, however many users it has; a
    continuous one by the squared error in units of its variance.
    """

    def __init__(
        self, attribute: Attribute, dimensions: int, *, adversaries: int, hidden: int, dropout: float, seed: int,
        device: torch.device,
    ):
        target = Target.of(attribute, device)
        self.is_constant = target.is_constant
        self.labelled = torch.zeros(len(attribute.values), dtype=torch.bool, device=device)
        self.labelled[target.rows] = True
        self.labels = torch.zeros(len(attribute.values), dtype=target.labels.dtype, device=device)
        self.labels[target.rows] = target.labels
        self.weights: Tensor | None = None
        if target.n_classes:
            sizes = torch.bincount(target.labels, minlength=target.n_classes)
            self.weights = torch.where(sizes > 0, len(target.rows) / sizes.clamp_min(1), 0.0).float()
        self.dropout = dropout
        self.draws = torch_rng(seed, "adversaries", attribute.name, "dropout", device=device)
        start = torch_rng(seed, "adversaries", attribute.name, "start")
        self.parameters: list[Tensor] = []
        for width, height in ((dimensions, hidden), (hidden, max(target.n_classes, 1))):
            weight = (2 * torch.rand(adversaries, width, height, generator=start) - 1) * width**-0.5
            bias = torch.zeros(adversaries, 1, height)
            self.parameters += [weight.to(device).requires_grad_(), bias.to(device).requires_grad_()]

    def loss(self, users: Tensor, rows: Tensor) -> Tensor:
        """The loss on those of the batch who have a label; zero when nobody has."""
        known = self.labelled[users]
        rows, labels = rows[known], self.labels[users][known]
        if self.is_constant or len(labels) == 0:
            return rows.sum() * 0.0
        outputs = self._outputs(rows)
        if self.weights is None:
            return (outputs[..., 0] - labels).square().mean()
        return F.cross_entropy(outputs.flatten(0, 1), labels.repeat(len(outputs)), weight=self.weights)

    def _outputs(self, rows: Tensor) -> Tensor:
        """Adversaries x users x outputs. Each adversary has a view of the rows with other entries silenced."""
        first, first_bias, second, second_bias = self.parameters
        seen = rows.expand(len(first), *rows.shape)
        if self.dropout:
            kept = torch.rand(seen.shape, generator=self.draws, device=rows.device) >= self.dropout
            seen = seen * kept / (1 - self.dropout)
        return torch.baddbmm(second_bias, torch.baddbmm(first_bias, seen, first).relu(), second)


class Reversal:
    """What to put on the users' rows in a training step: the adversaries' gradient, reversed and scaled.

    `make` gives the adversaries for rows of a given width, which is known when the first rows come.
    """

    def __init__(self, make: Callable[[int], list[Group]], scale: float, learning_rate: float, weight_decay: float):
        self.make, self.scale = make, scale
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self.groups: list[Group] = []
        self.losses: list[Tensor] = []
        """Of every step, summed over attributes."""

    def __call__(self, users: Tensor, rows: Tensor) -> Tensor:
        if not self.groups:
            self.groups = self.make(rows.shape[1])
            parameters = [parameter for group in self.groups for parameter in group.parameters]
            self.optimiser = torch.optim.Adam(parameters, lr=self.learning_rate, weight_decay=self.weight_decay)
        leaf = rows.detach().clone().requires_grad_()
        with torch.enable_grad():
            loss = torch.stack([group.loss(users, leaf) for group in self.groups]).sum()
            self.optimiser.zero_grad()
            loss.backward()
        self.optimiser.step()
        self.losses.append(loss.detach())
        return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad * -self.scale

    def mean_losses(self) -> tuple[float, float]:
        """Mean loss over the first and over the last tenth of the steps."""
        losses, tenth = torch.stack(self.losses), max(1, len(self.losses) // 10)
        return float(losses[:tenth].mean()), float(losses[-tenth:].mean())
