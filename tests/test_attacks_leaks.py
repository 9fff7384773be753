"""Every kind of leak is found by a member of the default panel, close to what the best attacker could do and never
beyond it."""

from __future__ import annotations

import numpy as np
import pytest

import oblivec
from audit_contract import check_audit
from oblivec.attacks.panel import PANEL
from oblivec.datasets.planted import plant

N = 1500
KINDS = [
    # kind, dimensions, Bayes accuracy, the member responsible, points it may stay behind
    ("linear", 64, 0.75, "linear", 0.05),
    ("low-variance", 64, 0.75, "linear", 0.05),
    ("cluster", 64, 0.75, "neighbours", 0.08),
    ("interaction", 8, 0.75, "pairs", 0.05),
    ("variance-only", 8, 0.75, "pairs", 0.05),
]


@pytest.mark.parametrize(("kind", "dimensions", "bayes", "member", "behind"), KINDS, ids=[row[0] for row in KINDS])
def test_the_member_responsible_finds_it(kind: str, dimensions: int, bayes: float, member: str, behind: float) -> None:
    """With 1,500 users an estimate has a standard error of 1.1 points and the sample's own best rule another 1.1."""
    assert member in PANEL
    planted = plant(kind, N, dimensions, bayes, seed=4)
    result = oblivec.audit(
        planted.embeddings, {"x": planted.attribute}, attackers=("linear", "pairs", "neighbours"), jobs=1, device="cpu"
    )
    found = check_audit(result.to_json())["attributes"]["x"]
    assert found["verdict"] == "leaks"
    row = found["attackers"][member]
    assert row["bacc"] > planted.bayes_accuracy - behind
    assert row["p_value"] < 0.01
    assert row["ci"][0] < planted.bayes_accuracy  # nobody beats the best rule there is, but for noise
    assert all(other["bacc"] < planted.bayes_accuracy + 4 * 0.0112 for other in found["attackers"].values())


@pytest.mark.parametrize("kind", ["interaction", "variance-only", "cluster"])
def test_what_has_no_direction_is_invisible_to_the_linear_attacker(kind: str) -> None:
    """The panel needs its other members: these leaks leave class means equal."""
    planted = plant(kind, N, 8, 0.75, seed=5)
    result = oblivec.audit(planted.embeddings, {"x": planted.attribute}, attackers=["linear"], jobs=1, device="cpu")
    row = result.to_json()["attributes"]["x"]["attackers"]["linear"]
    assert abs(row["bacc"] - 0.5) < 5 * 0.0129 * np.sqrt(1.5)  # sqrt(0.25 / 1500), and its dependence between folds


def test_a_low_variance_leak_needs_whitening() -> None:
    planted = plant("low-variance", N, 64, 0.75, seed=6)
    found = oblivec.audit(
        planted.embeddings, {"x": planted.attribute}, attackers=("linear", "neighbours"), jobs=1, device="cpu"
    ).to_json()["attributes"]["x"]["attackers"]
    assert found["linear"]["bacc"] > 0.69
    assert found["neighbours"]["bacc"] < 0.58


@pytest.mark.parametrize("counts", [(1, 1, 1), (0.7, 0.2, 0.1)], ids=["balanced", "imbalanced"])
def test_more_classes_and_imbalance(counts: tuple[float, ...]) -> None:
    """Balanced accuracy does not depend on the shares; rare classes are weighed up, not ignored."""
    planted = plant("linear", N, 8, 0.7, class_counts=counts, seed=7)
    result = oblivec.audit(planted.embeddings, {"x": planted.attribute}, attackers=["linear"], jobs=1, device="cpu")
    found = check_audit(result.to_json())["attributes"]["x"]
    assert found["chance"] == pytest.approx(1 / 3)
    assert found["verdict"] == "leaks"
    # The rarest class has 150 users: its recall has a standard error of 3.7 points, the mean of three one of 1.5.
    assert found["attackers"]["linear"]["bacc"] == pytest.approx(0.7, abs=4 * 0.015)


def test_no_leak_no_alarm() -> None:
    planted = plant("none", N, 16, 0.5, seed=8)
    result = oblivec.audit(
        planted.embeddings, {"x": planted.attribute}, attackers=("linear", "pairs", "neighbours"), jobs=1, device="cpu"
    )
    assert not result.leaks


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "dimensions"), [("linear", 64), ("low-variance", 64), ("cluster", 64),
                                                  ("interaction", 8), ("variance-only", 8)])
def test_the_whole_panel_finds_it_and_nobody_beats_the_best_rule(kind: str, dimensions: int) -> None:
    planted = plant(kind, N, dimensions, 0.68, seed=9)
    result = oblivec.audit(planted.embeddings, {"x": planted.attribute}, device="cpu")
    found = check_audit(result.to_json())["attributes"]["x"]
    assert found["verdict"] == "leaks"
    assert list(found["attackers"]) == list(PANEL)
    # Largest of eight estimates with a standard error of 1.2 points each.
    assert max(row["bacc"] for row in found["attackers"].values()) < 0.68 + 4 * 0.012


@pytest.mark.slow
def test_noise_raises_no_more_alarms_than_it_may() -> None:
    """Sixty audits of noise, three attributes each: binomial(60, 0.05) exceeds 8 with probability 0.003."""
    rng = np.random.default_rng(0)
    alarms = 0
    for seed in range(60):
        U = rng.standard_normal((300, 6)).astype(np.float32)
        attributes = {
            "two": rng.integers(0, 2, 300), "rare": (rng.random(300) < 0.1).astype(int), "value": rng.random(300)
        }
        alarms += oblivec.audit(U, attributes, attackers=("linear", "neighbours"), seed=seed, jobs=1).leaks
    assert alarms <= 8


@pytest.mark.slow
def test_the_trap_is_never_taken_for_privacy() -> None:
    """Class means made exactly equal in sample, over several shapes: below chance every time."""
    for seed, (n, d, classes) in enumerate([(400, 16, 2), (600, 64, 2), (600, 32, 3), (1200, 64, 4)]):
        rng = np.random.default_rng(seed)
        U, labels = rng.standard_normal((n, d)), rng.permutation(np.arange(n) % classes)
        for c in range(classes):
            U[labels == c] -= U[labels == c].mean(0)
        found = oblivec.audit(U, {"x": labels}, attackers=("linear", "mlp", "pairs"), jobs=1).to_json()
        assert found["attributes"]["x"]["verdict"] == "below_chance"
