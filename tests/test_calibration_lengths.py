"""Lengths of rows: a leak that no single direction shows."""

from __future__ import annotations

import numpy as np
import torch

from calibrator_contract import noise
from oblivec.calibration.groups import Groups
from oblivec.calibration.lengths import deal_lengths
from oblivec.calibration.removal import RemovalConfig, remove
from oblivec.datasets.attributes import Attribute
from oblivec.information.target import Target
from oblivec.randomness import torch_rng

USERS, DIRECTIONS = 3000, 64


def groups_of(labels: torch.Tensor) -> tuple[Target, Groups]:
    target = Target.of(Attribute("a", "categorical", labels.numpy(), ("x", "y")))
    return target, Groups.by_class(target)


def leak() -> tuple[torch.Tensor, torch.Tensor]:
    """One group's rows are all about as long, the other's are long or short; their covariances are the same."""
    labels = (torch.rand(USERS, generator=torch_rng(0, "labels")) < 0.5).long()
    stretch = torch.where(torch.rand(USERS, generator=torch_rng(1, "stretch")) < 0.5, 0.8, 1.166)
    return noise(USERS, DIRECTIONS) * torch.where(labels == 1, stretch, 1.0)[:, None], labels


def read(U: torch.Tensor, labels: torch.Tensor) -> float:
    """Balanced accuracy of a threshold on how far lengths are from the middle, fitted on half, judged on the rest."""
    lengths = (U - U.mean(0)).norm(dim=1).log()
    away = (lengths - lengths.median()).abs().numpy()
    first, second = (np.arange(USERS) % 2 == half for half in (0, 1))
    cuts = np.quantile(away, np.linspace(0.05, 0.95, 40))

    def accuracy(cut: float, users: np.ndarray) -> float:
        far, member = away[users] > cut, labels.numpy()[users] == 1
        return float(far[member].mean() + (~far[~member]).mean()) / 2

    best = max(cuts, key=lambda cut: accuracy(cut, first))
    return accuracy(best, second)


def test_lengths_no_longer_tell() -> None:
    U, labels = leak()
    assert read(U, labels) > 0.75
    release = remove(U, [groups_of(labels)[0]], RemovalConfig.model_validate({}), 0, "a")
    assert read(release, labels) < 0.55  # 1,500 users: three standard errors are 0.04


def test_where_no_length_stands_out_nothing_moves() -> None:
    U = noise(USERS, DIRECTIONS)
    labels = (torch.rand(USERS, generator=torch_rng(0, "labels")) < 0.5).long()
    assert torch.equal(deal_lengths(U, groups_of(labels)[1], torch_rng(0, "deal")), U)


def test_rows_keep_their_directions_and_lengths_as_a_whole() -> None:
    U, labels = leak()
    dealt = deal_lengths(U, groups_of(labels)[1], torch_rng(0, "deal"))
    assert torch.nn.functional.cosine_similarity(U, dealt).min() > 0.9999
    # Every group has lengths that some random group of its size had: drawn twice, some come twice and some not at all.
    assert abs(float(dealt.norm(dim=1).log().std() / U.norm(dim=1).log().std()) - 1) < 0.05
