"""Finished audits in a file, one JSON line each, so that a long benchmark may be run in several pieces.

A line counts only for what it was made by: it carries a digest of the sources its result depends on, and lines of other
code are passed over. Simulated users are nobody, so that keeping their audits gives nothing away.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from oblivec.console import say
from oblivec.errors import BadInput
from oblivec.files.atomic import append_line

PACKAGE = Path(__file__).parent.parent
SOURCES = ("attacks/*.py", "audit/*.py", "datasets/planted.py", "randomness.py")


@cache
def code_digest(sources: tuple[str, ...] = SOURCES) -> str:
    """Of these files of the package; by default of whatever attacks, judges and draws at random."""
    digest = hashlib.sha256()
    for path in sorted(path for pattern in sources for path in PACKAGE.glob(pattern)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


class KeptAudits:
    """The file. Lines are added by the processes that run the audits, as soon as each is done.

    `code` is the digest of the sources that make a line; by default that of the audit's.
    """

    def __init__(self, path: Path, code: str | None = None):
        self.path, self.code = path, code_digest() if code is None else code

    def read(self) -> dict[str, dict[str, Any]]:
        """The audits this code has finished, by name. A line cut short by a kill is passed over."""
        try:
            text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
            if text and not text.endswith("\n"):
                append_line(self.path, "")  # the next line must not continue a broken one
        except (OSError, UnicodeDecodeError):
            raise BadInput(f"{self.path}: cannot be read as kept audits; name another file with --resume") from None
        found: dict[str, dict[str, Any]] = {}
        others = 0
        for line in text.splitlines():
            try:
                row = json.loads(line)
                own = row["code"] == self.code
                name, audit = row["audit"], row["result"]
            except (ValueError, KeyError, TypeError):
                others += bool(line.strip())
                continue
            if own:
                found[name] = audit
            others += not own
        if others:
            say(f"{self.path}: {others} lines are broken or of other code and do not count")
        return found

    def add(self, name: str, result: dict[str, Any]) -> None:
        append_line(self.path, json.dumps({"code": self.code, "audit": name, "result": result}))
