"""How long things take, measured so that they can be compared: the same cores, side by side, in one process.

Loops whose steps all cost the same are timed on a few steps and scaled up; what was run and what was scaled is said.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from oblivec.baselines.mmd import BLOCK
from oblivec.engines import local

ENOUGH_SECONDS = 0.5
"""By how much a longer run must take longer, to be told from noise."""


def seconds_of(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def scaled(run: Callable[[int], Any], few: int, many: int, whole: int) -> dict[str, Any]:
    """Seconds of `run(whole)`, from runs of `few` and of at least `many` steps: what is done once, and what every step
    costs. The longer run is made long enough for the clock. Where it would have to be whole, it is run as it is."""
    if whole > many:
        run(few)  # the first run of anything takes longer
    while whole > many:
        short, long = seconds_of(lambda: run(few)), seconds_of(lambda many=many: run(many))
        if long - short >= ENOUGH_SECONDS:
            step = (long - short) / (many - few)
            return {"seconds": short + (whole - few) * step, "seconds_of_a_step": step, "steps": whole,
                    "steps_run": many}
        many *= 4
    return {"seconds": seconds_of(lambda: run(whole)), "steps": whole, "steps_run": whole}


def fastest(run: Callable[[], dict[str, Any]], most_threads: int) -> dict[str, Any]:
    """With one thread, two, and so on: the run that takes least, as whoever owns the machine would run it."""
    found = {}
    for threads in range(1, most_threads + 1):
        with local.threads(threads):
            found[threads] = run()
    best = min(found, key=lambda threads: found[threads]["seconds"])
    return found[best] | {"threads": best}


def product_rate(dimensions: int) -> dict[str, float]:
    """Floating-point operations a second of float32 products on the threads in use: of large square matrices, and of
    the narrow ones that D2DFR's pairs give."""
    block, wide = BLOCK["cpu"], 1536
    square, left, right = torch.randn(wide, wide), torch.randn(block, dimensions), torch.randn(dimensions, block)
    return {"square": _rate(square, square, 6), "narrow": _rate(left, right, 2000)}


def _rate(A: torch.Tensor, B: torch.Tensor, times: int) -> float:
    out = A @ B

    def multiply() -> None:
        for _ in range(times):
            torch.mm(A, B, out=out)

    multiply()
    return 2 * times * A.shape[0] * A.shape[1] * B.shape[1] / min(seconds_of(multiply) for _ in range(3))


def d2dfr_flops(class_sizes: Sequence[int], dimensions: int) -> int:
    """Products of one step of D2DFR for one attribute, as `baselines.mmd` visits pairs: those within a class once, and
    those with the anchor, the largest class, once. Three products of about `dimensions` a pair; nothing else counts."""
    anchor = max(class_sizes)
    others = sum(class_sizes) - anchor
    pairs = sum(size * (size + 1) // 2 for size in class_sizes) + others * anchor
    return pairs * (2 * (dimensions + 2) + 4 * (dimensions + 1))
