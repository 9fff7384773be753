"""Audit results that look like real ones, for tests of what is made of them. No attacker is run."""

from __future__ import annotations

import numpy as np

from oblivec.audit.density import density_view
from oblivec.audit.result import AttackerResult, AttributeResult, AuditResult, ThreatResult, Verdict
from oblivec.datasets.attributes import categorical, continuous
from oblivec.randomness import numpy_rng

WHO = {
    "embeddings": "Sees the released matrix and knows the attribute of some users.",
    "differencing": "Also holds an older matrix, and looks at what changed.",
    "recommendations": "Sees only the lists of recommended items.",
    "parameters": "Sees every user-side parameter of the trained model, also those the method left alone.",
    "interactions": "Sees the raw history; no model is involved.",
    "unlabelled": "Attacks exactly the users whose label the platform did not have.",
}
PANEL = ("paper", "linear", "mlp", "kernel", "quadratic", "neighbours", "boosting", "forest")


def attribute_result(
    name: str, sizes: tuple[int, ...] = (), *, gain: float = 0.0, verdict: Verdict = "at_chance",
    half_width: float = 0.012, n: int = 6040, missing: int = 0, seed: int = 0, notes: tuple[str, ...] = (),
) -> AttributeResult:
    """`gain` is how far the strongest attacker is from chance; no class sizes make it a continuous attribute."""
    rng = numpy_rng(seed, "fake", name)
    chance = 1 / len(sizes) if sizes else 0.0
    gain = max(gain, -0.6 * chance)
    attackers = {}
    for k, kind in enumerate(PANEL):
        score = chance + gain * (1 - 0.09 * k) + rng.normal(0, half_width / 5)
        attackers[kind] = AttackerResult(
            score, (score - half_width, score + half_width), float(0.0004 if abs(gain) > 2 * half_width else 0.4),
            micro_f1=score + 0.02 if sizes else None, auc=0.5 + gain / 2 if sizes else None,
            confusion=_confusion(sizes, score, rng) if sizes else None,
        )
    worst = max(attackers, key=lambda kind: abs(attackers[kind].score - chance))
    p_value = 0.0009 if verdict in ("leaks", "below_chance") else 0.41
    return AttributeResult(
        name, not sizes, chance, sum(sizes) or n, missing, sizes, p_value, worst, verdict, attackers,
        smallest_leak=2 * half_width, users_to_decide=24_000 if verdict == "undecided" else None, notes=notes,
    )


def _confusion(sizes: tuple[int, ...], accuracy: float, rng: np.random.Generator) -> np.ndarray:
    k = len(sizes)
    shares = np.full((k, k), (1 - accuracy) / max(k - 1, 1)) * rng.uniform(0.7, 1.3, (k, k))
    np.fill_diagonal(shares, accuracy)
    return np.array([rng.multinomial(size, row / row.sum()) for size, row in zip(sizes, shares, strict=True)])


GENDER, AGE = (4331, 1709), (2619, 2096, 1325)
OCCUPATION = tuple(int(1100 * 0.8**k) + 7 for k in range(21))


def everything() -> AuditResult:
    """Every verdict, 2, 3 and 21 classes, a continuous attribute, two threats, a baseline, views and notes."""
    after = {
        "gender": attribute_result("gender", GENDER, gain=0.002),
        "age": attribute_result("age", AGE, gain=0.09, verdict="leaks", missing=4),
        "occupation": attribute_result(
            "occupation", OCCUPATION, gain=0.004, verdict="undecided", half_width=0.03, missing=312
        ),
        "region": attribute_result("region", (3000, 3040)[::-1], gain=-0.06, verdict="below_chance"),
        "income": attribute_result("income", gain=0.11, verdict="leaks"),
    }
    before = {
        "gender": attribute_result("gender", GENDER, gain=0.22, verdict="leaks", seed=1),
        "age": attribute_result("age", AGE, gain=0.24, verdict="leaks", seed=1),
        "occupation": attribute_result("occupation", OCCUPATION, gain=0.09, verdict="leaks", half_width=0.03, seed=1),
        "region": attribute_result("region", (3040, 3000), gain=0.12, verdict="leaks", seed=1),
        "income": attribute_result("income", gain=0.31, verdict="leaks", seed=1),
    }
    history = {
        name: attribute_result(name, found.class_sizes, gain=0.2, verdict="leaks", seed=2)
        for name, found in after.items()
    }
    return AuditResult(
        protocol="panel", margin=0.03, seed=7, p_value=0.0007, users=6352, dimensions=32,
        threats={
            "embeddings": ThreatResult("embeddings", WHO["embeddings"], after),
            "interactions": ThreatResult("interactions", WHO["interactions"], history),
        },
        before=ThreatResult("embeddings", WHO["embeddings"], before),
        views=views(), untested={name: who for name, who in WHO.items() if name not in ("embeddings", "interactions")},
        notes=("5,000 of 6,352 users were drawn at random for the slow attackers.",),
    )


def views(n: int = 6040, seed: int = 0) -> tuple:
    """Gender lies everywhere, age apart, occupation a little, income along one direction."""
    rng = numpy_rng(seed, "views")
    U = rng.normal(size=(n, 16))
    age = rng.choice(3, size=n, p=[0.43, 0.35, 0.22])
    U[:, 0] += 1.2 * age
    occupation = rng.choice(21, size=n, p=np.array(OCCUPATION) / sum(OCCUPATION))
    U[:, 3] += 0.8 * (occupation < 3)
    income = U[:, 5] + rng.normal(size=n)
    attributes = (
        categorical("gender", rng.choice(2, size=n, p=[0.72, 0.28])), categorical("age", age),
        categorical("occupation", occupation), continuous("income", income),
    )
    return tuple(density_view(U, attribute, seed) for attribute in attributes)


def all_clear() -> AuditResult:
    """One threat, two attributes, nothing found, no baseline."""
    found = {
        "gender": attribute_result("gender", GENDER, gain=0.002), "age": attribute_result("age", AGE, gain=0.001),
    }
    return AuditResult(
        protocol="panel", margin=0.03, seed=0, p_value=0.6, users=6040, dimensions=32,
        threats={"embeddings": ThreatResult("embeddings", WHO["embeddings"], found)},
        untested={name: who for name, who in WHO.items() if name != "embeddings"},
    )


def crowded() -> AuditResult:
    """Ten attributes, one with a very long name, under six threats."""
    names = [f"attribute {k}" for k in range(9)] + ["a_column_with_a_very_long_name_that_nobody_shortened_" * 2]
    verdicts: tuple[Verdict, ...] = ("at_chance", "leaks", "undecided", "below_chance")
    threats = {}
    for t, (threat, who) in enumerate(WHO.items()):
        found = {}
        for k, name in enumerate(names):
            verdict = verdicts[(k + t) % 4]
            gain = {"at_chance": 0.0, "leaks": 0.08, "undecided": 0.01, "below_chance": -0.07}[verdict]
            sizes = (OCCUPATION, AGE, GENDER)[k % 3]
            found[name] = attribute_result(name, sizes, gain=gain, verdict=verdict, seed=t)
        threats[threat] = ThreatResult(threat, who, found)
    return AuditResult("panel", 0.03, 0, 0.0004, 6040, 64, threats)
