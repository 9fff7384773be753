"""Malformed files: refused in one line or read right, and nothing else. The benchmark does this 12,000 times."""

from __future__ import annotations

import gzip
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oblivec.bench.fuzz_readers import GOOD, READERS, judge, run
from oblivec.errors import BadInput
from oblivec.files.embeddings import read_embeddings
from oblivec.files.tables import read_interactions

SUFFIXES = {
    "embeddings": (".npy", ".safetensors", ".parquet", ".csv"),
    "attributes": (".csv", ".csv.gz", ".parquet"),
    "interactions": (".csv", ".csv.gz", ".parquet"),
}
in_one_folder = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])


@settings(in_one_folder, max_examples=300)
@given(number=st.integers(0, 10**9), seed=st.integers(1, 10))
def test_no_malformed_file_gets_through(tmp_path: Path, number: int, seed: int) -> None:
    answer = judge(number, seed, tmp_path, bombs=False)
    assert answer["outcome"] in GOOD, answer


@settings(in_one_folder, max_examples=200)
@given(content=st.binary(min_size=1, max_size=300), role=st.sampled_from(list(READERS)), data=st.data())
def test_any_bytes_at_all_are_refused_or_read(
    tmp_path: Path, content: bytes, role: str, data: st.DataObject
) -> None:
    suffix = data.draw(st.sampled_from(SUFFIXES[role]))
    magic = {".npy": b"\x93NUMPY\x01\x00", ".parquet": b"PAR1", ".csv": b"user_id,item_id\n"}.get(suffix, b"")
    content = magic + content + (b"PAR1" if suffix == ".parquet" else b"")
    path = tmp_path / f"file{suffix}"
    path.write_bytes(gzip.compress(content, 1) if suffix == ".csv.gz" else content)
    with suppress(BadInput):
        assert len(READERS[role](path)) > 0


def test_the_benchmark_counts_every_file() -> None:
    result = run(files=36)
    assert sum(result["outcomes"].values()) == 36
    assert sum(result["outcomes"][outcome] for outcome in GOOD) == 36, result["findings"]
    assert len(result["by_format"]) == 12


def test_a_dead_reader_and_an_indiscreet_one_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tells(path: Path) -> None:
        raise BadInput(f"{path}: row of canary3")

    def falls(path: Path) -> None:
        raise KeyError("canary3")

    for reader, outcome in ((tells, "indiscreet"), (falls, "crash")):
        monkeypatch.setattr("oblivec.bench.fuzz_readers.READERS", dict.fromkeys(READERS, reader))
        assert judge(0, 0, tmp_path)["outcome"] == outcome


@pytest.mark.slow
def test_a_gzip_bomb_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    row = b"1,1\n"
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"user_id,item_id\n") + gzip.compress(row * (16 << 20), 9) * 40)
    with pytest.raises(BadInput, match="unpacks to more than"):
        read_interactions(path)


def test_a_long_text_repeated_over_all_rows_is_not_spelled_out(tmp_path: Path) -> None:
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    rows = 3000
    ids = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * (1 << 20)]))
    parquet.write_table(pa.table({"user_id": ids, "d0": np.ones(rows)}), tmp_path / "bomb.parquet")
    with pytest.raises(BadInput, match="unpacks to more than"):
        read_embeddings(tmp_path / "bomb.parquet")
