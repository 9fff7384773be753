"""A data set: who interacted with what, what must stay private about whom, and what was noticed on the way in."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from oblivec.datasets.attributes import Attribute
from oblivec.datasets.interactions import Interactions, LeaveOneOut
from oblivec.datasets.splits import DEFAULT_TIE_RULE, leave_one_out, users_decided_by_ties


@dataclass(frozen=True)
class Dataset:
    """Row i of every attribute belongs to user row i of the interactions."""

    name: str
    interactions: Interactions
    attributes: dict[str, Attribute]
    extra_attributes: dict[str, Attribute] = field(default_factory=dict)
    """Other forms of the same properties (the age in years), never audited unless asked for."""
    notes: tuple[str, ...] = ()
    """Things that are no error but were counted and should be said once."""
    licence: str = ""
    citation: str = ""
    source: str = ""
    """Where the rows came from, in words."""

    def split(self, tie_rule: str = DEFAULT_TIE_RULE) -> LeaveOneOut:
        return leave_one_out(self.interactions, tie_rule)

    def statistics(self) -> Statistics:
        """The columns of the paper's table of data sets."""
        users, items, ratings = self.interactions.n_users, self.interactions.n_items, len(self.interactions)
        cells = users * items
        return Statistics(users, items, ratings, 100.0 * (1 - ratings / cells) if cells else 100.0)

    def users_decided_by_ties(self) -> int:
        """Users whose test item is chosen by the tie rule."""
        return users_decided_by_ties(self.interactions)

    def split_notes(self, split: LeaveOneOut) -> tuple[str, ...]:
        """What the split left out, counted: each is said once and is no error."""
        interactions = self.interactions
        active = np.bincount(interactions.users, minlength=interactions.n_users) > 0
        untested = int((active & (split.test_items < 0)).sum())
        tested = split.test_items[split.tested_users]
        trained = np.bincount(split.train.indices, minlength=interactions.n_items) > 0
        only_tested = len(np.unique(tested[~trained[tested]]))
        untrained = int((np.diff(split.train.indptr)[split.tested_users] == 0).sum())
        counted = (
            (untested, "users with nothing to hold out (one interaction, as a rule): trained on, not tested"),
            (only_tested, "items seen only in the test set: they stay in the catalogue"),
            (untrained, "users with a test item and no training interaction"),
        )
        return tuple(f"{count:,} {what}" for count, what in counted if count)


@dataclass(frozen=True)
class Statistics:
    users: int
    items: int
    ratings: int
    sparsity_percent: float


def attribute_notes(users_without: int, without_users: int) -> tuple[str, ...]:
    """The two ways in which interactions and the attribute table may not match; neither is an error."""
    counted = (
        (users_without, "users without attributes: their labels are missing"),
        (without_users, "users in the attribute table without interactions: left out"),
    )
    return tuple(f"{count:,} {what}" for count, what in counted if count)
