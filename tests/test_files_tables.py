"""Attribute and interaction tables: the rules of the contract, one by one, whatever the table comes in."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from oblivec.datasets.attributes import categorical
from oblivec.errors import BadInput
from oblivec.files.tables import AttributeTable, attributes_from, read_attributes, read_interactions
from oblivec.randomness import numpy_rng

N = 120


def people() -> dict[str, list[Any]]:
    rng = numpy_rng(0, "people")
    return {
        "user_id": list(range(N, 0, -1)),
        "gender": [None, *rng.choice(["M", "F", "NA", "nan", "null", "None"], N - 1).tolist()],
        "age": [None, *rng.normal(40, 9, N - 1).tolist()],
        "bracket": [None, *(rng.integers(9, 12, N - 1).astype(float)).tolist()],
        "member": (rng.random(N) < 0.5).tolist(),
        "name": [f"person {i}" for i in range(N)],
        "empty": [None] * N,
    }


def as_csv(columns: dict[str, list[Any]]) -> str:
    rows = [["" if cell is None else str(cell) for cell in row] for row in zip(*columns.values(), strict=True)]
    return "\n".join(",".join(row) for row in [list(columns), *rows])


def loaders(folder: Path, columns: dict[str, list[Any]]) -> Iterator[tuple[str, Callable[..., AttributeTable]]]:
    (folder / "a.csv").write_text(as_csv(columns) + "\n")
    (folder / "b.csv.gz").write_bytes(gzip.compress(as_csv(columns).replace("\n", "\r\n").encode()))
    parquet.write_table(pa.table(columns), folder / "c.parquet", row_group_size=50)
    for path in sorted(folder.iterdir()):
        yield path.name, lambda path=path, **options: read_attributes(path, **options)
    frame = pd.DataFrame(columns)
    for name, table in {
        "mapping": columns, "pandas": frame, "categories": frame.astype({"gender": "category"}),
        "index": frame.set_index("user_id"), "polars": pl.DataFrame(columns), "arrow": pa.table(columns),
    }.items():
        yield name, lambda table=table, **options: attributes_from(table, **options)


def test_every_source_gives_the_same_attributes(tmp_path: Path) -> None:
    columns = people()
    for name, load in loaders(tmp_path, columns):
        table = load()
        assert table.ids is not None
        assert table.ids.tolist() == [str(one) for one in columns["user_id"]], name
        assert list(table.attributes) == ["gender", "age", "bracket", "member"], name
        gender, age, bracket, member = table.attributes.values()
        assert gender.classes == ("F", "M", "NA", "None", "nan", "null"), name
        assert bracket.classes == ("9", "10", "11"), name
        assert member.classes == ("False", "True"), name
        assert [one.kind for one in (gender, age, bracket, member)] == [
            "categorical", "continuous", "categorical", "categorical"
        ]
        assert [one.missing for one in (gender, age, bracket, member)] == [1, 1, 1, 0], name
        assert [gender.classes[code] for code in gender.values[1:]] == columns["gender"][1:], name
        assert [float(bracket.classes[code]) for code in bracket.values[1:]] == columns["bracket"][1:], name
        np.testing.assert_allclose(age.values[1:], columns["age"][1:])
        skipped = " ".join(table.notes)
        assert "'name' has 120 classes for 120 users" in skipped, name
        assert "'empty' has no label" in skipped, name
        assert "person" not in skipped


def test_a_named_column_that_cannot_be_used_is_bad_input(tmp_path: Path) -> None:
    for _, load in loaders(tmp_path, people()):
        for options, words in (
            ({"only": ["name"]}, "120 classes for 120 users"),
            ({"only": ["empty"]}, "no label"),
            ({"only": ["height"]}, "no attribute 'height'"),
            ({"only": ["user_id"]}, "no attribute 'user_id'"),
            ({"types": {"gender": "continuous"}}, "'gender' is not numbers"),
            ({"types": {"height": "continuous"}}, "no attribute 'height'"),
            ({"types": {"age": "ordinal"}}, "no such type"),
            ({"id_column": "uid"}, "no column 'uid'"),
        ):
            with pytest.raises(BadInput, match=words) as caught:
                load(**options)
            assert "person" not in str(caught.value)


def test_booleans_cannot_be_made_continuous() -> None:
    with pytest.raises(BadInput, match="cannot be continuous"):
        attributes_from({"a": [True, False] * 20}, types={"a": "continuous"})


def test_only_chooses_and_orders(tmp_path: Path) -> None:
    for _, load in loaders(tmp_path, people()):
        assert list(load(only=["age", "gender"]).attributes) == ["age", "gender"]


def test_a_stated_type_overrules(tmp_path: Path) -> None:
    for _, load in loaders(tmp_path, people()):
        table = load(types={"bracket": "continuous"})
        assert table.attributes["bracket"].is_continuous
    many = {"a": list(range(60)) * 20}
    assert attributes_from(many).attributes["a"].is_continuous
    assert len(attributes_from(many, types={"a": "categorical"}).attributes["a"].classes) == 60


def test_fifty_numbers_are_classes_and_fifty_one_are_not() -> None:
    for distinct, kind in ((50, "categorical"), (51, "continuous")):
        assert attributes_from({"a": [i % distinct for i in range(600)]}).attributes["a"].kind == kind


@pytest.mark.parametrize(("classes", "accepted"), [(12, True), (13, False)])
def test_a_class_needs_ten_users_on_average(classes: int, accepted: bool) -> None:
    columns = {"a": [f"label {i % classes}" for i in range(N)], "b": ["x", "y"] * (N // 2)}
    assert ("a" in attributes_from(columns).attributes) is accepted


def test_missing_is_an_empty_cell_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,number\n" + '"",1\nNA,NaN\nnull,2\n ,nan\nnan,\n' * 20)
    table = read_attributes(path)
    assert table.ids is None
    text, number = table.attributes.values()
    assert text.classes == (" ", "NA", "nan", "null")
    assert text.missing == 20
    assert number.classes == ("1", "2")
    assert number.missing == 60


def test_a_blank_line_of_a_single_column_is_a_missing_label(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("gender\n" + "M\n\nF\n" * 20)
    gender = read_attributes(path).attributes["gender"]
    assert len(gender.values) == 60
    assert gender.missing == 20


def test_types_come_from_all_rows_not_from_the_first_block(tmp_path: Path) -> None:
    rows = 300_000
    path = tmp_path / "a.csv"
    cells = ["11111111111111111111111111111111"] * rows
    cells[-1] = "secret"
    path.write_text("a\n" + "\n".join(cells) + "\n")
    assert read_attributes(path).attributes["a"].classes == ("11111111111111111111111111111111", "secret")


def test_infinity_is_named_by_row(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user_id,age\n1,30\n2,\n3,-inf\n")
    parquet.write_table(pa.table({"user_id": [1, 2, 3], "age": [30.0, None, float("inf")]}), tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        with pytest.raises(BadInput, match="column 'age', row 3 is infinite"):
            read_attributes(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("user_id,g\n" + "secret,secret1\n" * 20, "column 'user_id', row 2 repeats the id of row 1"),
        ("user_id,g\nsecret,a\n,b\n", "column 'user_id', row 2 has no id"),
        ("user_id,g\n", "no rows"),
        ("user_id\nsecret\n", "no attribute that can be used"),
        ("user_id,g\nsecret\n", "row 1 has 1 cells where the header has 2"),
        ("\n", "not a readable CSV"),
    ],
)
def test_unusable_tables_are_named_without_quoting_them(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match=words) as caught:
        read_attributes(path)
    assert "secret" not in str(caught.value)


def test_a_file_without_its_header_line_is_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("secret1,secret2\nsecret3,secret4\n")
    for read in (lambda: read_attributes(path, only=["g"]), lambda: read_interactions(path),
                 lambda: read_attributes(path, id_column="user_id")):
        with pytest.raises(BadInput, match="header line") as caught:
            read()
        assert "secret" not in str(caught.value)


def test_indices_without_a_name_are_no_attributes(tmp_path: Path) -> None:
    frame = pd.DataFrame({"user_id": range(N), "g": ["a", "b"] * (N // 2)})[::-1]
    frame.to_csv(tmp_path / "a.csv")
    frame.to_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        assert list(read_attributes(tmp_path / name).attributes) == ["g"]


def test_mixed_or_nested_labels_in_memory_are_bad_input() -> None:
    for labels in (["secret", 3], [[1], [2]], np.ones((2, 2)), 5):
        with pytest.raises(BadInput) as caught:
            attributes_from({"a": labels}, only=["a"])
        assert "secret" not in str(caught.value)
    with pytest.raises(BadInput, match="differ in length"):
        attributes_from({"a": [1, 2], "b": [1]})
    with pytest.raises(BadInput, match="not a table"):
        attributes_from(3)


def test_typed_attributes_and_tensors_pass() -> None:
    ready = categorical("a", ["x", "y"] * 20)
    table = attributes_from({"a": ready, "b": torch.arange(40) % 3})
    assert table.attributes["a"] is ready
    assert table.attributes["b"].classes == ("0", "1", "2")


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.one_of(st.none(), st.text("ab \t☃\",", max_size=3)), min_size=60, max_size=90))
def test_labels_come_back_as_they_went_in(labels: list[str | None]) -> None:
    distinct = {label for label in labels if label}
    if not distinct or len(distinct) * 10 > len(labels):
        with pytest.raises(BadInput):
            attributes_from({"a": labels}, only=["a"])
        return
    attribute = attributes_from({"a": labels}).attributes["a"]
    assert attribute.classes == tuple(sorted(distinct))
    back = [attribute.classes[code] if code >= 0 else None for code in attribute.values]
    assert back == [label or None for label in labels]


INTERACTIONS = {
    "user_id": [3, 1, 3, 2], "item_id": ["a", "b", "c", "a"], "timestamp": [30, 20, 10, 40],
    "split": ["train", "test", "test", "train"],
}


def test_interactions_are_read_from_csv_and_parquet(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(as_csv(INTERACTIONS))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(as_csv(INTERACTIONS).encode()))
    floats = INTERACTIONS | {"user_id": [3.0, 1.0, 3.0, 2.0]}
    parquet.write_table(pa.table(floats), tmp_path / "a.parquet", row_group_size=2)
    for name in ("a.csv", "a.csv.gz", "a.parquet"):
        table = read_interactions(tmp_path / name)
        assert table.user_keys[table.users].tolist() == ["3", "1", "3", "2"]
        assert table.item_keys[table.items].tolist() == INTERACTIONS["item_id"]
        assert table.timestamps is not None
        assert table.timestamps.tolist() == INTERACTIONS["timestamp"]
        assert table.is_test is not None
        assert table.is_test.tolist() == [False, True, True, False]
    bare = {"uid": [1, 2], "item_id": [1, 2]}
    (tmp_path / "b.csv").write_text(as_csv(bare))
    table = read_interactions(tmp_path / "b.csv", id_column="uid")
    assert table.timestamps is None
    assert table.is_test is None


@pytest.mark.parametrize(
    "times",
    [
        ["2020-01-02", "2020-01-01", "2019-12-31"], ["2020-01-02T00:00:00Z", "2020-01-01 09:00:00Z"],
        ["3", "2.5", "1e0"], ["9007199254740993", "9007199254740992", "1"],
    ],
)
def test_times_keep_their_order(tmp_path: Path, times: list[str]) -> None:
    (tmp_path / "a.csv").write_text(as_csv({"user_id": times, "item_id": times, "timestamp": times}))
    read = read_interactions(tmp_path / "a.csv").timestamps
    assert read is not None
    assert (np.diff(read) < 0).all()


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"timestamp": ["1", "2", "soon", "4"]}, "column 'timestamp', row 3"),
        ({"timestamp": ["1", "2", "", "4"]}, "column 'timestamp', row 3"),
        ({"timestamp": ["1", "inf", "2", "4"]}, "column 'timestamp', row 2"),
        ({"timestamp": ["2020-01-01", "5", "2020-01-01", "4"]}, "column 'timestamp', row 2"),
        ({"split": ["train", "test", "valid", "train"]}, "column 'split', row 3"),
        ({"split": ["train", "", "test", "train"]}, "column 'split', row 2"),
        ({"split": [1, 2, 3, 4]}, "column 'split', row 1"),
        ({"user_id": ["secret", "", "a", "b"]}, "column 'user_id', row 2 has no id"),
        ({"item_id": ["secret", "a", "b", ""]}, "column 'item_id', row 4 has no id"),
    ],
)
def test_unusable_interactions_are_named_by_row(tmp_path: Path, columns: dict[str, list[Any]], words: str) -> None:
    (tmp_path / "a.csv").write_text(as_csv(INTERACTIONS | columns))
    parquet.write_table(pa.table(INTERACTIONS | columns), tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        with pytest.raises(BadInput, match=words) as caught:
            read_interactions(tmp_path / name)
        assert "secret" not in str(caught.value)
