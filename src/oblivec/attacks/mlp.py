"""A scaled multilayer perceptron with early stopping, all trials trained side by side in one tensor program.

The networks are so small that the time goes to the steps around the arithmetic. So gradients are written out (two
layers need no tape), the trials' rows lie scaled and side by side, one shuffle an epoch serves all trials (which
divide their rows differently anyway), and a trial that has stopped is dropped from the arithmetic.
"""

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
        vectors = torch.as_tensor(problem.vectors, device=device)
        fit, held, scored, units = [], [], [], []
        for number, trial in enumerate(problem.trials):
            scale = standardise(vectors[torch.as_tensor(trial.train, device=device)])
            labels, weight = problem.labels, np.ones(len(problem.labels))
            units.append(Unit())
            if problem.continuous:
                units[-1] = Unit.of(labels[trial.train])  # the labels of the test fold have no say in it
                labels = units[-1].into(labels).astype(np.float32)
            else:
                weight[trial.train] = balanced_weights(labels[trial.train], problem.n_classes)
            train = numpy_rng(problem.seed, "inner", number).permutation(trial.train)
            aside = max(len(train) // 5, 1)
            for part, rows in ((fit, train[aside:]), (held, train[:aside]), (scored, trial.test)):
                x = scale(vectors[torch.as_tensor(rows, device=device)])
                part.append((x, labels[rows], weight[rows]))
        networks = _train(_Rows(fit, device), _Rows(held, device), problem)
        found = []
        for number, (x, _, _) in enumerate(scored):
            outputs = _outputs([p[number : number + 1] for p in networks], _with_constant(x)[None])[1]
            found.append(units[number].back(outputs[0].cpu().numpy()))
        return found


class _Rows:
    """Rows of every trial side by side, shorter trials filled up with rows that weigh nothing."""

    def __init__(self, trials: list[tuple[torch.Tensor, np.ndarray, np.ndarray]], device: torch.device):
        self.trials, self.each = len(trials), max(len(x) for x, _, _ in trials)
        d, kind = trials[0][0].shape[1], torch.as_tensor(trials[0][1]).dtype
        x = torch.zeros(self.trials, self.each, 1 + d, device=device)
        target = torch.zeros(self.trials, self.each, dtype=kind, device=device)
        weight = torch.zeros(self.trials, self.each, device=device)
        for number, (own, labels, weights) in enumerate(trials):
            x[number, : len(own)] = _with_constant(own)
            target[number, : len(own)] = torch.as_tensor(labels, device=device)
            # Means over all rows, the empty ones included, are then means over the trial's own.
            weight[number, : len(own)] = torch.as_tensor(weights * self.each / max(len(own), 1), device=device)
        self.columns = [x.flatten(0, 1), target.flatten(), weight.flatten()]

    def take(self, trials: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Vectors, targets and weights (trials x rows x ...) of some rows of some trials."""
        places = (trials[:, None] * self.each + rows).flatten()
        x, target, weight = (
            column.index_select(0, places).unflatten(0, (len(trials), -1)) for column in self.columns
        )
        return x, target, weight


def _with_constant(x: torch.Tensor) -> torch.Tensor:
    """A constant column in front, whose weights are the bias of the hidden layer."""
    return torch.nn.functional.pad(x, (1, 0), value=1.0)


def _train(fit: _Rows, held: _Rows, problem: Problem) -> list[torch.Tensor]:
    """The parameters of one network per trial, each as it was when it predicted the rows held out best."""
    device = fit.columns[0].device
    rng = torch_rng(problem.seed, "batches")
    batch = max(BATCH, math.ceil(fit.each / MOST_BATCHES))
    best = _initial(fit, problem)
    optimiser = _AdamW([parameter.clone() for parameter in best])
    best_loss = torch.full((fit.trials,), float("inf"), device=device)
    stale = torch.zeros(fit.trials, dtype=torch.long, device=device)
    training = torch.arange(fit.trials, device=device)
    every_held = torch.arange(held.each, device=device)
    for _ in range(EPOCHS):
        for rows in torch.randperm(fit.each, generator=rng).to(device).split(batch):
            optimiser.step(_gradients(optimiser.parameters, *fit.take(training, rows), problem.continuous))
        loss = _losses(optimiser.parameters, *held.take(training, every_held), problem.continuous)
        better = loss < best_loss[training]
        stale[training] = torch.where(better, 0, stale[training] + 1)
        best_loss[training] = torch.where(better, loss, best_loss[training])
        for kept, parameter in zip(best, optimiser.parameters, strict=True):
            kept[training[better]] = parameter[better]
        going_on = stale[training] < PATIENCE
        if not bool(going_on.all()):
            training = training[going_on]
            optimiser.keep(going_on)
            if len(training) == 0:
                break
    return best


def _initial(fit: _Rows, problem: Problem) -> list[torch.Tensor]:
    """Glorot's weights for both layers, and no bias; a leading axis of trials."""
    rng = torch_rng(problem.seed, "weights")
    d, outputs, device = fit.columns[0].shape[1] - 1, problem.outputs, fit.columns[0].device

    def glorot(fan_in: int, fan_out: int) -> torch.Tensor:
        bound = math.sqrt(6 / (fan_in + fan_out))
        return (torch.rand(fit.trials, fan_in, fan_out, generator=rng) * 2 - 1) * bound

    first = torch.nn.functional.pad(glorot(d, HIDDEN), (0, 0, 1, 0))
    second = glorot(HIDDEN, outputs).transpose(1, 2).contiguous()  # products with few columns are slow the other way
    return [tensor.to(device) for tensor in (first, second, torch.zeros(fit.trials, 1, outputs))]


def _outputs(parameters: list[torch.Tensor], x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The hidden layer and the output layer (trials x rows x units)."""
    first, second, bias = parameters
    hidden = torch.bmm(x, first).relu_()
    return hidden, torch.baddbmm(bias, hidden, second.transpose(1, 2))


def _losses(
    parameters: list[torch.Tensor], x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor, continuous: bool
) -> torch.Tensor:
    """Weighted mean loss of each trial: cross-entropy, or the squared error."""
    outputs = _outputs(parameters, x)[1]
    if continuous:
        each = (outputs.squeeze(2) - target).square()
    else:
        each = -torch.log_softmax(outputs, dim=2).gather(2, target[:, :, None]).squeeze(2)
    return (each * weight).mean(1)


def _gradients(
    parameters: list[torch.Tensor], x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor, continuous: bool
) -> list[torch.Tensor]:
    """Of `_losses`, with respect to each of the parameters."""
    hidden, outputs = _outputs(parameters, x)
    if continuous:
        delta = 2 * (outputs - target[:, :, None])
    else:
        delta = torch.softmax(outputs, dim=2)
        delta.scatter_add_(2, target[:, :, None], torch.full_like(weight, -1)[:, :, None])
    delta *= weight[:, :, None] / x.shape[1]
    second = torch.bmm(delta.transpose(1, 2), hidden)
    behind = torch.bmm(delta, parameters[1]).mul_(hidden.sign_())  # where the unit is off, nothing goes through
    return [torch.bmm(x.transpose(1, 2), behind), second, delta.sum(1, keepdim=True)]


class _AdamW:
    """Adam with decoupled weight decay. torch's own loads a compiler first, which takes longer than the training."""

    def __init__(self, parameters: list[torch.Tensor]):
        self.parameters, self.steps = parameters, 0
        self.mean = [torch.zeros_like(parameter) for parameter in parameters]
        self.square = [torch.zeros_like(parameter) for parameter in parameters]

    def step(self, gradients: list[torch.Tensor], decay1: float = 0.9, decay2: float = 0.999) -> None:
        self.steps += 1
        rate = LEARNING_RATE / (1 - decay1**self.steps)
        correction = math.sqrt(1 - decay2**self.steps)
        for parameter, gradient, mean, square in zip(self.parameters, gradients, self.mean, self.square, strict=True):
            mean.lerp_(gradient, 1 - decay1)
            square.mul_(decay2).addcmul_(gradient, gradient, value=1 - decay2)
            parameter.mul_(1 - LEARNING_RATE * WEIGHT_DECAY)
            parameter.addcdiv_(mean, square.sqrt().add_(1e-8 * correction), value=-rate * correction)

    def keep(self, which: torch.Tensor) -> None:
        """Go on with some of the trials only."""
        self.parameters, self.mean, self.square = (
            [tensor[which] for tensor in tensors] for tensors in (self.parameters, self.mean, self.square)
        )
