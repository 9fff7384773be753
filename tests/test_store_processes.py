"""The store among processes: killed at any instant, several writers at once, clean-up while others write."""

from __future__ import annotations

import multiprocessing
import signal
import time
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

import store_helpers
from oblivec.randomness import numpy_rng
from oblivec.store import Store
from oblivec.store.upkeep import collect, verify
from store_helpers import calibration

KILLS = 25
ROWS = 20_000
"""Makes an entry of 320 KB: long enough to write that a kill finds the writer in the middle of it."""


@pytest.fixture(scope="module")
def processes() -> ForkServerContext:
    """Processes that have the libraries loaded when they start: a kill then hits the work and not an import."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["oblivec.store"])
    return context


def problems(store: Store) -> list[object]:
    return [finding.problem for finding in verify(store) if finding.problem]


def last_changes(store: Store) -> dict[str, int]:
    """Key and moment of last change of every tensor file: what must stay when a run resumes."""
    return {entry.key: entry.tensor_file.stat().st_mtime_ns for entry in store.entries()}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))])
def test_a_run_killed_at_any_instant_resumes(processes: ForkServerContext, tmp_path: Path, seed: int) -> None:
    rng = numpy_rng(seed, "kill")
    path, journal = tmp_path / "store", tmp_path / "journal"
    finished: dict[str, int] = {}
    hits = 0
    journal.touch()
    for _ in range(KILLS):
        begun = processes.Event()
        run = processes.Process(target=store_helpers.work, args=(path, 100 * KILLS, ROWS, journal, begun))
        run.start()
        assert begun.wait(60)
        time.sleep(rng.uniform(0, 0.1))  # from before the store is opened to well into the work
        run.kill()
        run.join()
        assert run.exitcode == -signal.SIGKILL
        store = Store(path)
        assert problems(store) == []
        now = last_changes(store)
        assert finished.items() <= now.items()  # nothing lost, nothing done again
        assert {calibration(int(number), ROWS)[0].key for number in journal.read_text().split()} <= now.keys()
        finished = now
        hits += len(list(collect(store)))
        assert not store.temporaries()
    assert hits > 0  # some kill found a writer in the middle
    assert len(finished) > 0
    store_helpers.work(path, len(finished) + 3, ROWS, journal)
    assert len(last_changes(Store(path)).items() - finished.items()) == 3


@pytest.mark.parametrize("damaged", [False, True], ids=["absent", "damaged"])
def test_two_writers_of_the_same_entries_are_both_content(
    processes: ForkServerContext, tmp_path: Path, damaged: bool
) -> None:
    if damaged:
        store = Store(tmp_path / "store")
        for number in range(60):
            store.put(*calibration(number, rows=2000), 0.1)
        for entry in store.entries():
            entry.tensor_file.write_bytes(b"cut short")
    start = processes.Barrier(3)
    writers = [
        processes.Process(target=store_helpers.write_same, args=(tmp_path / "store", 60, start)) for _ in range(2)
    ]
    for writer in writers:
        writer.start()
    start.wait()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    store = Store(tmp_path / "store")
    assert len(store.entries()) == 60
    assert problems(store) == []
    assert not store.temporaries()


def test_clean_up_takes_nothing_from_those_who_write(processes: ForkServerContext, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    journal = tmp_path / "journal"
    writers = [
        processes.Process(target=store_helpers.work, args=(store.path, 40, 2000, journal)) for _ in range(2)
    ]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert list(collect(store)) == []
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert len(store.entries()) == 40
    assert problems(store) == []
