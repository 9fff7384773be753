"""Rows of tables against rows of matrices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oblivec.errors import BadInput
from oblivec.files.embeddings import EmbeddingFile, embeddings_from
from oblivec.files.matching import match_attributes, match_embeddings, match_interactions
from oblivec.files.tables import AttributeTable, InteractionTable, attributes_from, read_interactions


def matrix(ids: list[str] | None = None, rows: int | None = None) -> EmbeddingFile:
    return embeddings_from(np.ones((len(ids) if ids is not None else rows or 0, 2)), ids)


def table(ids: list[str] | None, labels: list[float]) -> AttributeTable:
    columns = {"age": labels} if ids is None else {"user_id": ids, "age": labels}
    return attributes_from(columns, types={"age": "continuous"})


def test_rows_are_matched_by_id_and_the_rest_is_said() -> None:
    attributes, notes = match_attributes(matrix(["b", "a", "x", "y"]), table(["a", "b", "z"], [1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(attributes["age"].values, [2.0, 1.0, np.nan, np.nan])
    assert notes == [
        "2 of 4 users of embeddings are not in attributes", "1 of 3 users of attributes are not in embeddings"
    ]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.lists(st.text("abé☃,7", min_size=1, max_size=2), unique=True, min_size=1, max_size=30),
    st.lists(st.text("abé☃,7", min_size=1, max_size=2), unique=True, min_size=1, max_size=30),
)
def test_matching_is_a_lookup(ids: list[str], others: list[str]) -> None:
    known = dict(zip(others, map(float, range(len(others))), strict=True))
    if not set(ids) & set(others):
        with pytest.raises(BadInput, match="no user is in"):
            match_attributes(matrix(ids), table(others, list(known.values())))
        return
    attributes, _ = match_attributes(matrix(ids), table(others, list(known.values())))
    np.testing.assert_array_equal(attributes["age"].values, [known.get(one, np.nan) for one in ids])


def test_without_ids_on_both_sides_rows_correspond_and_lengths_agree() -> None:
    attributes, notes = match_attributes(matrix(rows=2), table(None, [5.0, 6.0]))
    assert attributes["age"].values.tolist() == [5.0, 6.0]
    assert notes == []
    attributes, notes = match_attributes(matrix(["a", "b"]), table(None, [5.0, 6.0]))
    assert attributes["age"].values.tolist() == [5.0, 6.0]
    assert "attributes carries no ids" in notes[0]
    with pytest.raises(BadInput, match="has 2 rows and embeddings has 3"):
        match_attributes(matrix(rows=3), table(["a", "b"], [5.0, 6.0]))


def test_two_matrices_share_rows() -> None:
    mine, theirs, notes = match_embeddings(matrix(["a", "b", "c"]), matrix(["c", "x", "a"]))
    assert mine.tolist() == [0, 2]
    assert theirs.tolist() == [2, 0]
    assert len(notes) == 2
    assert match_embeddings(matrix(rows=2), matrix(["p", "q"]))[1].tolist() == [0, 1]
    with pytest.raises(BadInput, match="shares no id"):
        match_embeddings(matrix(["a"]), matrix(["b"]))
    with pytest.raises(BadInput, match="has 1 rows"):
        match_embeddings(matrix(rows=2), matrix(rows=1))


def interactions(folder: Path) -> InteractionTable:
    path = folder / "i.csv"
    path.write_text("user_id,item_id,timestamp,split\n1,2,10,train\n0,0,11,train\n1,7,12,test\n9,0,13,test\n")
    return read_interactions(path)


def test_row_numbers_address_matrices_without_ids(tmp_path: Path) -> None:
    matched, notes = match_interactions(interactions(tmp_path), matrix(rows=2), matrix(rows=3))
    assert matched.users.tolist() == [1, 0]
    assert matched.items.tolist() == [2, 0]
    assert matched.n_items == 3
    assert matched.timestamps is not None
    assert matched.timestamps.tolist() == [10, 11]
    assert matched.held_out is not None
    assert matched.held_out.tolist() == [False, False]
    assert any("2 of 4 interactions" in note for note in notes)


def test_ids_address_matrices_that_carry_them(tmp_path: Path) -> None:
    matched, _ = match_interactions(interactions(tmp_path), matrix(["9", "1"]), matrix(["7", "2", "0"]))
    assert matched.users.tolist() == [1, 1, 0]
    assert matched.items.tolist() == [1, 0, 2]
    assert matched.user_keys.tolist() == ["9", "1"]


def test_items_without_a_matrix_are_numbered_as_they_appear(tmp_path: Path) -> None:
    matched, notes = match_interactions(interactions(tmp_path), matrix(rows=10))
    assert matched.items.tolist() == [0, 1, 2, 1]
    assert matched.item_keys.tolist() == ["2", "0", "7"]
    assert notes == []


def test_nothing_in_common_is_bad_input(tmp_path: Path) -> None:
    for users, items in ((matrix(["a"]), None), (matrix(rows=2), matrix(["a"]))):
        with pytest.raises(BadInput, match="has nothing that"):
            match_interactions(interactions(tmp_path), users, items)
