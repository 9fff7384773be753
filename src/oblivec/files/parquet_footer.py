"""How large a Parquet file says it is once unpacked, found out before anything is unpacked.

Run-length coding lets a file of a kilobyte hold a list of a billion equal numbers, and Arrow allocates a list whole.
Arrow's own view of a column's metadata cannot be used here: it ends the process where the metadata is damaged. The
footer and the head of every page are Thrift structures in compact encoding; `parquet.thrift` of the Parquet format
gives the numbers of their fields. The pages are counted themselves, because Arrow believes them and not the footer.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_MAGIC = b"PAR1"
_ROW_GROUPS, _COLUMNS, _ABOUT_COLUMN = 4, 1, 3
_NUM_VALUES, _PACKED_BYTES, _DATA_OFFSET, _DICTIONARY_OFFSET = 5, 7, 9, 11
_PAGE_BYTES, _PAGE_PACKED_BYTES, _PAGE_ABOUT, _PAGE_NUM_VALUES = 2, 3, (5, 8), 1
"""Of a page: its size, its size as stored, what is said of it (two versions), and there the number of values."""
_BYTES_PER_VALUE = 8
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_DEEPEST = 16


def unpacked_bytes(path: Path) -> int:
    """Of all pages of all columns, every value taking eight bytes at least. `ValueError` where the file is damaged."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        length = int.from_bytes(data[-8:-4], "little")
        if data[-4:] != _MAGIC or length > len(data) - 8:
            raise ValueError("no footer")
        about = _Compact(data, len(data) - 8 - length).struct()
        try:
            return sum(
                size for group in about.get(_ROW_GROUPS, ()) for column in group[_COLUMNS]
                for size in _page_sizes(data, column[_ABOUT_COLUMN])
            )
        except (KeyError, TypeError, AttributeError):
            raise ValueError("something is missing") from None


def _page_sizes(data: mmap.mmap, column: dict[int, Any]) -> Iterator[int]:
    """Unpacked size of the pages that Arrow would read of a column."""
    at = min(column[_DATA_OFFSET], column.get(_DICTIONARY_OFFSET) or column[_DATA_OFFSET])
    end, missing = at + column[_PACKED_BYTES], column[_NUM_VALUES]
    while at < end and missing > 0:
        if at < 0:
            raise ValueError("before the file")
        head = _Compact(data, at)
        page = head.struct()
        values = next((page[key][_PAGE_NUM_VALUES] for key in _PAGE_ABOUT if key in page), 0)
        if min(values, page[_PAGE_BYTES], page[_PAGE_PACKED_BYTES]) < 0:
            raise ValueError("not a count")
        yield max(_BYTES_PER_VALUE * values, page[_PAGE_BYTES])
        missing -= values
        at = head.at + page[_PAGE_PACKED_BYTES]


class _Compact:
    """Thrift's compact encoding as plain Python: a structure is a dictionary by field number."""

    def __init__(self, data: mmap.mmap, at: int):
        self.data, self.at = data, at

    def struct(self, depth: int = 0) -> dict[int, Any]:
        if depth > _DEEPEST:
            raise ValueError("nested too deep")
        found: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            found[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE, _BYTE):  # in a list a boolean is a byte
            return self._byte()
        if kind in (_I16, _I32, _I64):
            return self._signed()
        if kind == _DOUBLE:
            return self._bytes(8)
        if kind == _BINARY:
            return self._bytes(self._unsigned())
        if kind in (_LIST, _SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._unsigned()
            self._room_for(count)
            return [self._value(head & 15, depth + 1) for _ in range(count)]
        if kind == _MAP:
            count = self._unsigned()
            self._room_for(count)
            kinds = self._byte() if count else 0
            return [(self._value(kinds >> 4, depth + 1), self._value(kinds & 15, depth + 1)) for _ in range(count)]
        if kind == _STRUCT:
            return self.struct(depth + 1)
        raise ValueError("no such type")

    def _room_for(self, count: int) -> None:
        """Every element takes a byte at least."""
        if count > len(self.data) - self.at:
            raise ValueError("cut short")

    def _bytes(self, count: int) -> bytes:
        self._room_for(count)
        self.at += count
        return self.data[self.at - count : self.at]

    def _byte(self) -> int:
        return self._bytes(1)[0]

    def _unsigned(self) -> int:
        """Seven bits a byte, the lowest first."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("a number without an end")

    def _signed(self) -> int:
        """Zigzag: the lowest bit is the sign."""
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
