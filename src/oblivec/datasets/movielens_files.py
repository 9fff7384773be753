"""The layouts MovieLens comes in, and the one form they are all brought into.

GroupLens publishes `u.data` and `u.user` (ML-100K) or `ratings.dat` and `users.dat` (ML-1M). The mirror on the package
index has the same rows in the same order as RecBole's atomic files, `NAME.inter` and `NAME.user`: tab separated, with
a header of `name:type`, and for ML-1M with CRLF line ends, users called `1m_7` and titles for item ids.

Titles cannot be turned back into GroupLens's movie numbers without another file. ML-1M's items are therefore numbered
by first appearance among the ratings, which comes out the same whatever the source calls them.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from oblivec.datasets.columns import labels, refuse_repeats, whole_numbers
from oblivec.errors import BadInput
from oblivec.files.arrow import compute
from oblivec.files.opening import refuse_bomb

Label = str | None
NO_AGE = -1
_RATING_COLUMNS = ("user_id", "item_id", "rating", "timestamp")
_ATOMIC_USER_PREFIX = r"^(100k|1m)_"


@dataclass(frozen=True)
class Tables:
    """MovieLens without its layout. The first three run over ratings in file order, the others over users."""

    users: np.ndarray
    items: np.ndarray
    timestamps: np.ndarray
    members: np.ndarray
    """User keys of the attribute table, in its order."""
    ages: np.ndarray
    """As numbers; `NO_AGE` where there is none."""
    genders: tuple[Label, ...]
    occupations: tuple[Label, ...]

    ARRAYS = ("users", "items", "timestamps", "members", "ages")
    LABELS = ("genders", "occupations")

    def sha256(self) -> str:
        """Of the content, so that it is the same for every source of the same data."""
        digest = hashlib.sha256()
        for name in self.ARRAYS:
            digest.update(np.ascontiguousarray(getattr(self, name), dtype="<i8").tobytes())
        digest.update(json.dumps([getattr(self, name) for name in self.LABELS]).encode())
        return digest.hexdigest()


@dataclass(frozen=True)
class Layout:
    """How GroupLens lays out one of its data sets."""

    name: str
    ratings: str
    ratings_separator: str
    members: str
    members_separator: str
    member_columns: tuple[str, ...]
    number_items: bool
    """Number items by first appearance instead of keeping their keys."""

    def read(self, path: Path) -> Tables:
        """From a folder, a zip or a wheel, in GroupLens's layout or the mirror's."""
        container = _Container(path)
        for ratings_name, members_name in ((self.ratings, self.members), (f"{self.name}.inter", f"{self.name}.user")):
            ratings_at, members_at = container.find(ratings_name), container.find(members_name)
            if ratings_at and members_at:
                break
            if ratings_at:
                raise BadInput(f"{path}: has {ratings_name} but no {members_name}; both are needed")
        else:
            raise BadInput(f"{path}: has no {self.ratings}; give the folder or zip of {self.name} as GroupLens has it")
        if ratings_name == self.ratings:
            ratings = _separated(container, ratings_at, self.ratings_separator, _RATING_COLUMNS)
            members = _separated(container, members_at, self.members_separator, self.member_columns)
        else:
            ratings, members = (_separated(container, member, "\t", None) for member in (ratings_at, members_at))
        return self._tables(ratings, members)

    def _tables(self, ratings: _Table, members: _Table) -> Tables:
        keys = members.user_keys()
        refuse_repeats(keys, members.where, "user_id")
        return Tables(
            ratings.user_keys(),
            ratings.by_appearance("item_id") if self.number_items else ratings.numbers("item_id"),
            ratings.numbers("timestamp"),
            keys,
            whole_numbers(members.column("age").fill_null(str(NO_AGE)), members.where, "age"),
            *(tuple(labels(members.column(name))) for name in ("gender", "occupation")),
        )


@dataclass(frozen=True)
class _Table:
    where: str
    columns: dict[str, Any]

    def column(self, name: str) -> Any:
        if name not in self.columns:  # what it has instead is not said: without its header, that would be ids
            raise BadInput(f"{self.where}: has no column '{name}'; give the file as it was published")
        return self.columns[name]

    def numbers(self, name: str) -> np.ndarray:
        return whole_numbers(self.column(name), self.where, name)

    def user_keys(self) -> np.ndarray:
        keys = compute().replace_substring_regex(self.column("user_id"), _ATOMIC_USER_PREFIX, "")
        return whole_numbers(keys, self.where, "user_id")

    def by_appearance(self, name: str) -> np.ndarray:
        """1 for the first value met, 2 for the next new one, and so on."""
        cells = self.column(name)
        if cells.null_count:
            row = int(np.argmax(np.asarray(cells.is_null()))) + 1
            raise BadInput(f"{self.where}: column '{name}', row {row} is empty; fill it in or drop the row")
        return cells.dictionary_encode().indices.to_numpy().astype(np.int64) + 1


class _Container:
    """A folder or an archive, seen as names and bytes."""

    def __init__(self, path: Path):
        self.path = path
        self.is_folder = path.is_dir()
        if self.is_folder:
            self.names = [str(found.relative_to(path)) for found in [*path.glob("*"), *path.glob("*/*")]]
        elif path.exists():
            with self._archive() as archive:
                self.names = archive.namelist()
        else:
            raise BadInput(f"{path}: no such file or folder; check --path")

    def find(self, name: str) -> str | None:
        """The member of this name that lies least deep."""
        found = [member for member in self.names if PurePosixPath(member).name == name]
        return min(found, key=lambda member: (member.count("/"), member), default=None)

    def where(self, member: str) -> str:
        return str(self.path / member)

    def read(self, member: str) -> bytes:
        try:
            if self.is_folder:
                return (self.path / member).read_bytes()
            with self._archive() as archive:
                refuse_bomb(self.path, archive.getinfo(member).file_size)
                return archive.read(member)
        except OSError as problem:
            raise BadInput(f"{self.where(member)}: cannot be read ({problem.strerror or problem})") from None
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError):
            raise _damaged(self.path) from None

    def _archive(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.path)
        except OSError as problem:
            raise BadInput(f"{self.path}: cannot be read ({problem.strerror or problem}); check --path") from None
        except zipfile.BadZipFile:
            raise _damaged(self.path) from None


def _damaged(path: Path) -> BadInput:
    return BadInput(f"{path}: is not a readable zip archive (damaged or cut short); get it again")


def _separated(container: _Container, member: str, separator: str, names: tuple[str, ...] | None) -> _Table:
    """Every column as text; `names` when the file has no header, else the header's, up to their colon."""
    import pyarrow as pa
    from pyarrow import csv

    where, data = container.where(member), container.read(member)
    if len(separator) > 1:
        data, separator = data.replace(separator.encode(), b"\t"), "\t"
    if names is None:
        header = data.split(b"\n", 1)[0].decode("utf-8", "replace").strip()
        names, skip = tuple(cell.split(":")[0] for cell in header.split("\t")), 1
    else:
        skip = 0
    if not data.strip():
        raise BadInput(f"{where}: is empty; get it again")
    broken: list[Any] = []

    def on_broken_row(row: Any) -> str:
        broken.append(row)
        return "error"

    try:
        table = csv.read_csv(
            io.BytesIO(data),
            read_options=csv.ReadOptions(use_threads=False, column_names=names, skip_rows=skip, block_size=1 << 24),
            parse_options=csv.ParseOptions(
                delimiter=separator, quote_char=False, invalid_row_handler=on_broken_row
            ),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True,
                check_utf8=False,
            ),
        )
    except pa.ArrowException:
        if broken:
            raise BadInput(
                f"{where}: row {broken[0].number - skip} has {broken[0].actual_columns} cells, "
                f"{broken[0].expected_columns} were expected; the file is cut short or of another layout"
            ) from None
        raise BadInput(f"{where}: is not a readable text file (damaged or cut short); get it again") from None
    return _Table(where, {name: table.column(name).combine_chunks() for name in names})
