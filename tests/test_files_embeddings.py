"""Embedding files: what is read is right, what is written back differs in nothing but the values."""

from __future__ import annotations

import json
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pyarrow import csv, parquet
from safetensors import safe_open
from safetensors.torch import save_file

from oblivec.errors import BadInput
from oblivec.files.embeddings import check_target, embeddings_from, read_embeddings, write_embeddings
from oblivec.randomness import numpy_rng

ROWS, DIMENSIONS = 6, 3
IDS = ["7", "8", "nine", "a,b", 'say "x"', "12"]


def matrix(dtype: Any = np.float32) -> np.ndarray:
    return numpy_rng(0, "matrix").normal(size=(ROWS, DIMENSIONS)).astype(dtype)


def as_table(values: np.ndarray, ids: Any = IDS, listed: bool = False) -> pa.Table:
    if listed:
        return pa.table({"id": ids, "vector": pa.array(list(values))})
    return pa.table({"d0": values[:, 0], "user_id": ids, **{f"d{i}": values[:, i] for i in range(1, DIMENSIONS)}})


def write_csv(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def sample(folder: Path, name: str) -> Path:
    path = folder / f"{name.replace(' ', '-')}"
    match name:
        case "float16.npy" | "float32.npy" | "float64.npy":
            np.save(path, matrix(name.partition(".")[0]))
        case "fortran.npy":
            np.save(path, np.asfortranarray(matrix()))
        case "big-endian.npy":
            np.save(path, matrix(">f8"))
        case "numbers.safetensors":
            others = {"ids": torch.arange(ROWS), "bias": torch.ones(2)}
            save_file({"embeddings": torch.from_numpy(matrix()), **others}, path)
        case "texts.safetensors":
            about = {"split": "2", "ids": json.dumps(IDS)}
            save_file({"embeddings": torch.from_numpy(matrix()).bfloat16()}, path, metadata=about)
        case "bare.safetensors":
            save_file({"embeddings": torch.from_numpy(matrix(np.float64))}, path)
        case "columns.parquet":
            table = as_table(matrix()).replace_schema_metadata({"made by": "a test"})
            parquet.write_table(table, path, compression="zstd")
        case "list.parquet":
            parquet.write_table(as_table(matrix(np.float64), listed=True), path)
        case "fixed.parquet":
            fixed = pa.FixedSizeListArray.from_arrays(pa.array(matrix().ravel()), DIMENSIONS)
            parquet.write_table(pa.table({"item_id": pa.array(range(ROWS), pa.int32()), "v": fixed}), path)
        case "columns.csv":
            rows = zip(matrix(np.float64).tolist(), range(ROWS), strict=True)
            write_csv(path, "x,user_id,y,z\n" + "".join(f"{x},{i},{y},{z}\n" for (x, y, z), i in rows))
        case "list.csv":
            rows = zip(IDS, matrix(np.float64).tolist(), strict=True)
            quoted = ('"' + one.replace('"', '""') + '"' for one in IDS)
            write_csv(path, "id,v\n" + "".join(f'{q},"{row}"\n' for q, (_, row) in zip(quoted, rows, strict=True)))
    return path


SAMPLES = (
    "float16.npy", "float32.npy", "float64.npy", "fortran.npy", "big-endian.npy", "numbers.safetensors",
    "texts.safetensors", "bare.safetensors", "columns.parquet", "list.parquet", "fixed.parquet", "columns.csv",
    "list.csv",
)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_release_differs_in_nothing_but_the_values(tmp_path: Path, name: str) -> None:
    path = sample(tmp_path, name)
    original = read_embeddings(path)
    target = tmp_path / f"release-{path.name}"
    write_embeddings(target, original, original.values * 2)
    release = read_embeddings(target)
    np.testing.assert_array_equal(release.values, original.values * 2)
    assert release.values.dtype == original.values.dtype
    assert release.id_column == original.id_column
    assert release.metadata == original.metadata
    assert (release.ids is None) == (original.ids is None)
    if original.ids is not None:
        assert release.ids.tolist() == original.ids.tolist()  # type: ignore[union-attr]
    if name.endswith(".parquet"):
        assert parquet.read_schema(target).equals(parquet.read_schema(path), check_metadata=True)
        before, after = (parquet.ParquetFile(one).metadata.row_group(0).column(0).compression for one in (path, target))
        assert after == before
    if name.endswith(".npy"):
        before, after = np.load(path), np.load(target)
        assert after.dtype == before.dtype
        assert after.flags.f_contiguous == before.flags.f_contiguous
    if name.endswith(".csv"):
        assert target.read_text().splitlines()[0] == path.read_text().splitlines()[0]


def test_the_values_are_the_stored_ones(tmp_path: Path) -> None:
    for name in SAMPLES:
        values = read_embeddings(sample(tmp_path, name)).values
        exact = not name.startswith(("float16", "texts"))
        np.testing.assert_allclose(values, matrix(), rtol=1e-6 if exact else 1e-2)


def test_other_tensors_are_carried_along(tmp_path: Path) -> None:
    original = read_embeddings(sample(tmp_path, "numbers.safetensors"))
    write_embeddings(tmp_path / "out.safetensors", original, original.values)
    with safe_open(tmp_path / "out.safetensors", "pt") as file:
        assert sorted(file.keys()) == ["bias", "embeddings", "ids"]
        assert file.get_tensor("ids").dtype == torch.int64


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=hnp.arrays(
        st.sampled_from([np.float32, np.float64]), hnp.array_shapes(min_dims=2, max_dims=2, max_side=9),
        elements={"allow_nan": False, "allow_infinity": False},
    ),
    suffix=st.sampled_from([".npy", ".parquet", ".csv"]),
)
def test_any_finite_matrix_survives_a_round_trip(tmp_path: Path, values: np.ndarray, suffix: str) -> None:
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
    columns = {f"d{i}": values[:, i] for i in range(values.shape[1])}
    table = pa.table({"user_id": [f"u{i}" for i in range(len(values))], **columns})
    if suffix == ".npy":
        np.save(first, values)
    elif suffix == ".parquet":
        parquet.write_table(table, first)
    else:
        doubles = [pa.field(name, pa.float64()) for name in columns]
        csv.write_csv(table.cast(pa.schema([table.schema.field(0), *doubles])), first)
    read = read_embeddings(first)
    np.testing.assert_array_equal(read.values, values)
    write_embeddings(second, read, read.values)
    np.testing.assert_array_equal(read_embeddings(second).values, values)


def test_whole_numbers_are_read_and_written_as_float64(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(6).reshape(3, 2))
    parquet.write_table(pa.table({"id": [1, 2], "x": [3, 4]}), tmp_path / "a.parquet")
    for path in (tmp_path / "a.npy", tmp_path / "a.parquet"):
        read = read_embeddings(path)
        assert read.values.dtype == np.float64
        write_embeddings(path, read, read.values + 0.25)
        np.testing.assert_array_equal(read_embeddings(path).values, read.values + 0.25)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (3, 9), (5, 1)])
def test_small_shapes_are_accepted(tmp_path: Path, shape: tuple[int, int]) -> None:
    np.save(tmp_path / "a.npy", np.ones(shape))
    assert read_embeddings(tmp_path / "a.npy").values.shape == shape


def test_a_large_array_is_mapped_and_never_changed(tmp_path: Path) -> None:
    path = tmp_path / "large.npy"
    np.save(path, np.zeros((1 << 17, 128), np.float32))
    before = path.stat().st_mtime_ns
    read = read_embeddings(path)
    assert isinstance(read.values, np.memmap)
    torch.from_numpy(read.values)[0] = 1.0
    assert path.stat().st_mtime_ns == before
    assert np.load(path, mmap_mode="r")[0, 0] == 0.0


def test_ids_have_one_text_form(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"user_id": [7.0, 8.0], "x": [1.0, 2.0]}), tmp_path / "a.parquet")
    write_csv(tmp_path / "a.csv", "\ufeffuser_id , x\r\n 7 ,1\r\n8.0, 2\r\n")
    save_file({"embeddings": torch.ones(2, 1), "ids": torch.tensor([7, 8])}, tmp_path / "a.safetensors")
    for suffix in (".parquet", ".csv", ".safetensors"):
        ids = read_embeddings(tmp_path / f"a{suffix}").ids
        assert ids is not None
        assert ids.tolist() == ["7", "8"], suffix


class Trap:
    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_pickles_are_refused_and_never_run(tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    (tmp_path / "bare.npy").write_bytes(pickle.dumps(Trap(trap)))
    np.save(tmp_path / "objects.npy", np.array([[Trap(trap)]], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "archive.npz", a=np.array([Trap(trap)], dtype=object))
    torch.save(Trap(trap), tmp_path / "model.pt")
    torch.save(Trap(trap), tmp_path / "model.safetensors")
    for name in ("bare.npy", "objects.npy", "archive.npz", "model.pt", "model.safetensors"):
        with pytest.raises(BadInput, match=name):
            read_embeddings(tmp_path / name)
    assert not trap.exists()


def test_sizes_claimed_by_a_header_are_not_believed(tmp_path: Path) -> None:
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**40}, 64), }}".ljust(117) + "\n"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + head.encode() + b"\0" * 64)
    about = {"embeddings": {"dtype": "F32", "shape": [2**40, 64], "data_offsets": [0, 2**48]}}
    text = json.dumps(about).encode()
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
    (tmp_path / "b.safetensors").write_bytes(struct.pack("<Q", 2**63) + text)
    for name in ("a.npy", "a.safetensors", "b.safetensors"):
        with pytest.raises(BadInput, match="damaged or cut short"):
            read_embeddings(tmp_path / name)


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(BadInput) as caught:
        read_embeddings(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.array([[1.0, 2.0], [np.nan, 3.0]]), "row 2, column 1"),
        (np.array([[1.0, np.inf], [4.0, 3.0]]), "row 1, column 2"),
        (np.ones(4), "1 dimensions, not 2"),
        (np.ones((2, 2, 2)), "3 dimensions, not 2"),
        (np.ones((0, 4)), "0 rows of 4"),
        (np.ones((4, 0)), "4 rows of 0"),
        (np.ones((2, 2), bool), "bool"),
        (np.ones((2, 2), complex), "complex128"),
        (np.array([["a", "b"]]), "save it as float32"),
    ],
)
def test_unusable_arrays_are_named(tmp_path: Path, values: np.ndarray, words: str) -> None:
    np.save(tmp_path / "a.npy", values)
    assert words in refusal(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("user_id,x\nsecret1,1\nsecret2,\n", "column 'x', row 2 is empty"),
        ("user_id,x\nsecret1,1\nsecret2,secret3\n", "column 'x', row 2 is not a number"),
        ("user_id,x\nsecret1,1\nsecret2,nan\n", "column 'x', row 2 is not a finite number"),
        ("user_id,x\nsecret1,1\nsecret1,2\n", "column 'user_id', row 2 repeats the id of row 1"),
        ("user_id,x\nsecret1,1\n,2\n", "column 'user_id', row 2 has no id"),
        ("user_id,x\nsecret1,1\nsecret2,1,1\n", "row 2 has 3 cells where the header has 2"),
        ('user_id,x\nsecret1,"[1, 2]"\nsecret2,"[1]"\n', "column 'x', row 2 has another number of values"),
        ('user_id,x\nsecret1,"[1, 2]"\nsecret2,"[1, secret]"\n', "column 'x', row 2 is not a number"),
        ('user_id,x\nsecret1,"[1, 2]"\nsecret2,"1, 2"\n', "column 'x', row 2 is not a list"),
        ('user_id,x\nsecret1,"[]"\n', "column 'x', row 1 is not a list"),
        ("user_id,x\nsecret1,\"1\n", "quote"),
        ("user_id;x\nsecret1;1\n", "not separated by commas"),
        ("user_id,x,x\nsecret1,1,2\n", "columns 2 and 3"),
        ("user_id,x\n", "no rows"),
        ("user_id\nsecret1\n", "no column besides"),
        ("secret1,1\nsecret2,2\n", "no id column"),
        (",user_id,x\n0,secret1,1\n", "is an index"),
        ("user_id,id,x\nsecret1,1,2\n", "say which: --id-column"),
    ],
)
def test_unusable_tables_are_named_without_quoting_them(tmp_path: Path, text: str, words: str) -> None:
    message = refusal(write_csv(tmp_path / "a.csv", text))
    assert words in message
    assert "secret" not in message


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"x": pa.array([1.0, None])}, "column 'x', row 2 is empty"),
        ({"x": pa.array([1.0, float("inf")])}, "column 'x', row 2 is not a finite number"),
        ({"x": pa.array([True, False])}, "column 'x' holds bool"),
        ({"x": pa.array(["secret", "secret"])}, "column 'x' holds"),
        ({"x": pa.array([[1.0], [1.0, 2.0]])}, "column 'x', row 2 has another number of values"),
        ({"x": pa.array([[1.0, 2.0], None])}, "column 'x', row 2 is empty"),
        ({"x": pa.array([[1.0, 2.0], [1.0, None]])}, "column 'x', row 2 has an empty value"),
        ({"x": pa.array([[1.0], [2.0]]), "y": pa.array([1.0, 2.0])}, "column 'x' holds list"),
        ({"x": pa.array([[], []], pa.list_(pa.float32()))}, "column 'x', row 1 is an empty list"),
    ],
)
def test_unusable_parquet_columns_are_named(tmp_path: Path, columns: dict[str, pa.Array], words: str) -> None:
    parquet.write_table(pa.table({"user_id": ["secret1", "secret2"], **columns}), tmp_path / "a.parquet")
    message = refusal(tmp_path / "a.parquet")
    assert words in message
    assert "secret" not in message


def test_row_numbers_hold_across_batches(tmp_path: Path) -> None:
    rows = 200_000
    values = np.ones(rows)
    values[150_000] = np.nan
    parquet.write_table(pa.table({"id": np.arange(rows), "x": values}), tmp_path / "a.parquet", row_group_size=70_000)
    assert "row 150001 " in refusal(tmp_path / "a.parquet")
    long_enough_for_two_blocks = "0." + "25" * 30
    lines = [f"{i},{'' if i == 150_000 else long_enough_for_two_blocks}" for i in range(rows)]
    assert "row 150001 is empty" in refusal(write_csv(tmp_path / "a.csv", "id,x\n" + "\n".join(lines)))


def test_safetensors_ids_must_fit(tmp_path: Path) -> None:
    two = torch.ones(2, 2)
    cases: list[tuple[dict[str, torch.Tensor], dict[str, str] | None, str]] = [
        ({"weight": two}, None, "no tensor 'embeddings'"),
        ({"embeddings": two, "ids": torch.arange(3)}, None, "3 ids for 2 rows"),
        ({"embeddings": two, "ids": torch.ones(2)}, None, "one whole number per row"),
        ({"embeddings": two}, {"ids": "[1"}, "must be a JSON list"),
        ({"embeddings": two}, {"ids": '{"secret": 1}'}, "must be a JSON list"),
        ({"embeddings": two}, {"ids": '["secret", "secret"]'}, "row 2 repeats the id of row 1"),
        ({"embeddings": two, "ids": torch.arange(2)}, {"ids": '["a", "b"]'}, "keep one of them"),
    ]
    for tensors, metadata, words in cases:
        save_file(tensors, tmp_path / "a.safetensors", metadata=metadata)
        message = refusal(tmp_path / "a.safetensors")
        assert words in message
        assert "secret" not in message


def test_what_is_not_a_file_of_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.npy").mkdir()
    (tmp_path / "empty.npy").touch()
    os.mkfifo(tmp_path / "pipe.npy")
    (tmp_path / "a.txt").write_text("1")
    for name, words in {
        "folder.npy": "directory", "empty.npy": "empty", "pipe.npy": "ordinary file", "none.npy": "no such file",
        "a.txt": "is not read", "a\0.npy": "not valid", "b.npz": "zip archive",
    }.items():
        assert words in refusal(tmp_path / name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", matrix())
    (tmp_path / "a.npy").chmod(0)
    assert "permissions" in refusal(tmp_path / "a.npy")


def test_a_release_keeps_suffix_shape_and_range(tmp_path: Path) -> None:
    read = read_embeddings(sample(tmp_path, "float16.npy"))
    with pytest.raises(BadInput, match=r"must end in \.npy"):
        check_target(tmp_path / "a.csv", read)
    target = tmp_path / "a.npy"
    for values, words in ((read.values[:2], "keep the shape"), (read.values.astype(np.float64) * 1e9, "not a finite")):
        with pytest.raises(BadInput, match=words):
            write_embeddings(target, read, values)
    assert not target.exists()


def test_a_matrix_in_memory_is_held_to_the_same_rules() -> None:
    assert embeddings_from(torch.ones(2, 2).bfloat16(), ids=np.array([1, 2])).ids.tolist() == ["1", "2"]  # type: ignore[union-attr]
    for values, ids in ((np.ones(3), None), (np.array([[np.nan]]), None), (np.ones((2, 2)), ["a"])):
        with pytest.raises(BadInput):
            embeddings_from(values, ids)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="row 2 repeats"):
        embeddings_from(np.ones((2, 2)), np.array(["a", "a"]))
