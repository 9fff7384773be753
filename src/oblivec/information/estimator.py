"""q and its optimiser, with the two things both steps of LEGO ask of them: to follow the matrix, and to push it.

Samples are worked through in parts of bounded size. vCLUB in closed form is a mean of one term per user once the
marginal of the labels is known, so the parts add up to exactly the full-batch result.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from oblivec.information.target import Target
from oblivec.information.variational import VariationalConfig, variational
from oblivec.randomness import torch_rng

PART = 65_536
"""Users in one forward and backward pass: about 100 MB of activations."""


class Estimator:
    """An estimate of I(x; attribute) that is kept up to date while x moves."""

    def __init__(self, x: Tensor, target: Target, config: VariationalConfig, seed: int, *purpose: object):
        """`x` is the matrix before the first step, on the device to work on; only its shape and scale are looked at."""
        self.config = config
        self.q = variational(x.shape[1], target, config, torch_rng(seed, "q", *purpose)).to(x.device)
        if config.standardise:
            self.q.standardise_by(x)
        kind = torch.optim.Adam if config.optimiser == "adam" else torch.optim.AdamW
        self._optimiser = kind(self.q.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)

    def follow(self, x: Tensor, labels: Tensor) -> Tensor:
        """`config.steps` steps of maximising L(phi), Equation (log-likelihood); returns its value before the last."""
        total = torch.zeros((), device=x.device)
        for _ in range(self.config.steps):
            self._optimiser.zero_grad(set_to_none=True)
            total = torch.zeros((), device=x.device)
            for part, share in _parts(len(x)):
                loss = -self.q.log_likelihood(x[part], labels[part]) * share
                loss.backward()
                total -= loss.detach()
            self._optimiser.step()
        return total

    def push(self, x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """vCLUB of the sample, Equation (hat-vclub), and its gradient with respect to `x`."""
        marginal = self.q.marginal(labels)
        gradient = torch.empty_like(x)
        total = torch.zeros((), device=x.device)
        for part, share in _parts(len(x)):
            inputs = x[part].detach().requires_grad_()
            estimate = self.q.vclub(inputs, labels[part], marginal) * share
            (gradient[part],) = torch.autograd.grad(estimate, inputs)
            total += estimate.detach()
        return total, gradient


def _parts(length: int) -> Iterator[tuple[slice, float]]:
    """Consecutive slices and the share of the whole that each is."""
    for start in range(0, length, PART):
        stop = min(start + PART, length)
        yield slice(start, stop), (stop - start) / length
