"""Run independent tasks on this machine, with results that do not depend on how many workers there are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch
from threadpoolctl import threadpool_limits

from oblivec.console import progress

Task = TypeVar("Task")
Result = TypeVar("Result")

_cores: ContextVar[int] = ContextVar("cores", default=1)


def default_jobs() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let tensor work use so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with threadpool_limits(limits=count):
            yield
    finally:
        torch.set_num_threads(before)


def run_single_threaded(function: Callable[[Task], Result], task: Task, cores: int = 1) -> Result:
    """One task on one thread: sums are then always taken in the same order, whatever runs beside it.

    `cores` is how many it may use where it asks for them by `in_threads`.
    """
    token = _cores.set(cores)
    try:
        with threads(1):
            return function(task)
    finally:
        _cores.reset(token)


def in_threads(function: Callable[[Task], Result], pieces: Iterable[Task]) -> list[Result]:
    """`[function(piece) for piece in pieces]` on the cores of the task at hand, every piece on one thread.

    For pieces of tensor work that write to different places: how many cores there are changes no bit.
    """
    cores = _cores.get()
    if cores == 1:
        return [function(piece) for piece in pieces]
    with ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return list(pool.map(function, pieces))


def offspring(rng: torch.Generator, count: int) -> list[torch.Generator]:
    """Streams of their own, drawn from one: for tasks side by side, which would otherwise draw in any order."""
    seeds = torch.randint(2**62, (count,), generator=rng, device=rng.device).tolist()
    return [torch.Generator(rng.device).manual_seed(seed) for seed in seeds]


def map_tasks(
    function: Callable[[Task], Result], tasks: Iterable[Task], jobs: int | None = None, label: str = "Working"
) -> list[Result]:
    """`[function(task) for task in tasks]` on `jobs` processes (default: all cores), in the order of the tasks.

    Every task runs on one thread, so that one job and many give the same floating-point result.
    """
    work: Sequence[Task] = list(tasks)
    cores = jobs or default_jobs()
    jobs = min(cores, max(len(work), 1))
    results: list[Result] = []
    if len(work) == 1:  # has a bar of its own, if any, and all cores
        return [run_single_threaded(function, work[0], cores)]
    with progress(label, len(work)) as tick:
        if jobs == 1:
            for task in work:
                results.append(run_single_threaded(function, task))
                tick()
        else:
            from joblib import Parallel, delayed

            pool = Parallel(n_jobs=jobs, return_as="generator", batch_size=1)  # type: ignore[arg-type]
            for result in pool(delayed(run_single_threaded)(function, task) for task in work):
                results.append(result)  # type: ignore[arg-type]
                tick()
    return results
