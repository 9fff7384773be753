"""A scaled multilayer perceptron with early stopping, all trials trained side by side in one tensor program."""

from __future__ import annotations

import math

import numpy as np
import torch

from oblivec.attacks.base import Attacker, Problem, Scores, Unit, balanced_weights, register
from oblivec.attacks.scaling import standardise
from oblivec.randomness import numpy_rng, torch_rng

HIDDEN = 100
BATCH = 200
EPOCHS = 60
PATIENCE = 8
"""Epochs without a better loss on the inner fifth before a model's best weights are kept."""
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 1e-2
MOST_BATCHES = 400
"""An epoch is at most this many batches, which then grow: a million users need no more steps than a thousand."""


@register
class MLP(Attacker):
    name = "mlp"
    says = "a small neural network on scaled vectors, stopped before it overfits"
    batched = True
    repeats = 4
    fold_dependence = 1.0

    def attack(self, problem: Problem, device: torch.device) -> Scores:
        return _Ensemble(problem, device).train().scores()


class _Ensemble:
    """One network per trial: weights carry a leading axis of trials, and so does every batch."""

    def __init__(self, problem: Problem, device: torch.device):
        self.problem, self.device = problem, device
        vectors = torch.as_tensor(problem.vectors, device=device)
        self.scales = [standardise(vectors[torch.as_tensor(t.train, device=device)]) for t in problem.trials]
        self.vectors = vectors
        splits = [self._inner_split(number) for number in range(len(problem.trials))]
        self.fit_rows, self.fit_length = _pad([fit for fit, _ in splits], device)
        self.held_rows, held_length = _pad([held for _, held in splits], device)
        self.targets, self.weights = self._targets()
        self.held_live = torch.arange(self.held_rows.shape[1], device=device) < held_length[:, None]
        self.shift = torch.stack([scale.shift for scale in self.scales]).float()[:, None]
        self.gain = torch.stack([scale.matrix.diagonal() for scale in self.scales]).float()[:, None]
        self.parameters = self._initial()

    def _inner_split(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        train = numpy_rng(self.problem.seed, "inner", number).permutation(self.problem.trials[number].train)
        held = max(len(train) // 5, 1)
        return train[held:], train[:held]

    def _targets(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The label of every row and its weight in the loss, for each trial (trials x rows)."""
        labels, trials = self.problem.labels, self.problem.trials
        if self.problem.continuous:
            # Each trial's own unit: the labels of a test fold have no say in it.
            self.units = [Unit.of(labels[trial.train]) for trial in trials]
            targets = np.stack([unit.into(labels) for unit in self.units])
            weights = torch.ones(targets.shape, device=self.device)
            return torch.as_tensor(targets, dtype=torch.float32, device=self.device), weights
        weights = np.zeros((len(trials), len(labels)), dtype=np.float32)
        for number, trial in enumerate(trials):
            weights[number, trial.train] = balanced_weights(labels[trial.train], self.problem.n_classes)
        targets = torch.as_tensor(labels, device=self.device).expand(len(trials), -1)
        return targets, torch.as_tensor(weights, device=self.device)

    def _initial(self) -> list[torch.Tensor]:
        rng = torch_rng(self.problem.seed, "weights")
        trials, d, outputs = len(self.problem.trials), self.vectors.shape[1], self.problem.outputs

        def glorot(fan_in: int, fan_out: int) -> torch.Tensor:
            bound = math.sqrt(6 / (fan_in + fan_out))
            return (torch.rand(trials, fan_in, fan_out, generator=rng) * 2 - 1) * bound

        shapes = [glorot(d, HIDDEN), torch.zeros(trials, 1, HIDDEN), glorot(HIDDEN, outputs)]
        shapes.append(torch.zeros(trials, 1, outputs))
        return [tensor.to(self.device).requires_grad_() for tensor in shapes]

    def _forward(self, rows: torch.Tensor, models: slice = slice(None)) -> torch.Tensor:
        """Outputs (trials x rows x outputs) for row numbers (trials x rows)."""
        w1, b1, w2, b2 = (parameter[models] for parameter in self.parameters)
        x = (self.vectors[rows] - self.shift[models]) * self.gain[models]
        return torch.baddbmm(b2, torch.relu(torch.baddbmm(b1, x, w1)), w2)

    def _losses(self, rows: torch.Tensor, live: torch.Tensor) -> torch.Tensor:
        """Weighted mean loss of each trial over its live rows."""
        outputs, targets = self._forward(rows), self.targets.gather(1, rows)
        if self.problem.continuous:
            each = (outputs.squeeze(2) - targets).square()
        else:
            each = torch.nn.functional.cross_entropy(outputs.transpose(1, 2), targets, reduction="none")
        weight = self.weights.gather(1, rows) * live
        return (each * weight).sum(1) / live.sum(1).clamp(min=1)

    def train(self) -> _Ensemble:
        optimiser = torch.optim.AdamW(self.parameters, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True)
        rng = torch_rng(self.problem.seed, "batches")
        trials, longest = self.fit_rows.shape
        batch = max(BATCH, math.ceil(longest / MOST_BATCHES))
        best = [parameter.detach().clone() for parameter in self.parameters]
        best_loss = torch.full((trials,), float("inf"), device=self.device)
        stale = torch.zeros(trials, dtype=torch.long, device=self.device)
        for _ in range(EPOCHS):
            # A fresh order for every trial; rows beyond a shorter trial's end come last and weigh nothing.
            keys = torch.rand(trials, longest, generator=rng).to(self.device)
            keys[torch.arange(longest, device=self.device) >= self.fit_length[:, None]] = 2.0
            order = keys.argsort(1)
            for positions in order.split(batch, dim=1):
                live = positions < self.fit_length[:, None]
                loss = self._losses(self.fit_rows.gather(1, positions), live).sum()
                optimiser.zero_grad(set_to_none=True)
                loss.backward()
                optimiser.step()
            with torch.no_grad():
                held = self._losses(self.held_rows, self.held_live)
            better = held < best_loss
            stale = torch.where(better, 0, stale + 1)
            best_loss = torch.where(better, held, best_loss)
            for kept, parameter in zip(best, self.parameters, strict=True):
                kept[better] = parameter.detach()[better]
            if bool((stale >= PATIENCE).all()):
                break
        self.parameters = best
        return self

    @torch.no_grad()
    def scores(self) -> Scores:
        found = []
        for number, trial in enumerate(self.problem.trials):
            rows = torch.as_tensor(trial.test, device=self.device)[None]
            outputs = self._forward(rows, slice(number, number + 1))[0].cpu().numpy()
            if self.problem.continuous:
                outputs = self.units[number].back(outputs)
            found.append(outputs)
        return found


def _pad(rows: list[np.ndarray], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Row lists of unequal length as one matrix (padded with the first row) and their lengths."""
    longest = max(len(part) for part in rows)
    padded = np.stack([np.r_[part, np.full(longest - len(part), part[0] if len(part) else 0)] for part in rows])
    lengths = torch.tensor([len(part) for part in rows], device=device)
    return torch.as_tensor(padded, dtype=torch.long, device=device), lengths
