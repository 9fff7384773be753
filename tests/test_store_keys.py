"""The content address: whatever could change a result changes the key, and nothing else does."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from oblivec.datasets.attributes import Attribute, categorical, continuous
from oblivec.errors import BadInput
from oblivec.store import Lineage, calibration_lineage, labels_hash, matrix_hash, release_lineage
from oblivec.store.keys import canonical_json, config_hash
from store_helpers import Tiny, calibration, gender, users

MATRICES = arrays(np.float32, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.floats(width=32))
CODES = st.lists(st.integers(-1, 3), min_size=1, max_size=12).map(np.array)
ORIGINAL = calibration_lineage(Tiny(), gender(), user_matrix="u", seed=1)


@given(MATRICES, st.data())
def test_one_flipped_bit_changes_a_matrix(matrix: np.ndarray, data: st.DataObject) -> None:
    bits = matrix.copy().view(np.uint32).ravel()
    bits[data.draw(st.integers(0, bits.size - 1))] ^= np.uint32(1 << data.draw(st.integers(0, 31)))
    assert matrix_hash(matrix) != matrix_hash(bits.view(np.float32).reshape(matrix.shape))


@given(MATRICES)
def test_how_a_matrix_lies_in_memory_does_not_matter(matrix: np.ndarray) -> None:
    same = matrix_hash(matrix)
    assert matrix_hash(np.asfortranarray(matrix)) == same
    assert matrix_hash(np.repeat(matrix, 2, axis=1)[:, ::2]) == same
    assert matrix_hash(matrix.astype(">f4")) == same
    assert matrix_hash(torch.from_numpy(matrix)) == same
    assert matrix_hash(torch.from_numpy(matrix.T.copy()).T) == same


@given(MATRICES.filter(lambda matrix: not np.array_equal(matrix.view(np.uint32), matrix[::-1].view(np.uint32))))
def test_the_order_of_rows_matters(matrix: np.ndarray) -> None:
    assert matrix_hash(matrix) != matrix_hash(matrix[::-1])


def test_type_and_shape_matter() -> None:
    zeros = np.zeros((4, 6), np.float32)
    others = [zeros.reshape(6, 4), zeros.ravel(), zeros.view(np.int32), np.zeros((4, 6)), np.zeros((2, 6)), -zeros]
    assert len({matrix_hash(matrix) for matrix in [zeros, *others]}) == 7


def test_more_than_one_chunk_hashes_like_one(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = matrix_hash(users(rows=1000))
    monkeypatch.setattr("oblivec.store.keys._CHUNK_BYTES", 100)
    assert matrix_hash(users(rows=1000)) == whole


def test_odd_tensors_have_a_hash() -> None:
    half = torch.arange(6).reshape(2, 3).bfloat16()
    tensors = [half, half.half(), half.T, torch.tensor(1.0), torch.tensor([1.0]), torch.zeros(0, 3), half.bool()]
    assert len({matrix_hash(tensor) for tensor in tensors}) == len(tensors)
    assert matrix_hash(half.float().requires_grad_()) == matrix_hash(half.float())


@given(CODES, st.data())
def test_one_changed_label_changes_the_labels(codes: np.ndarray, data: st.DataObject) -> None:
    changed = codes.copy()
    row = data.draw(st.integers(0, len(codes) - 1))
    changed[row] = data.draw(st.integers(-1, 3).filter(lambda code: code != codes[row]))
    first, second = (Attribute("a", "categorical", values, ("w", "x", "y", "z")) for values in (codes, changed))
    assert labels_hash(first) != labels_hash(second)


def test_labels_count_by_value() -> None:
    codes = categorical("a", ["x", None, "y"])
    assert labels_hash(codes) == labels_hash(replace(codes, classes=("k", "l"), values=codes.values.astype(np.int32)))
    assert labels_hash(codes) != labels_hash(replace(codes, classes=("x", "y", "z")))
    assert labels_hash(codes) != labels_hash(replace(codes, kind="binned"))
    odd_nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    assert labels_hash(continuous("a", np.array([0.0, np.nan]))) == labels_hash(
        continuous("a", np.array([-0.0, odd_nan]))
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda: calibration_lineage(Tiny.configure(steps=4), gender(), user_matrix="u", seed=1),
        lambda: calibration_lineage(Tiny(), gender(), user_matrix="v", seed=1),
        lambda: calibration_lineage(Tiny(), gender(), user_matrix="u", seed=2),
        lambda: calibration_lineage(Tiny(), gender(), user_matrix="u", item_matrix="i", seed=1),
        lambda: calibration_lineage(Tiny(), gender(21), user_matrix="u", seed=1),
        lambda: calibration_lineage(Tiny(), replace(gender(), name="sex"), user_matrix="u", seed=1),
        lambda: ORIGINAL.model_copy(update={"method": "other"}),
        lambda: ORIGINAL.model_copy(update={"algorithm": ORIGINAL.algorithm + 1}),
        lambda: ORIGINAL.model_copy(update={"schema_version": 2}),
        lambda: release_lineage(Tiny(), [ORIGINAL], user_matrix="u", seed=1),
    ],
)
def test_whatever_could_change_a_result_changes_the_key(change: Callable[[], Lineage]) -> None:
    assert change().key != ORIGINAL.key


def test_a_release_depends_on_its_calibrations_in_order() -> None:
    age = calibration_lineage(Tiny(), replace(gender(), name="age"), user_matrix="u", seed=1)
    one = release_lineage(Tiny(), [ORIGINAL, age], user_matrix="u")
    assert one.attributes == ["gender", "age"]
    assert one.key == release_lineage(Tiny(), [ORIGINAL, age], user_matrix="u").key
    assert one.key != release_lineage(Tiny(), [age, ORIGINAL], user_matrix="u").key
    with pytest.raises(ValueError, match="own user matrix"):
        release_lineage(Tiny(), [ORIGINAL], user_matrix="another")


def test_the_key_is_the_same_in_every_process_and_release() -> None:
    """Written down once: a change here means that no store of before is met any more, and must be meant."""
    expected = "830a13989cd72a5aabdd081caf03796b5a770cd6a63cebf4ec6f33f20c7efb48"
    assert calibration(7)[0].key == expected
    code = "from store_helpers import calibration; print(calibration(7)[0].key)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parent,
        env={"PYTHONHASHSEED": "5", "OMP_NUM_THREADS": "1"},
    )
    assert done.stdout.strip() == expected


@given(st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False, allow_infinity=False) | st.integers()))
def test_settings_hash_alike_in_any_order(settings: dict[str, float]) -> None:
    assert config_hash(settings) == config_hash(dict(reversed(settings.items())))


def test_what_json_cannot_say_is_bad_input() -> None:
    for value in (float("nan"), {"x": object()}, float("inf")):
        with pytest.raises(BadInput, match="JSON has no word"):
            canonical_json(value)


def test_a_million_users_hash_in_no_time() -> None:
    matrix = np.zeros((1_000_000, 64), np.float32)
    start = time.process_time()
    matrix_hash(matrix)
    assert time.process_time() - start < 2
