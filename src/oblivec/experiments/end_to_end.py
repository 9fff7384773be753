"""The problem that LEGO splits in two, solved in one piece: the paper's P2, and estimates of what a matrix tells.

P2 is the least sum over attributes of I(U(alpha); A_t) with U(alpha) = sum_i alpha_i U_i, the matrices U_i (each within
the radius) and the weights alpha moved together, from where LEGO starts: every U_i the original, equal weights. LEGO's
own two steps end at P1. Mutual information cannot be computed, so both are estimates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from oblivec.calibration.alternating import AlternatingConfig
from oblivec.calibration.ball import project
from oblivec.calibration.paper_tuned import KeepingUp
from oblivec.console import progress
from oblivec.datasets.attributes import Attribute
from oblivec.information.estimator import Estimator
from oblivec.information.target import Target
from oblivec.information.variational import VariationalConfig
from oblivec.randomness import torch_rng

FOLDS = 5
PRINTED_Q_STEPS = 2000
FRESH_Q_STEPS, FRESH_Q_CHUNK, FRESH_Q_RATE = 200, 5, 3e-3
"""At most so many steps, looked at after every few."""
WEIGHTS_LEARNING_RATE = 2e-2
"""Of alpha's logits, by Adam: the value of the tuned combination."""


def solve(
    U0: Tensor, attributes: Sequence[Attribute], config: AlternatingConfig, *, seed: int
) -> tuple[Tensor, dict[str, Any]]:
    """U(alpha) at the end, and the facts: `vclub_in_the_loop` is what the q of the loop believed in its last step.

    Loop, q, radius and optimiser of the matrices are those of the calibration that `config` describes.
    """
    count = len(attributes)
    matrices = [U0.clone() for _ in attributes]
    logits = torch.zeros(count, device=U0.device)
    kind = torch.optim.Adam if config.optimiser == "adam" else torch.optim.SGD
    moving = kind(matrices, lr=config.learning_rate)
    weighing = torch.optim.Adam([logits], lr=WEIGHTS_LEARNING_RATE)
    readers = [
        (target, Estimator(U0[target.rows], target, config.q, seed, "end to end", attribute.name))
        for attribute in attributes
        if not (target := Target.of(attribute, U0.device)).is_constant
    ]
    believed = U0.new_zeros(())
    with progress("Solving end to end", config.steps) as tick:
        for _ in range(config.steps):
            alpha = logits.softmax(dim=0)
            mixture = torch.stack([weight * matrix for weight, matrix in zip(alpha, matrices, strict=True)]).sum(0)
            pull, step = torch.zeros_like(U0), torch.zeros_like(U0)
            believed = U0.new_zeros(())
            for target, estimator in readers:
                rows = mixture[target.rows]
                estimator.follow(rows, target.labels)
                estimate, gradient = estimator.push(rows, target.labels)
                believed = believed + estimate
                pull[target.rows] += gradient
                scale = estimator.q.column_variance * (len(rows) if config.per_user_gradient else 1)
                step[target.rows] += gradient * scale
            for weight, matrix in zip(alpha, matrices, strict=True):
                matrix.grad = weight * step
            slope = torch.stack([(pull * matrix).sum() for matrix in matrices])
            logits.grad = alpha * (slope - alpha @ slope)  # through the softmax
            moving.step()
            weighing.step()
            for matrix in matrices:
                project(matrix, U0, config.ball, config.radius)
            tick()
    alpha = logits.softmax(dim=0)
    release = U0.clone()
    for weight, matrix in zip(alpha, matrices, strict=True):
        release += weight * (matrix - U0)
    return release, {"vclub_in_the_loop": float(believed), "alpha": [round(float(one), 4) for one in alpha]}


def told(U: Tensor, attributes: Sequence[Attribute], *, seed: int, quick: bool = False) -> dict[str, Any]:
    """Two estimates, in nats, of what `U` tells about all attributes together, and about each.

    `printed_q`: vCLUB by the paper's q (its width and rate, 2000 steps), on the users it has learnt from. `fresh_q`: by
    a q that learns fast on columns of one scale and stops in time, on users it has not seen (five folds). The first is
    what the paper can have measured: it rises with what q has learnt by heart and falls where q is slow.
    """
    found: dict[str, Any] = {"printed_q": {}, "fresh_q": {}}
    for attribute in attributes:
        target = Target.of(attribute, U.device)
        if target.is_constant:
            continue
        rows = U[target.rows]
        steps = PRINTED_Q_STEPS // (100 if quick else 1)
        found["printed_q"][attribute.name] = _in_sample(rows, target, steps, seed)
        found["fresh_q"][attribute.name] = _held_out(rows, target, FRESH_Q_STEPS // (4 if quick else 1), seed)
    return {
        kind: {"sum": sum(by_name.values()), "by_attribute": by_name} for kind, by_name in found.items()
    }


def _in_sample(x: Tensor, target: Target, steps: int, seed: int) -> float:
    estimator = Estimator(x, target, VariationalConfig.model_validate({"steps": steps}), seed, "told", "printed")
    estimator.follow(x, target.labels)
    return float(estimator.push(x, target.labels)[0])


def _held_out(x: Tensor, target: Target, steps: int, seed: int) -> float:
    """Mean over folds. Of the other folds one says when to stop: a q that goes on to learn users by heart is surer than
    it should be, and vCLUB then exceeds all there is to know."""
    folds = torch.randperm(len(x), generator=torch_rng(seed, "told", "folds")).to(x.device) % FOLDS
    config, labels = KeepingUp.model_validate({"steps": FRESH_Q_CHUNK, "learning_rate": FRESH_Q_RATE}), target.labels
    total = 0.0
    for fold in range(FOLDS):
        unseen, judge = folds == fold, folds == (fold + 1) % FOLDS
        learnt = ~(unseen | judge)
        estimator = Estimator(x[learnt], target, config, seed, "told", "fresh", fold)
        marginal, best, estimate = estimator.q.marginal(labels), -float("inf"), 0.0
        for _ in range(0, steps, FRESH_Q_CHUNK):
            estimator.follow(x[learnt], labels[learnt])
            with torch.no_grad():
                likelihood = float(estimator.q.log_likelihood(x[judge], labels[judge]))
                if likelihood > best:
                    best = likelihood
                    estimate = float(estimator.q.vclub(x[unseen], labels[unseen], marginal))
        total += estimate / FOLDS
    return total
