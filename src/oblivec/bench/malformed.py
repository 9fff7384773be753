"""Malformed files by the thousand: a valid file of every format, and everything that can go wrong with one.

Each file is determined by the seed and its number. Pickles try to create a file, so that one that ran can be told.
"""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from oblivec.bench.sample_files import FORMS
from oblivec.randomness import numpy_rng

_MUTATIONS = (
    "truncation", "bit flips", "overwritten", "inserted", "deleted", "repeated", "garbage", "other format", "header",
    "cells", "pickle",
)
_BOMB_BYTES = 3 << 30
_BOMB_SHARE = 0.02


@dataclass(frozen=True)
class MalformedFile:
    role: str
    form: str
    mutation: str
    suffix: str
    content: bytes


def malformed_file(number: int, seed: int, trap: Path, bombs: bool = True) -> MalformedFile:
    """The `number`-th file. `trap` is what a pickle in it would create; `bombs` take seconds each to recognise."""
    rng = numpy_rng(seed, "malformed", number)
    role, form, suffix, make = FORMS[number % len(FORMS)]
    mutation = "bomb" if bombs and rng.random() < _BOMB_SHARE else str(rng.choice(_MUTATIONS))
    content = make(rng)
    match mutation:
        case "pickle":
            content = _pickled(rng, suffix, trap)
        case "bomb":
            content = _bomb(rng, suffix)
        case "other format":
            content = FORMS[int(rng.integers(len(FORMS)))][3](rng)
        case "header":
            content = _edit_header(rng, content, suffix)
        case "cells":
            content = make(rng, True)
        case _:
            if suffix == ".csv.gz" and rng.random() < 0.7:
                content = gzip.compress(_damage(rng, gzip.decompress(content), mutation), 1)
            else:
                content = _damage(rng, content, mutation)
    return MalformedFile(role, form, mutation, suffix, content)


def _damage(rng: np.random.Generator, content: bytes, mutation: str) -> bytes:
    data = bytearray(content)
    start, length = int(rng.integers(len(data))), int(rng.integers(1, 64))
    match mutation:
        case "truncation":
            return bytes(data[:start])
        case "bit flips":
            for place in rng.integers(len(data), size=int(rng.integers(1, 17))):
                data[place] ^= 1 << int(rng.integers(8))
        case "overwritten":
            fill = [rng.bytes(length), b"\0" * length, b"\xff" * length, b"9" * length][int(rng.integers(4))]
            data[start:start + length] = fill
        case "inserted":
            marks = b'",\n\r;[]{}\0'
            data[start:start] = rng.bytes(length) if rng.random() < 0.5 else marks[:int(rng.integers(1, 11))]
        case "deleted":
            del data[start:start + length]
        case "repeated":
            data[start:start] = data[start:start + length] * int(rng.integers(1, 9))
        case _:
            return rng.bytes(int(rng.integers(1, 4096)))
    return bytes(data)


def _edit_header(rng: np.random.Generator, content: bytes, suffix: str) -> bytes:
    """Where a format says how large or of what type things are."""
    numbers = [0, 1, 2, 3, 7, 41, 255, 65536, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1, 2**64 - 1]
    number = numbers[int(rng.integers(len(numbers)))]
    if suffix == ".safetensors":
        length = struct.unpack("<Q", content[:8])[0]
        header, body = content[8:8 + length], content[8 + length:]
        if rng.random() < 0.3:
            return struct.pack("<Q", number) + header + body
        edited = _edit_text(rng, header, number)
        return struct.pack("<Q", len(edited)) + edited + body
    if suffix == ".npy":
        head = 128
        return content[:10] + _edit_text(rng, content[10:head], number)[:118].ljust(118, b" ") + content[head:]
    if suffix == ".parquet":
        length = struct.unpack("<I", content[-8:-4])[0]
        if rng.random() < 0.2:
            return content[:-8] + struct.pack("<I", number % 2**32) + content[-4:]
        footer = bytearray(content[-8 - length:-8])
        for place in rng.integers(len(footer), size=int(rng.integers(1, 5))):
            footer[place] = int(rng.integers(256))
        return content[:-8 - length] + bytes(footer) + content[-8:]
    text = gzip.decompress(content) if suffix == ".csv.gz" else content
    first, _, rest = text.partition(b"\n")
    row = rest.partition(b"\n")[0]
    changes = [b"", row, first.replace(b",", b";"), first + b"," + first, first[:-1], b'"' + first]
    text = changes[int(rng.integers(len(changes)))] + b"\n" + rest
    return gzip.compress(text, 1) if suffix == ".csv.gz" else text


def _edit_text(rng: np.random.Generator, header: bytes, number: int) -> bytes:
    """One of the words or numbers of a textual header replaced."""
    swaps = [
        (b"F32", b"BOOL"), (b"F32", b"F64"), (b"BF16", b"F8_E4M3"), (b"I64", b"F16"), (b"embeddings", b"embedding"),
        (b"<f4", b"|O"), (b"<f4", b"<f8"), (b"<f4", b"<U9"), (b"<f4", b"<M8[s]"), (b"<f4", b"<c8"), (b"<f4", b">i4"),
        (b"False", b"True"), (b"(40, 3)", b"(120,)"), (b"(40, 3)", b"(0, 3)"), (b"40", str(number).encode()),
        (b"3", str(-number).encode()), (b"[40,3]", b"[40,3,1]"), (b"480", str(number).encode()), (b"{", b"[" * 5000),
        (b"40", b"__import__('os')"), (b"ids", b"embeddings"),
    ]
    fitting = [swap for swap in swaps if swap[0] in header]
    old, new = fitting[int(rng.integers(len(fitting)))]
    return header.replace(old, new, 1)


class _Trap:
    """Unpickled, it would create a file."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self.path,)


def _pickled(rng: np.random.Generator, suffix: str, trap: Path) -> bytes:
    """A pickle under another name: bare, as an array of objects, or inside an archive."""
    bare = pickle.dumps(_Trap(trap))
    objects = io.BytesIO()
    np.save(objects, np.array([[_Trap(trap)]], dtype=object), allow_pickle=True)
    torch_file = io.BytesIO()
    torch.save({"embeddings": _Trap(trap)}, torch_file)
    archive = io.BytesIO()
    np.savez(archive, embeddings=np.array([[_Trap(trap)]], dtype=object))
    choices = [bare, objects.getvalue(), torch_file.getvalue(), archive.getvalue()]
    content = choices[int(rng.integers(len(choices)))]
    return gzip.compress(content, 1) if suffix == ".csv.gz" and rng.random() < 0.5 else content


def _bomb(rng: np.random.Generator, suffix: str) -> bytes:
    """A small file that unpacks, or claims to unpack, to gigabytes."""
    if suffix == ".csv.gz":
        return _gzip_bomb(b"user_id,item_id,timestamp,group\n", b"1,1,1,1\n")
    if suffix == ".npy":
        head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**38}, 64), }}".ljust(117) + "\n"
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + head.encode() + rng.bytes(64)
    if suffix == ".safetensors":
        size = 2**38 * 64 * 4
        head = json.dumps({"embeddings": {"dtype": "F32", "shape": [2**38, 64], "data_offsets": [0, size]}}).encode()
        return struct.pack("<Q", len(head)) + head + rng.bytes(64)
    if suffix == ".parquet":
        return _parquet_bomb()
    return _zip_bomb()


_made: dict[str, bytes] = {}


def _gzip_bomb(head: bytes, row: bytes) -> bytes:
    if "gzip" not in _made:
        block = gzip.compress(row * ((64 << 20) // len(row)), 9)
        _made["gzip"] = block * (_BOMB_BYTES // (64 << 20))
    return gzip.compress(head) + _made["gzip"]


def _zip_bomb() -> bytes:
    if "zip" not in _made:
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("embeddings.npy", b"\0" * (256 << 20))
        _made["zip"] = archive.getvalue()
    return _made["zip"]


def _parquet_bomb() -> bytes:
    """One long text that every row repeats: kilobytes on disk, gigabytes when spelled out."""
    if "parquet" not in _made:
        import pyarrow as pa
        from pyarrow import parquet

        rows = 3000
        text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * (1 << 20)]))
        ones = pa.array(np.ones(rows))
        names = ["user_id", "item_id", "timestamp", "group"]
        target = io.BytesIO()
        parquet.write_table(pa.table(dict(zip(names, [text, text, ones, text], strict=True))), target)
        _made["parquet"] = target.getvalue()
    return _made["parquet"]
