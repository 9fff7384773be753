"""Do the readers survive anything? Thousands of malformed files, each read in a process that may not come back.

    oblivec bench fuzz-readers --json benchmarks/results/fuzz-readers.json

A file may be refused with `BadInput` in one line, or accepted with a finite, consistent result. Everything else is a
finding: another exception or a warning, a dead process, no answer within a minute, a result that is not finite, a
message that quotes an id or a label, a pickle that ran.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from oblivec.bench.malformed import malformed_file
from oblivec.bench.sample_files import CANARY
from oblivec.console import progress, say, show_table
from oblivec.errors import BadInput
from oblivec.files.atomic import write_json
from oblivec.files.embeddings import read_embeddings
from oblivec.files.tables import read_attributes, read_interactions

FILES, QUICK_FILES = 12_000, 360
SECONDS_PER_FILE = 60
MEMORY_BYTES = 16 << 30
"""Address space of the reading process: what asks for more fails as on a full machine."""
GOOD = ("refused", "accepted")
OUTCOMES = (*GOOD, "crash", "died", "hang", "wrong result", "indiscreet", "executed")
READERS: dict[str, Callable[[Path], Any]] = {
    "embeddings": read_embeddings, "attributes": read_attributes, "interactions": read_interactions
}
_MOST_FINDINGS = 20


def run(quick: bool = False, files: int | None = None, seed: int = 0) -> dict[str, Any]:
    """Counts of every outcome, over all files, by format and by mutation; the first findings with their numbers."""
    files = files or (QUICK_FILES if quick else FILES)
    started = time.perf_counter()
    totals: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
    by_form: dict[str, Counter[str]] = {}
    by_mutation: dict[str, Counter[str]] = {}
    findings: list[dict[str, Any]] = []
    peak, slowest = 0, 0.0
    with progress("Malformed files", files) as tick:
        for number, answer in _answers(files, seed):
            outcome = answer["outcome"]
            totals[outcome] += 1
            by_form.setdefault(answer["form"], Counter())[outcome] += 1
            by_mutation.setdefault(answer["mutation"], Counter())[outcome] += 1
            peak, slowest = max(peak, answer["peak_bytes"]), max(slowest, answer["seconds"])
            if outcome not in GOOD and len(findings) < _MOST_FINDINGS:
                told = {key: answer[key] for key in ("form", "mutation", "outcome", "why")}
                findings.append({"number": number} | told)
            tick()
    return {
        "files": files,
        "seed": seed,
        "outcomes": dict(totals),
        "by_format": {form: dict(counts) for form, counts in sorted(by_form.items())},
        "by_mutation": {mutation: dict(counts) for mutation, counts in sorted(by_mutation.items())},
        "findings": findings,
        "peak_memory_mib": round(peak / 2**20),
        "slowest_file_seconds": round(slowest, 2),
        "seconds": round(time.perf_counter() - started, 1),
    }


def judge(number: int, seed: int, folder: Path, bombs: bool = True) -> dict[str, Any]:
    """Make one file, read it, say what happened."""
    trap = folder / f"trap-{number}"
    file = malformed_file(number, seed, trap, bombs)
    path = folder / f"file{file.suffix}"
    path.write_bytes(file.content)
    reader = READERS[file.role]
    why = ""
    started = time.perf_counter()
    try:
        outcome = "accepted" if _is_consistent(reader(path)) else "wrong result"
    except BadInput as refusal:
        message = str(refusal)
        outcome = "indiscreet" if CANARY in message or "\n" in message else "refused"
        why = "" if outcome == "refused" else message
    except Exception as problem:
        place = traceback.extract_tb(problem.__traceback__)[-1]
        outcome, why = "crash", f"{type(problem).__name__} in {Path(place.filename).name}, line {place.lineno}"
    if trap.exists():
        outcome = "executed"
    return {
        "form": f"{file.role}: {file.form}", "mutation": file.mutation, "outcome": outcome, "why": why,
        "seconds": time.perf_counter() - started,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _is_consistent(result: Any) -> bool:
    if hasattr(result, "values"):
        ids = result.ids
        return bool(np.isfinite(result.values).all()) and result.values.size > 0 and (
            ids is None or len(set(ids)) == len(result.values)
        )
    if hasattr(result, "attributes"):
        return all(
            len(one.values) == len(result) and one.missing < len(one.values)
            and (one.is_continuous or (one.counts > 0).all()) for one in result.attributes.values()
        )
    known = len(result.users) == len(result.items) > 0
    known &= result.users.min() >= 0 and result.users.max() < len(result.user_keys)
    known &= result.items.min() >= 0 and result.items.max() < len(result.item_keys)
    return bool(known and (result.timestamps is None or np.isfinite(result.timestamps).all()))


def _answers(files: int, seed: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """One answer per file, from a process that is started anew when it dies or falls silent."""
    context = multiprocessing.get_context("spawn")
    number = 0
    with tempfile.TemporaryDirectory() as folder:
        while number < files:
            here, there = context.Pipe(duplex=False)
            reader = context.Process(target=_read_on, args=(there, number, files, seed, folder), daemon=True)
            reader.start()
            there.close()
            try:
                while number < files:
                    outcome = None if here.poll(SECONDS_PER_FILE) else "hang"
                    try:
                        answer = here.recv() if outcome is None else None
                    except EOFError:
                        answer, outcome = None, "died"
                    yield number, answer or _no_answer(number, seed, outcome or "died")
                    number += 1
                    if answer is None:
                        break
            finally:
                reader.kill()
                reader.join()
                here.close()


def _no_answer(number: int, seed: int, outcome: str) -> dict[str, Any]:
    file = malformed_file(number, seed, Path("trap"))
    return {
        "form": f"{file.role}: {file.form}", "mutation": file.mutation, "outcome": outcome, "why": "no answer",
        "seconds": float(SECONDS_PER_FILE) if outcome == "hang" else 0.0, "peak_bytes": 0,
    }


def _read_on(answers: Connection, start: int, stop: int, seed: int, folder: str) -> None:
    """The reading process: one file after the other, warnings being errors."""
    warnings.simplefilter("error")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for number in range(start, stop):
        answers.send(judge(number, seed, Path(folder)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, help=f"how many malformed files [default: {FILES}]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_FILES} files")
    parser.add_argument("--out", type=Path, help="JSON file")
    given = parser.parse_args()
    result = run(given.quick, given.files, given.seed)
    show_table("Malformed files", ["outcome", "files"], result["outcomes"].items())
    for finding in result["findings"]:
        say(" ".join(str(part) for part in finding.values()))
    if given.out:
        write_json(given.out, result)


if __name__ == "__main__":
    main()
