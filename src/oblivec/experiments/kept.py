"""Finished pieces of long work in a file, one JSON line each, so that it may be done in several runs.

A line counts only for what it was made by: it carries a digest of the code its result depends on, and lines of other
code are passed over. The digest is of what the code does and not of its words: comments, docstrings and layout may
change, and it is the same under every version of Python, so that lines of several machines can be put together.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from oblivec.console import say
from oblivec.errors import BadInput
from oblivec.files.atomic import append_line

PACKAGE = Path(__file__).parent.parent
SOURCES = ("attacks/*.py", "audit/*.py", "datasets/planted.py", "randomness.py")
_WORDS = {"kind", "type_comment", "type_ignores"}
"""Fields of a syntax tree that change nothing."""


@cache
def code_digest(sources: tuple[str, ...] = SOURCES) -> str:
    """Of these files of the package; by default of whatever attacks, judges and draws at random."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in sources for path in PACKAGE.glob(pattern)}):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0")
        digest.update(what_it_does(path.read_text(encoding="utf-8")).encode() + b"\0")
    return digest.hexdigest()[:16]


def what_it_does(source: str) -> str:
    """The code without its words. `ast.dump` would do, were its output the same in every version of Python."""
    return "".join(_pieces(ast.parse(source)))


def _pieces(node: Any) -> Iterator[str]:
    if isinstance(node, ast.JoinedStr):  # versions differ in how they cut the text between the braces
        yield "JoinedStr("
        for constant, run in groupby(node.values, lambda one: isinstance(one, ast.Constant)):
            if constant:
                text = "".join(str(one.value) for one in run if isinstance(one, ast.Constant))
                yield repr(text) if text else ""  # some have an empty one behind a brace within braces
            else:
                for one in run:
                    yield from _pieces(one)
        yield ")"
    elif isinstance(node, ast.AST):
        yield f"{type(node).__name__}("
        for name, value in ast.iter_fields(node):
            if name not in _WORDS and value not in (None, []):  # newer versions add fields that are mostly empty
                yield f"{name}="
                yield from _pieces(value)
        yield ")"
    elif isinstance(node, list):
        for one in node:
            if not _is_text_alone(one):
                yield from _pieces(one)
                yield ","
    else:
        yield repr(node)


def _is_text_alone(node: Any) -> bool:
    """A statement that is only a string: a docstring, or a word about the line above."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


class Kept:
    """The file. Lines are added by the processes that do the work, as soon as each piece is done."""

    def __init__(self, path: Path):
        self.path = path

    def read(self, codes: Mapping[str, str]) -> dict[str, dict[str, Any]]:
        """Of the pieces named in `codes`, those made by the code of that digest. The last line of a name counts.

        A line cut short by a kill is passed over, and said to be; so is one of other code.
        """
        found: dict[str, dict[str, Any]] = {}
        others = 0
        for name, code, result in self._rows():
            if name in codes and codes[name] == code:
                found[name] = result
            others += not name or codes.get(name, code) != code
        if others:
            say(f"{self.path}: {others} lines are broken or of other code and do not count")
        return found

    def earlier(self, codes: Mapping[str, str]) -> dict[str, tuple[str, dict[str, Any]]]:
        """Of the pieces named in `codes`, those that only other code has made: its digest, and the last result."""
        rows = [row for row in self._rows() if row[0] in codes]
        present = {name for name, code, _ in rows if code == codes[name]}
        return {name: (code, result) for name, code, result in rows if name not in present}

    def _rows(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Name, code and result of every line; an empty name for a broken one."""
        try:
            text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
            if text and not text.endswith("\n"):
                append_line(self.path, "")  # the next line must not continue a broken one
        except (OSError, UnicodeDecodeError):
            raise BadInput(f"{self.path}: cannot be read; name another place with --out or --resume") from None
        for line in filter(str.strip, text.splitlines()):
            try:
                row = json.loads(line)
                yield row["audit"], row["code"], row["result"]
            except (ValueError, KeyError, TypeError):
                yield "", "", {}

    def take_in(self, record: Path) -> None:
        """Add the lines of another such file that are not here yet."""
        here = {(name, code) for name, code, _ in self._rows()}
        for name, code, result in Kept(record)._rows():
            if name and (name, code) not in here:
                self.add(name, code, result)

    def add(self, name: str, code: str, result: dict[str, Any]) -> None:
        append_line(self.path, kept_line(name, code, result))


def kept_line(name: str, code: str, result: Mapping[str, Any]) -> str:
    return json.dumps({"code": code, "audit": name, "result": result})
