"""What each attacker holds: that it is used, that nothing else is, and that what is missing is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from audit_contract import check_audit
from oblivec.attacks.threats import LIST_LENGTHS, SKETCH_DIMENSIONS, THREATS, Evidence, sketch, top_items
from oblivec.audit.run import run_audit
from oblivec.datasets.attributes import MISSING, Attribute
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.errors import BadInput
from oblivec.recommenders import Recommender, recommender

USERS, ITEMS = 240, 120
LABELS = np.arange(USERS) % 2


def normal(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def interactions(chance: np.ndarray | float, seed: int = 2) -> csr_matrix:
    return csr_matrix((np.random.default_rng(seed).random((USERS, ITEMS)) < chance).astype(np.float32))


NOISE = normal(USERS, 4, seed=0)
TRAIN = interactions(0.05)


def attribute(labels: np.ndarray, name: str = "a") -> Attribute:
    return Attribute(name, "categorical", labels, ("x", "y"))


def threaten(*threats: str, attackers: tuple[str, ...] = ("linear",), **held: Any) -> dict[str, Any]:
    evidence = Evidence(**({"embeddings": NOISE, "attributes": {"a": attribute(LABELS)}} | held))
    return check_audit(
        run_audit(evidence, threats=threats, attackers=attackers, jobs=1, device="cpu").to_json()
    )["threats"]


def leak(vectors: np.ndarray, labels: np.ndarray = LABELS, gap: float = 3.0) -> np.ndarray:
    """The labels, readable in the first column."""
    leaking = vectors.copy()
    leaking[:, 0] += gap * labels
    return leaking


@pytest.fixture(scope="module")
def ncf() -> Recommender:
    """Two tables side by side, four dimensions each."""
    model = recommender("ncf", dimensions=4, epochs=1, steps_per_epoch=1)
    return model.fit(LeaveOneOut(TRAIN, np.full(USERS, -1), "file-order"), device="cpu")


# differencing ---------------------------------------------------------------------------------------------------------


def test_the_difference_of_two_releases_tells_what_was_done_to_each_class() -> None:
    """A label-aware edit, too small to be seen in the release, is read from the difference almost perfectly."""
    edit = np.array([[0.01, 0, 0, 0], [0, 0.01, 0, 0]])[LABELS] + 1e-4 * normal(USERS, 4)
    found = threaten("embeddings", "differencing", embeddings=NOISE + edit, baseline=NOISE)
    assert found["embeddings"]["attributes"]["a"]["verdict"] == "undecided"
    assert found["differencing"]["attributes"]["a"]["verdict"] == "leaks"
    assert found["differencing"]["attributes"]["a"]["attackers"]["linear"]["bacc"] > 0.99


def test_a_baseline_alone_shows_before_and_after() -> None:
    evidence = Evidence(NOISE, {"a": attribute(LABELS)}, baseline=leak(NOISE))
    result = run_audit(evidence, attackers=["linear"], jobs=1, device="cpu")
    assert result.before is not None
    assert result.before.attributes["a"].verdict == "leaks"
    assert result.main.attributes["a"].verdict == "undecided"
    assert not result.leaks  # the past is no leak of this release
    assert result.to_json()["before"]["attributes"]["a"]["verdict"] == "leaks"
    without = run_audit(Evidence(NOISE, {"a": attribute(LABELS)}), attackers=["linear"], jobs=1, device="cpu")
    assert result.to_json()["attributes"] == without.to_json()["attributes"]  # and costs it nothing


def test_a_baseline_of_another_width_is_refused() -> None:
    with pytest.raises(BadInput, match="the baseline has 3 dimensions, the embeddings 4"):
        threaten("differencing", baseline=NOISE[:, :3])


# recommendations ------------------------------------------------------------------------------------------------------


def test_lists_are_the_best_unseen_items() -> None:
    items = normal(ITEMS, 4)
    evidence = Evidence(NOISE, {}, items=items, history=TRAIN)
    lists = top_items(evidence, 10)
    scores = NOISE @ items.T
    scores[TRAIN.toarray() > 0] = -np.inf
    np.testing.assert_array_equal(lists, np.argsort(-scores, axis=1)[:, :10])


def test_recommendations_give_away_what_moves_them() -> None:
    """Both as sets of items and as mean item vectors, in both lengths."""
    items = normal(ITEMS, 4)
    audit = threaten("recommendations", embeddings=leak(NOISE, gap=6.0), items=items)
    found = audit["recommendations"]["attributes"]["a"]
    views = {f"linear@top{length}{kind}" for length in LIST_LENGTHS for kind in ("", "-mean")}
    assert set(found["attackers"]) == views
    assert found["verdict"] == "leaks"
    for name in ("linear@top10", "linear@top10-mean"):
        assert found["attackers"][name]["bacc"] > 0.7


def test_recommendations_of_a_release_without_the_leak_say_nothing() -> None:
    items = normal(ITEMS, 4)
    assert threaten("recommendations", items=items)["recommendations"]["attributes"]["a"]["verdict"] == "undecided"


def test_a_trained_model_makes_the_lists_of_the_release(ncf: Recommender) -> None:
    """The release takes the place of the model's own users, and an NCF has no item vectors: sets only."""
    release = leak(ncf.user_matrix(), gap=2.0)
    evidence = Evidence(release, {}, model=ncf, history=TRAIN)
    scores = ncf.with_user_matrix(release).scores(torch.arange(USERS)).clone()
    scores[torch.as_tensor(TRAIN.toarray() > 0)] = -torch.inf
    np.testing.assert_array_equal(np.sort(top_items(evidence, 5)), np.sort(scores.topk(5).indices.numpy()))
    found = threaten("recommendations", embeddings=release, model=ncf, history=TRAIN)["recommendations"]
    assert set(found["attributes"]["a"]["attackers"]) == {"linear@top10", "linear@top100"}


def test_fewer_items_than_the_lists_are_long() -> None:
    items = normal(7, 4)
    found = threaten("recommendations", items=items)["recommendations"]["attributes"]["a"]
    assert found["verdict"] in ("undecided", "at_chance")


def test_items_of_another_width_are_refused() -> None:
    with pytest.raises(BadInput, match="items have 3 dimensions, users 4"):
        threaten("recommendations", items=np.ones((9, 3), dtype=np.float32))


# parameters -----------------------------------------------------------------------------------------------------------


def test_a_leak_left_in_the_untouched_half_is_found(ncf: Recommender) -> None:
    """The release replaces the first table; the model still keeps the second."""
    own = ncf.user_matrix()
    own[:, 4:] = leak(own[:, 4:])
    model = ncf.with_user_matrix(own)
    found = threaten("embeddings", "parameters", embeddings=NOISE, model=model)
    assert found["embeddings"]["attributes"]["a"]["verdict"] == "undecided"
    assert found["parameters"]["attributes"]["a"]["verdict"] == "leaks"


def test_what_the_release_replaced_is_no_longer_held(ncf: Recommender) -> None:
    model = ncf.with_user_matrix(leak(ncf.user_matrix()))
    clean = normal(USERS, 8)
    found = threaten("parameters", embeddings=clean, model=model)
    assert found["parameters"]["attributes"]["a"]["verdict"] == "undecided"


def test_a_release_that_fits_no_table_is_refused(ncf: Recommender) -> None:
    with pytest.raises(BadInput, match=r"have 3 dimensions, the model's user tables \[4, 4\]"):
        threaten("parameters", embeddings=NOISE[:, :3], model=ncf)


# interactions ---------------------------------------------------------------------------------------------------------


def test_the_reference_line_reads_the_history_itself() -> None:
    chance = np.where((np.arange(ITEMS) % 2)[None] == LABELS[:, None], 0.15, 0.05)
    history = interactions(chance)
    found = threaten("embeddings", "interactions", history=history)
    assert found["embeddings"]["attributes"]["a"]["verdict"] == "undecided"
    reference = found["interactions"]["attributes"]["a"]
    assert reference["verdict"] == "leaks"
    assert set(reference["attackers"]) == {"linear", "bayes"}
    assert reference["attackers"]["bayes"]["bacc"] > 0.8


def test_a_continuous_attribute_has_no_naive_bayes() -> None:
    values = {"v": Attribute("v", "continuous", normal(USERS).astype(np.float64))}
    found = threaten("interactions", attributes=values, history=TRAIN)["interactions"]["attributes"]["v"]
    assert set(found["attackers"]) == {"linear"}


def test_the_sketch_is_narrow_and_repeatable() -> None:
    one, same = (sketch(TRAIN, 0) for _ in range(2))
    assert one.shape == (USERS, SKETCH_DIMENSIONS)
    np.testing.assert_array_equal(one, same)
    assert np.isfinite(sketch(csr_matrix((5, 3), dtype=np.float32), 0)).all()
    assert sketch(csr_matrix(np.ones((5, 1), dtype=np.float32)), 0).shape == (5, 1)


# unlabelled -----------------------------------------------------------------------------------------------------------


def test_exactly_the_users_without_a_label_are_attacked() -> None:
    known, true = LABELS.copy(), LABELS.copy()
    known[:100] = MISSING
    true[:10] = MISSING  # the attacker does not know everybody either
    embeddings = leak(NOISE, np.where(known == MISSING, LABELS, 0))  # only they leak
    held = {"embeddings": embeddings, "hidden": {"a": attribute(true)}}
    found = threaten("unlabelled", attributes={"a": attribute(known)}, **held)["unlabelled"]["attributes"]["a"]
    assert (found["n"], found["missing"]) == (90, USERS - 90)
    assert found["verdict"] == "leaks"
    # The known labels are never used: flip them all, and nothing changes.
    flipped = np.where(known == MISSING, MISSING, 1 - known)
    again = threaten("unlabelled", attributes={"a": attribute(flipped)}, **held)
    assert again["unlabelled"]["attributes"]["a"] == found
    # Nor is what the hidden table says about users the platform knows.
    other = np.where(known == MISSING, true, 1 - true)
    again = threaten("unlabelled", attributes={"a": attribute(known)}, embeddings=embeddings,
                     hidden={"a": attribute(other)})
    assert again["unlabelled"]["attributes"]["a"] == found


def test_users_without_a_label_can_be_attacked_when_the_platform_knows_too_few_to_attack() -> None:
    known = np.full(USERS, MISSING)
    known[:3] = 0
    found = threaten("unlabelled", attributes={"a": attribute(known)}, hidden={"a": attribute(LABELS)},
                     baseline=NOISE)
    assert found["unlabelled"]["attributes"]["a"]["n"] == USERS - 3


def test_nobody_left_to_attack_is_bad_input() -> None:
    with pytest.raises(BadInput, match="threat unlabelled"):
        threaten("unlabelled", hidden={"a": attribute(LABELS)})


# all ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("threat", "needed"),
    [("differencing", "--baseline"), ("recommendations", "--items"), ("parameters", "--model"),
     ("interactions", "--interactions"), ("unlabelled", "--hidden-labels")],
)
def test_what_is_missing_is_asked_for(threat: str, needed: str) -> None:
    with pytest.raises(BadInput, match=f"threat {threat}: needs .*{needed}") as problem:
        threaten(threat)
    assert "\n" not in str(problem.value)


def test_every_threat_says_who_it_is() -> None:
    assert list(THREATS) == [
        "embeddings", "differencing", "recommendations", "parameters", "interactions", "unlabelled"
    ]
    for threat in THREATS.values():
        assert threat.who.endswith(".")
        assert threat.who[0].isupper()


def test_several_threats_are_corrected_together() -> None:
    both = threaten("embeddings", "differencing", baseline=normal(USERS, 4))
    alone = threaten("embeddings")
    first, second = (found["embeddings"]["attributes"]["a"] for found in (alone, both))
    assert first["attackers"] == second["attackers"]
    assert second["p_value"] >= first["p_value"]
