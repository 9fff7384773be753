"""What is checked before any byte of a user's file is interpreted, and how a damaged file becomes one clear line."""

from __future__ import annotations

import os
import stat
import tokenize
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from oblivec.errors import BadInput

_FREE_BYTES = 256 << 20
_MOST_EXPANSION = 100

_WHY_NOT = {
    ".npz": "a zip archive can unpack to any size; save its one array with numpy.save as .npy",
    ".pkl": "a pickle can run code; save the array with numpy.save as .npy",
    ".pickle": "a pickle can run code; save the array with numpy.save as .npy",
    ".pt": "it is a pickle, which can run code; save the tensor with safetensors",
    ".pth": "it is a pickle, which can run code; save the tensor with safetensors",
    ".joblib": "it is a pickle, which can run code; save the array with numpy.save as .npy",
}


def suffix_of(path: Path | str) -> str:
    """The suffix that decides the format, in lower case; `.csv.gz` counts as one."""
    name = Path(path).name.lower()
    return ".csv.gz" if name.endswith(".csv.gz") else Path(name).suffix


def check_readable(path: Path | str, suffixes: Sequence[str]) -> tuple[Path, str]:
    """The path and its suffix, once it is known to be a readable, non-empty, ordinary file of a format we read."""
    path = Path(path)
    suffix = suffix_of(path)
    if suffix not in suffixes:
        reason = _WHY_NOT.get(suffix, "the suffix tells the format")
        raise BadInput(f"{path}: {suffix or 'a file without suffix'} is not read ({reason}); use {one_of(suffixes)}")
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise BadInput(f"{path}: is a directory; give a file")
        if not stat.S_ISREG(status.st_mode):
            raise BadInput(f"{path}: is not an ordinary file (a pipe or a device); write it to a file first")
        if status.st_size == 0:
            raise BadInput(f"{path}: is empty; write it again")
        with path.open("rb"):
            pass
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file; check the path") from None
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else "the path is not valid"
        raise BadInput(f"{path}: cannot be read ({reason}); check the path and its permissions") from None
    return path, suffix


def one_of(names: Sequence[str]) -> str:
    """`a, b or c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


@contextmanager
def decoding(path: Path, form: str) -> Iterator[None]:
    """Turn whatever a format's library raises into `BadInput`.

    The library's own words are dropped, because they quote cells of the file. Keep the block around library calls
    only, so that a fault of ours is not taken for a damaged file.
    """
    import pyarrow as pa
    from safetensors import SafetensorError

    try:
        yield
    except MemoryError:
        raise BadInput(f"{path}: does not fit into memory; use a machine with more of it, or fewer rows") from None
    except (
        pa.ArrowException, SafetensorError, OSError, ValueError, OverflowError, EOFError, RecursionError, KeyError,
        IndexError, TypeError, SyntaxError, tokenize.TokenError,
    ):
        raise BadInput(f"{path}: is not a readable {form} file (damaged or cut short); write it again") from None


def unpacked_limit(path: Path) -> int:
    """Bytes a compressed file may grow to in memory before it is taken for a bomb: 256 MiB, or 100 times its size."""
    return max(_FREE_BYTES, _MOST_EXPANSION * os.path.getsize(path))


def refuse_bomb(path: Path, unpacked_bytes: int) -> None:
    if unpacked_bytes > unpacked_limit(path):
        raise BadInput(
            f"{path}: unpacks to more than {_MOST_EXPANSION} times its size; if that is meant, write it uncompressed"
        )
