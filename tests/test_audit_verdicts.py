"""From numbers to words: the rules of the four verdicts, and what would decide an undecided one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oblivec.audit.result import AttackerResult
from oblivec.audit.verdicts import farthest, judge, users_to_decide


def result(score: float, half: float = 0.01) -> AttackerResult:
    return AttackerResult(score, (score - half, score + half), 0.5)


def verdict(attackers: dict[str, AttackerResult], p_value: float, z: float, continuous: bool = False) -> str:
    chance = 0.0 if continuous else 0.5
    return judge(attackers, {"a": np.array([z, 0.1])}, chance=chance, margin=0.03, p_value=p_value,
                 continuous=continuous)


@pytest.mark.parametrize(
    ("score", "half", "p_value", "z", "expected"),
    [
        (0.60, 0.02, 0.001, 5.0, "leaks"),
        (0.40, 0.02, 0.001, -5.0, "below_chance"),
        (0.515, 0.01, 0.04, 3.0, "leaks"),  # small, inside the margin, and beyond doubt
        (0.485, 0.01, 0.04, -3.0, "below_chance"),
        (0.51, 0.01, 0.06, 2.0, "at_chance"),
        (0.51, 0.03, 0.06, 2.0, "undecided"),
        (0.49, 0.03, 0.50, -1.0, "undecided"),
        (0.60, 0.10, 0.05, 2.0, "undecided"),  # at the level is not under it
        (0.40, 0.02, 0.20, -2.0, "undecided"),  # low is never at chance
    ],
)
def test_the_rules(score: float, half: float, p_value: float, z: float, expected: str) -> None:
    assert verdict({"a": result(score, half)}, p_value, z) == expected


def test_every_attacker_must_lie_within_the_margin() -> None:
    inside, outside = result(0.5), result(0.53)
    assert verdict({"a": inside, "b": inside}, 0.5, 0.0) == "at_chance"
    assert verdict({"a": inside, "b": outside}, 0.5, 0.0) == "undecided"


def test_a_continuous_attribute_is_judged_one_sided() -> None:
    worse_than_the_mean = {"a": result(-0.4, 0.1)}
    assert verdict(worse_than_the_mean, 0.9, -3.0, continuous=True) == "at_chance"
    assert verdict(worse_than_the_mean, 0.01, -3.0, continuous=True) == "leaks"
    assert verdict({"a": result(0.02, 0.02)}, 0.2, 1.0, continuous=True) == "undecided"


def test_the_worst_is_the_farthest_in_either_direction() -> None:
    attackers = {"up": result(0.53), "down": result(0.45), "at": result(0.5)}
    assert farthest(attackers, 0.5, continuous=False) == "down"
    assert farthest({"a": result(-0.9), "b": result(0.1)}, 0.0, continuous=True) == "b"


@settings(deadline=None)
@given(st.floats(0.3, 0.7), st.floats(0.001, 0.2), st.floats(-2.5, 2.5), st.integers(10, 100_000))
def test_more_users_than_there_are_would_decide(score: float, half: float, z: float, n: int) -> None:
    wanted = users_to_decide(
        {"a": result(score, half)}, {"a": np.array([z])}, chance=0.5, margin=0.03, n=n, critical=2.7, continuous=False
    )
    assert n < wanted <= 2e6 * n


def test_four_times_the_users_halve_an_interval() -> None:
    """At chance with an interval of 6 points and a margin of 3: four times the users make it fit."""
    wanted = users_to_decide(
        {"a": result(0.5, 0.06)}, {"a": np.array([0.0])}, chance=0.5, margin=0.03, n=1000, critical=2.7,
        continuous=False,
    )
    assert wanted == pytest.approx(4000, rel=0.03)  # rounded up to two digits


def test_outside_the_margin_the_leak_itself_would_be_found() -> None:
    wanted = users_to_decide(
        {"a": result(0.55, 0.06)}, {"a": np.array([1.35])}, chance=0.5, margin=0.03, n=1000, critical=2.7,
        continuous=False,
    )
    assert wanted == pytest.approx(4000, rel=0.03)
