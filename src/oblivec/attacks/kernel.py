"""An RBF-kernel machine by random Fourier features."""

from __future__ import annotations

import math

import torch

from oblivec.attacks.base import Attacker, Problem, Scores, register
from oblivec.attacks.ridge import Features, ridge_attack
from oblivec.attacks.scaling import standardise

FEATURES = 512
WIDTHS = (0.35, 1.0)
"""Kernel widths as multiples of the typical distance between users: one local, one wide."""


@register
class Kernel(Attacker):
    name = "kernel"
    says = "a kernel machine: sees any smooth shape, near and far"
    batched = True
    repeats = 4
    fold_dependence = 1.2

    def attack(self, problem: Problem, device: torch.device) -> Scores:
        return ridge_attack(problem, device, _fourier_features)


def _fourier_features(train: torch.Tensor, rng: torch.Generator) -> Features:
    scale = standardise(train)
    d = len(scale.matrix)
    typical = math.sqrt(2 * d)  # distance between two standardised users
    widths = torch.tensor(WIDTHS).repeat_interleave(FEATURES // len(WIDTHS)) * typical
    directions = torch.randn(d, FEATURES, generator=rng) / widths
    phase = torch.rand(FEATURES, generator=rng) * 2 * math.pi
    # The first feature has no direction and no phase: its cosine is the constant 1.
    directions = torch.nn.functional.pad(directions, (1, 0)).to(train.device)
    phase = torch.nn.functional.pad(phase, (1, 0)).to(train.device)

    def features(x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(phase, scale(x), directions).cos_()

    return features
