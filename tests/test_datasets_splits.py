"""Leave-one-out against a slow oracle, and its awkward cases one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oblivec.datasets.interactions import Interactions
from oblivec.datasets.splits import TIE_RULES, leave_one_out, users_decided_by_ties
from oblivec.errors import BadInput


def _interactions(rows, *, timestamps=True, held_out=None, n_users=None, n_items=None) -> Interactions:
    users, items, times = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    return Interactions(
        users, items, times if timestamps else None, np.arange(n_users or users.max() + 1),
        np.arange(n_items or items.max() + 1), None if held_out is None else np.array(held_out, dtype=bool),
    )


def _oracle(rows, tie_rule):
    """The rule said slowly: per user, sort by time and tie, forget earlier repeats, hold out the last."""
    train, test = set(), {}
    for user in {row[0] for row in rows}:
        own = [(time, position, item) for position, (u, item, time) in enumerate(rows) if u == user]
        tie = {
            "file-order": lambda row: row[1], "reverse-file-order": lambda row: -row[1],
            "item-ascending": lambda row: row[2], "item-descending": lambda row: -row[2],
        }[tie_rule]
        sequence = [item for _, _, item in sorted(own, key=lambda row: (row[0], tie(row)))]
        distinct = list(dict.fromkeys(reversed(sequence)))
        if len(distinct) > 1:
            test[user] = distinct.pop(0)
        train |= {(user, item) for item in distinct}
    return train, test


@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 8), st.integers(0, 3)), min_size=1, max_size=60),
    tie_rule=st.sampled_from(TIE_RULES),
)
def test_agrees_with_the_slow_oracle(rows, tie_rule):
    split = leave_one_out(_interactions(rows, n_users=6, n_items=9), tie_rule)
    train, test = _oracle(rows, tie_rule)
    assert {(int(u), int(i)) for u, i in zip(*split.train.nonzero(), strict=True)} == train
    assert {int(u): int(split.test_items[u]) for u in split.tested_users} == test
    assert set(split.train.data.tolist()) <= {1.0}
    assert split.tie_rule == tie_rule


def test_each_tie_rule_holds_out_its_own_item():
    rows = [(0, 3, 5), (0, 9, 7), (0, 1, 7), (0, 4, 7)]
    held_out = {rule: int(leave_one_out(_interactions(rows), rule).test_items[0]) for rule in TIE_RULES}
    assert held_out == {"file-order": 4, "reverse-file-order": 9, "item-ascending": 9, "item-descending": 1}


def test_item_rules_go_by_the_key_and_not_by_the_row_number():
    interactions = Interactions(np.zeros(2, int), np.array([0, 1]), np.zeros(2), np.array([7]), np.array([50, 20]))
    assert leave_one_out(interactions, "item-ascending").test_items[0] == 0


def test_without_timestamps_the_file_order_is_the_time():
    rows = [(0, 3, 9), (0, 1, 5)]
    assert leave_one_out(_interactions(rows, timestamps=False), "reverse-file-order").test_items[0] == 1


def test_a_single_interaction_trains_and_is_not_tested():
    split = leave_one_out(_interactions([(0, 0, 1), (1, 0, 1), (1, 1, 2)]))
    assert split.tested_users.tolist() == [1]
    assert split.train[0].nnz == 1


def test_a_repeated_test_item_is_not_in_training():
    split = leave_one_out(_interactions([(0, 0, 1), (0, 1, 2), (0, 0, 3)]))
    assert split.test_items[0] == 0
    assert split.train.toarray().tolist() == [[0, 1]]


def test_the_data_sets_own_split_is_kept():
    rows = [(0, 0, 9), (0, 1, 2), (0, 2, 1), (1, 0, 1), (1, 1, 5), (1, 0, 0)]
    split = leave_one_out(_interactions(rows, held_out=[0, 1, 1, 1, 0, 0]))
    assert split.test_items.tolist() == [1, 0]
    # Item 2 of user 0 is held out though not tested; item 0 of user 1 leaves training because it is tested.
    assert split.train.toarray().tolist() == [[1, 0, 0], [0, 1, 0]]


def test_ties_that_decide_are_counted():
    rows = [(0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 2), (2, 0, 5), (2, 0, 5), (3, 0, 1)]
    assert users_decided_by_ties(_interactions(rows)) == 1
    assert users_decided_by_ties(_interactions(rows, timestamps=False)) == 0


def test_an_unknown_tie_rule_is_refused():
    with pytest.raises(BadInput, match="file-order, reverse-file-order"):
        leave_one_out(_interactions([(0, 0, 1)]), "random")
