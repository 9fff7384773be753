"""Does the audit find small leaks? Planted leaks of 5 points at N = 6,000, each hidden in another place.

Target: at least 95 % found, for linear and cluster leaks in 64 dimensions, interaction and variance-only leaks in 8.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from oblivec.bench.audit_simulations import Matrix, Scenario, run_scenarios, share_with_error
from oblivec.datasets.planted import plant

LEAKS = {"linear": 64, "cluster": 64, "interaction": 8, "variance-only": 8}
"""Kind of leak and number of dimensions."""
BAYES_ACCURACY = 0.55
USERS = 6000


def run(
    quick: bool = False, enough_seconds: float = float("inf"), jobs: int | None = None, resume: Path | None = None
) -> dict[str, Any]:
    """`quick`: one audit per kind, of fewer users and stronger leaks."""
    users, accuracy, audits = (1500, 0.7, 1) if quick else (USERS, BAYES_ACCURACY, 40)
    scenarios = [
        Scenario(kind, partial(planted, kind, users, d, accuracy), audits, enough_seconds) for kind, d in LEAKS.items()
    ]
    found = run_scenarios(scenarios, jobs, resume)
    return {
        "users": users, "bayes_accuracy": accuracy,
        "found": {
            kind: share_with_error([_verdict(audit) for audit in audits].count("leaks"), len(audits))
            | {
                "dimensions": LEAKS[kind],
                "mean_of_best_attacker": float(np.mean([_best(audit) for audit in audits])),
                "most_significant_attacker": dict(Counter(_first(audit) for audit in audits).most_common(3)),
            }
            for kind, audits in found.items() if audits
        },
    }


def planted(kind: str, users: int, d: int, accuracy: float, seed: int) -> Matrix:
    drawn = plant(kind, users, d, accuracy, seed=seed)
    return drawn.embeddings, {"planted": replace(drawn.attribute, name="planted")}


def _verdict(audit: dict[str, Any]) -> str:
    return audit["attributes"]["planted"]["verdict"]


def _best(audit: dict[str, Any]) -> float:
    return max(row["bacc"] for row in audit["attributes"]["planted"]["attackers"].values())


def _first(audit: dict[str, Any]) -> str:
    rows = audit["attributes"]["planted"]["attackers"]
    return min(rows, key=lambda name: (rows[name]["p_value"], -rows[name]["bacc"]))
