"""`.npy` matrices: the header is checked against the file's size before anything is allocated; pickles are refused."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from oblivec.errors import BadInput
from oblivec.files.opening import decoding

_MAP_FROM_BYTES = 64 << 20
_MAGIC = b"\x93NUMPY"


@dataclass(frozen=True)
class NpyLayout:
    """What `.npy` needs to be written back as it came."""

    dtype: np.dtype
    fortran: bool


def read_npy(path: Path) -> tuple[np.ndarray, NpyLayout]:
    """The matrix as stored, and its layout. A large one is mapped copy-on-write: it is read when it is used."""
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise BadInput(f"{path}: is not a NumPy array file (a pickle is never opened); save it with numpy.save")
        file.seek(0)
        with decoding(path, "NumPy"):
            version = np.lib.format.read_magic(file)
            read_header = (
                np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a header in the style of Python 2 is still a header
                shape, fortran, dtype = read_header(file)
        offset = file.tell()
    if dtype.hasobject:
        raise BadInput(f"{path}: holds Python objects, which are pickles and are never opened; save it as float32")
    if len(shape) != 2:
        raise BadInput(f"{path}: has {len(shape)} dimensions, not 2; an embedding matrix is users x dimensions")
    expected = math.prod(shape) * dtype.itemsize
    if expected != path.stat().st_size - offset or min(shape) < 0:
        raise BadInput(f"{path}: its header does not fit its size (damaged or cut short); write it again")
    if expected == 0:
        raise BadInput(f"{path}: holds {shape[0]} rows of {shape[1]} dimensions; at least one of each is needed")
    with decoding(path, "NumPy"):
        if expected >= _MAP_FROM_BYTES:
            values = np.memmap(path, dtype, "c", offset, shape, "F" if fortran else "C")
        else:
            flat = np.fromfile(path, dtype, math.prod(shape), offset=offset)
            values = flat.reshape(shape, order="F" if fortran else "C")
    return values, NpyLayout(dtype, fortran)


def write_npy(target: Path, values: np.ndarray, layout: NpyLayout) -> None:
    """Takes values already cast to the type to write; byte order and element order are the layout's."""
    dtype = values.dtype.newbyteorder(layout.dtype.byteorder)
    with target.open("wb") as file:
        np.save(file, values.astype(dtype, order="F" if layout.fortran else "C", copy=False), allow_pickle=False)
