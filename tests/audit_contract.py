"""The audit JSON, to the letter: what every audit must look like, whatever it audited."""

from __future__ import annotations

import json
from typing import Any

TOP = ["protocol", "threat", "margin", "seed", "p_value", "users", "dimensions", "attributes", "threats"]
ATTRIBUTE = ["chance", "n", "missing", "p_value", "worst", "verdict", "smallest_leak", "attackers"]
LEVEL = 0.05


def check_audit(audit: dict[str, Any], margin: float = 0.03) -> dict[str, Any]:
    """Check keys, ranges, and that verdicts follow from p-values and intervals; returns the audit."""
    json.dumps(audit, allow_nan=False)
    assert list(audit)[: len(TOP)] == TOP
    assert set(audit) - set(TOP) <= {"before", "notes"}
    assert audit["protocol"] in ("panel", "paper")
    assert audit["margin"] == margin
    assert isinstance(audit["seed"], int)
    assert next(iter(audit["threats"])) == audit["threat"]
    assert audit["threats"][audit["threat"]]["attributes"] == audit["attributes"]
    found = [attribute for threat in audit["threats"].values() for attribute in threat["attributes"].values()]
    assert all(threat["who"] and threat["attributes"] for threat in audit["threats"].values())
    for attribute in found:
        check_attribute(attribute, margin)
        assert attribute["n"] + attribute["missing"] <= audit["users"]
    assert audit["p_value"] == min(attribute["p_value"] for attribute in found)
    return audit


def check_attribute(attribute: dict[str, Any], margin: float) -> None:
    assert list(attribute)[: len(ATTRIBUTE)] == ATTRIBUTE
    assert set(attribute) - set(ATTRIBUTE) <= {"users_to_decide", "notes"}
    assert isinstance(attribute["n"], int)
    assert isinstance(attribute["missing"], int)
    assert attribute["n"] > 0
    assert attribute["missing"] >= 0
    assert 0 < attribute["p_value"] <= 1
    assert attribute["smallest_leak"] > 0
    attackers, chance = attribute["attackers"], attribute["chance"]
    continuous = all("r2" in attacker for attacker in attackers.values())
    metric = "r2" if continuous else "bacc"
    keys = [metric, "ci", "p_value"] if continuous else [metric, "ci", "micro_f1", "auc", "p_value"]
    for attacker in attackers.values():
        assert list(attacker) == keys
        low, high = attacker["ci"]
        assert low <= attacker[metric] <= high <= 1
        assert 0 < attacker["p_value"] <= 1
        if not continuous:
            assert low >= 0
            assert all(0 <= attacker[rate] <= 1 for rate in ("bacc", "micro_f1", "auc"))
    assert attribute["p_value"] >= min(row["p_value"] for row in attackers.values())  # corrected: never smaller
    if continuous:
        assert chance == 0
    else:
        assert round(1 / chance) == 1 / chance >= 2
    distance = {name: row[metric] - chance if continuous else abs(row[metric] - chance)
                for name, row in attackers.items()}
    assert distance[attribute["worst"]] == max(distance.values())
    check_verdict(attribute, metric, margin)


def check_verdict(attribute: dict[str, Any], metric: str, margin: float) -> None:
    verdict, chance = attribute["verdict"], attribute["chance"]
    inside = all(
        row["ci"][1] <= chance + margin and (metric == "r2" or row["ci"][0] >= chance - margin)
        for row in attribute["attackers"].values()
    )
    if attribute["p_value"] < LEVEL:
        assert verdict in (("leaks",) if metric == "r2" else ("leaks", "below_chance"))
    else:
        assert verdict == ("at_chance" if inside else "undecided")
    assert ("users_to_decide" in attribute) == (verdict == "undecided")
    if verdict == "undecided":
        assert isinstance(attribute["users_to_decide"], int)
        assert attribute["users_to_decide"] > attribute["n"]
