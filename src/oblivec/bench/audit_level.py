"""Does the audit hold its level? Pure noise of several shapes, and the trap of class means made equal in sample.

Targets: at most 5 % of audits raise a false alarm (plus Monte-Carlo error), at N = 6,000 at least 80 % of verdicts are
`at_chance`, the trap is never at chance. Also measured: `fold_dependence` of every attacker.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from oblivec.attacks.base import REGISTRY
from oblivec.bench.audit_simulations import Matrix, Scenario, noise_labels, run_scenarios, share_with_error
from oblivec.randomness import numpy_rng

GENDER, AGE = (0.72, 0.28), (0.22, 0.35, 0.43)
OCCUPATION = (
    12.6, 8.7, 4.4, 3.2, 12.6, 1.8, 3.9, 11.2, 0.3, 1.5, 3.2, 2.1, 6.4, 2.3, 5.0, 2.4, 4.0, 8.3, 1.2, 1.2, 4.7,
)
"""Class shares of MovieLens-1M."""
HALVES, FIVE = (0.5, 0.5), (0.5, 0.2, 0.1, 0.1, 0.1)

SHAPES: dict[str, tuple[int, int, dict[str, Sequence[float]], int]] = {
    "6000 x 32, 2 (72/28), 3 and 21 classes": (6000, 32, {"gender": GENDER, "age": AGE, "occupation": OCCUPATION}, 16),
    "6000 x 8, 2 and 5 classes": (6000, 8, {"halves": HALVES, "five": FIVE}, 16),
    "1000 x 64, 2 and 5 classes": (1000, 64, {"halves": HALVES, "five": FIVE}, 40),
    "300 x 8, 2 (30/70) and 3 classes": (300, 8, {"gender": (0.3, 0.7), "age": AGE}, 60),
    "500 x 2, 5 classes": (500, 2, {"five": FIVE}, 40),
    "150 x 200, 2 classes": (150, 200, {"halves": HALVES}, 40),
}


def run(
    quick: bool = False, enough_seconds: float = float("inf"), jobs: int | None = None, resume: Path | None = None
) -> dict[str, Any]:
    """`quick`: two audits of the smallest shapes."""
    shapes = {name: shape for name, shape in SHAPES.items() if not quick or shape[0] < 1000}
    scenarios = [
        Scenario(name, partial(noise, n, d, attributes), 2 if quick else audits, enough_seconds)
        for name, (n, d, attributes, audits) in shapes.items()
    ]
    caught_in = partial(trap, 1000 if quick else 6000, 32, {"gender": GENDER})
    scenarios.append(Scenario("trap", caught_in, 2 if quick else 4, enough_seconds))
    found = run_scenarios(scenarios, jobs, resume)
    caught = found.pop("trap")
    audits = [audit for results in found.values() for audit in results]
    large = [audit for name, results in found.items() if name.startswith("6000") for audit in results]
    verdicts = [a["verdict"] for audit in large for a in audit["attributes"].values()]
    return {
        "false_alarms": share_with_error(sum(audit["p_value"] < 0.05 for audit in audits), len(audits)),
        "false_alarms_by_shape": {
            name: share_with_error(sum(audit["p_value"] < 0.05 for audit in results), len(results))
            for name, results in found.items()
        },
        "at_chance_at_6000": share_with_error(verdicts.count("at_chance"), len(verdicts)),
        "verdicts_at_6000": {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))},
        "trap": {
            "below_chance": sum(audit["attributes"]["gender"]["verdict"] == "below_chance" for audit in caught),
            "of": len(caught),
        },
        "fold_dependence": _fold_dependence(audits),
        "seconds_per_audit": {
            name: float(np.mean([audit["seconds"] for audit in results])) for name, results in found.items() if results
        },
    }


def noise(n: int, d: int, attributes: dict[str, Sequence[float]], seed: int) -> Matrix:
    U = numpy_rng(seed, "matrix", n, d).normal(size=(n, d)).astype(np.float32)
    return U, {name: noise_labels(priors, n, name, seed) for name, priors in attributes.items()}


def trap(n: int, d: int, attributes: dict[str, Sequence[float]], seed: int) -> Matrix:
    """Noise whose class means were made exactly equal in sample: the labels are in it, with their sign flipped."""
    U, labels = noise(n, d, attributes, seed)
    for attribute in labels.values():
        for code in range(len(attribute.classes)):
            U[attribute.values == code] -= U[attribute.values == code].mean(0)
    return U, labels


def _fold_dependence(audits: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Per attacker: what the code assumes, and the variance of its estimates relative to what it would be were users
    independent (the interval's half width says what was assumed)."""
    found = {}
    for name, attacker in REGISTRY.items():
        ratios = []
        for audit in audits:
            for result in audit["attributes"].values():
                if name in result["attackers"] and result["n"] / (1 / result["chance"]) > 50:
                    row = result["attackers"][name]
                    error = (row["ci"][1] - row["ci"][0]) / 2 / 1.959964
                    ratios.append(((row["bacc"] - result["chance"]) / error) ** 2)
        if ratios:
            measured = attacker.fold_dependence * float(np.mean(ratios))
            found[name] = {"assumed": attacker.fold_dependence, "measured": measured, "cases": len(ratios)}
    return found
