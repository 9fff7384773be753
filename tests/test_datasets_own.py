"""A user's own tables: what `datasets.own` makes of them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyarrow import parquet

from oblivec.datasets import registry
from oblivec.datasets.own import own
from oblivec.errors import BadInput

INTERACTIONS = "user_id,item_id,timestamp\nb,7,2\na,7,1\na,9,5\nb,8,1\nc,10,3\n"
ATTRIBUTES = "user_id,colour\nz,red\na,red\nb,\n" + "".join(f"u{i},{'red' if i % 2 else 'blue'}\n" for i in range(30))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "interactions.csv").write_text(INTERACTIONS)
    (tmp_path / "attributes.csv").write_text(ATTRIBUTES)
    return tmp_path


def test_rows_are_matched_and_mismatches_counted(folder):
    dataset = registry.load("own", path=folder)
    assert dataset.interactions.user_keys.tolist() == ["b", "a", "c"]
    assert dataset.interactions.item_keys.tolist() == ["7", "9", "8", "10"]
    colour = dataset.attributes["colour"]
    assert [colour.classes[code] if code >= 0 else None for code in colour.values] == [None, "red", None]
    assert dataset.notes == (
        "1 users without attributes: their labels are missing",
        "31 users in the attribute table without interactions: left out",
    )
    assert dataset.split().test_items.tolist() == [0, 1, -1]


def test_parquet_and_a_split_of_ones_own(tmp_path):
    table = pa.table({"user_id": [1, 1, 2], "item_id": [5, 6, 5], "split": ["test", "train", "train"]})
    parquet.write_table(table, tmp_path / "x.parquet")
    split = own(tmp_path / "x.parquet").split()
    assert split.test_items.tolist() == [0, -1]
    assert split.train.toarray().tolist() == [[0, 1], [1, 0]]


def test_item_keys_that_are_numbers_are_compared_as_numbers(tmp_path):
    (tmp_path / "x.csv").write_text("user_id,item_id,timestamp\n1,10,1\n1,9,1\n")
    dataset = own(tmp_path / "x.csv")
    assert dataset.split("item-ascending").test_items.tolist() == [0]
    (tmp_path / "x.csv").write_text("user_id,item_id,timestamp\n1,b10,1\n1,b9,1\n")
    assert own(tmp_path / "x.csv").split("item-ascending").test_items.tolist() == [1]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("interactions.csv", "user,item_id\n1,2\n", r"interactions\.csv: has no column 'user_id'"),
        ("interactions.csv", INTERACTIONS + "d,7,noon\n", r"interactions\.csv: column 'timestamp', row 6"),
        ("interactions.csv", INTERACTIONS + ",7,4\n", r"interactions\.csv: column 'user_id', row 6 has no id"),
        ("attributes.csv", ATTRIBUTES + "a,blue\n", r"attributes\.csv: column 'user_id', row 34 repeats .* of row 2"),
        ("attributes.csv", ATTRIBUTES + ",blue\n", r"attributes\.csv: column 'user_id', row 34 has no id"),
        ("attributes.csv", ATTRIBUTES.replace("user_id", "who"), r"attributes\.csv: has no column 'user_id'"),
        ("attributes.csv", ATTRIBUTES.replace("\na,", "\ny,").replace("\nb,", "\nx,"), r"no user is in .*interactions"),
    ],
)
def test_bad_tables_are_named_with_column_and_row(folder, file, content, message):
    (folder / file).write_text(content)
    with pytest.raises(BadInput, match=message):
        registry.load("own", path=folder)


def test_a_folder_without_interactions_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"has no interactions\.csv"):
        registry.load("own", path=tmp_path)
