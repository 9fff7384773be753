"""One release, measured: what every table shares, whatever made the release.

    paper      the printed attacker under the printed protocol: BAcc and micro-F1 per attribute
    attacks    the panel (and attackers beside it): score per attacker, chance, number of users
    utility    HR@10 and NDCG@10 before and after, refitted where asked, with the rank of every test item
    moved, neighbours, seconds, facts, settings
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from oblivec.attacks.threats import Evidence
from oblivec.audit.run import run_audit
from oblivec.datasets.attributes import Attribute
from oblivec.datasets.interactions import LeaveOneOut
from oblivec.experiments.methods import Made
from oblivec.experiments.releases import Means, ranked, resemblance, utility
from oblivec.metrics import rank_test_items
from oblivec.recommenders import MostPopular, Recommender


def measure_release(
    made: Made,
    base: Recommender,
    split: LeaveOneOut,
    attributes: Mapping[str, Attribute],
    *,
    seed: int,
    means: Means,
    p_values: bool,
    refit_epochs: int,
) -> dict[str, Any]:
    """Plain JSON. Verdicts and corrected p-values stand in it only with `p_values`; a refit only with epochs for it.

    Where there is no user matrix (the same list for everyone), nobody can attack one: only utility is measured.
    """
    found: dict[str, Any] = {"seconds": dict(made.seconds), "facts": dict(made.facts)}
    if made.recommender is None or made.release is None:
        popular = MostPopular().fit(split)
        scorers = {"before": base.scores, "after": popular.scores}
        rankings = {name: rank_test_items(scorer, split, device=base.users.device) for name, scorer in scorers.items()}
        return found | {"utility": ranked(rankings)}
    attacks = means.attack(made.release, attributes, seed)
    if not p_values:
        for read in attacks["embeddings"].values():
            del read["p_value"], read["verdict"]
    return found | {
        "paper": printed_attack(made.release, attributes, seed),
        "attacks": attacks,
        "utility": utility(base, made.recommender, split, refit_epochs=refit_epochs, seed=seed),
    } | resemblance(base.user_matrix(), made.release, seed, means.device)


def printed_attack(release: np.ndarray, attributes: Mapping[str, Attribute], seed: int) -> dict[str, Any]:
    """The paper's attacker on as many users of every class as the smallest has, five folds, once."""
    audit = run_audit(
        Evidence(release, attributes, seed=seed), named=True, protocol="paper", seed=seed, jobs=1, device="cpu",
        attackers=("paper",),
    )
    return {
        name: {"bacc": part.attackers["paper"].score, "micro_f1": part.attackers["paper"].micro_f1, "n": part.n}
        for name, part in audit.main.attributes.items()
    }


def prefixes(names: Sequence[str]) -> list[tuple[str, ...]]:
    """The requirements of the paper: the first attribute, the first two, and so on."""
    return [tuple(names[: count + 1]) for count in range(len(names))]
