"""Lists that unpack to far more than their file are refused before Arrow allocates them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from oblivec.errors import BadInput
from oblivec.files import opening, table_sources
from oblivec.files.embeddings import read_embeddings
from oblivec.files.parquet_footer import unpacked_bytes

VALUES = 300_000


@pytest.fixture
def bomb(tmp_path: Path) -> Path:
    """One user whose vector is one number, 300,000 times: less than a kilobyte."""
    path = tmp_path / "bomb.parquet"
    table = pa.table({"user_id": ["a"], "v": pa.array([np.zeros(VALUES)], type=pa.list_(pa.float64()))})
    parquet.write_table(table, path, compression="zstd", data_page_size=1 << 30)
    assert path.stat().st_size < 1024
    return path


@pytest.fixture
def nothing_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte is already too much, and a reader that begins to read has lost."""
    monkeypatch.setattr(opening, "_FREE_BYTES", 1 << 20)
    monkeypatch.setattr(table_sources, "_parquet_batches", lambda *_: pytest.fail("the columns were read"))


@pytest.mark.usefixtures("nothing_is_unpacked")
def test_a_run_length_list_is_refused_unread(bomb: Path) -> None:
    assert unpacked_bytes(bomb) >= 8 * VALUES
    with pytest.raises(BadInput, match=r"bomb.parquet: unpacks to more than 100 times its size; .* uncompressed$"):
        read_embeddings(bomb)


@pytest.mark.usefixtures("nothing_is_unpacked")
def test_a_footer_that_lies_about_the_list_does_not_help(bomb: Path) -> None:
    """Arrow would read as many values as the page has."""
    data = bomb.read_bytes()
    said = bytes([VALUES * 2 & 127 | 128, VALUES * 2 >> 7 & 127 | 128, VALUES * 2 >> 14])  # zigzag, seven bits a byte
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    lies = 0
    for at in range(footer, len(data)):
        if data[at : at + 3] == said:
            bomb.write_bytes(data[:at] + b"\x82\x80\x00" + data[at + 3 :])  # 1
            with parquet.ParquetFile(bomb) as file:
                lies += file.metadata.row_group(0).column(1).num_values == 1
            with pytest.raises(BadInput, match="unpacks to more than"):
                read_embeddings(bomb)
    assert lies == 1  # the number of values was among what was changed


@pytest.mark.parametrize(
    "options",
    [{}, {"data_page_version": "2.0"}, {"use_dictionary": False}, {"data_page_size": 100}, {"row_group_size": 7}],
    ids=["plain", "second version", "no dictionary", "many pages", "many groups"],
)
def test_an_honest_file_says_about_what_it_holds(tmp_path: Path, options: dict[str, object]) -> None:
    U = np.random.default_rng(0).standard_normal((100, 16))
    table = pa.table({"user_id": np.arange(100), "v": pa.array(list(U), type=pa.list_(pa.float64()))})
    parquet.write_table(table, tmp_path / "u.parquet", **options)  # type: ignore[arg-type]
    assert U.nbytes <= unpacked_bytes(tmp_path / "u.parquet") <= 4 * U.nbytes
    np.testing.assert_array_equal(read_embeddings(tmp_path / "u.parquet").values, U)


def test_no_rows_no_bytes(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"user_id": pa.array([], pa.string())}), tmp_path / "u.parquet")
    assert unpacked_bytes(tmp_path / "u.parquet") == 0


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.floats(0, 1), value=st.integers(0, 255), cut=st.integers(0, 3))
def test_damage_is_a_value_error_and_nothing_else(bomb: Path, where: float, value: int, cut: int) -> None:
    data = bytearray(bomb.read_bytes())
    data[int(where * (len(data) - 1))] = value
    damaged = bomb.with_name("damaged.parquet")
    damaged.write_bytes(data[cut:])
    with suppress(ValueError):
        assert unpacked_bytes(damaged) >= 0
