"""The benchmarks by name: a module of this package that has `run(quick=False)` is one, with no other registration.

Listing them reads their source and imports none; a helper that runs in an environment of its own may lie beside them.
`run` returns plain data for the JSON. Where a module also has `show(result)`, that prints its table; where not, every
number in the result is listed under its path.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from oblivec.console import show_table
from oblivec.errors import BadInput
from oblivec.machine import describe_machine

FOLDER = Path(__file__).parent


def benchmarks() -> dict[str, str]:
    """Name and one line of every benchmark, by name."""
    found = {}
    for path in sorted(FOLDER.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in tree.body):
            found[path.stem.replace("_", "-")] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def run_benchmark(
    name: str, quick: bool = False, minutes: float | None = None, resume: Path | None = None
) -> dict[str, Any]:
    """Run one benchmark: its result, how long it took, the command that repeats it and the machine it ran on.

    `minutes` bounds those that repeat something many times: they begin nothing new after it and say how far they got.
    `resume` names the file in which they keep what is done, so that several runs add up to one.
    """
    module = _benchmark(name)
    bounds: dict[str, Any] = {}
    for option, key, value in (
        ("--minutes", "enough_seconds", None if minutes is None else 60 * minutes), ("--resume", "resume", resume)
    ):
        if value is not None:
            if key not in inspect.signature(module.run).parameters:
                raise BadInput(f"{option}: benchmark '{name}' does not repeat anything; leave the option out")
            bounds[key] = value
    start = time.perf_counter()
    result = module.run(quick=quick, **bounds)
    options = " --quick" * quick + (f" --minutes {minutes:g}" if minutes is not None else "")
    options += " --resume FILE" * (resume is not None)
    return {
        "benchmark": name, "command": f"oblivec bench {name}{options}",
        "machine": describe_machine(), "seconds": round(time.perf_counter() - start, 1), "result": result,
    }


def show_benchmark(name: str, record: Mapping[str, Any]) -> None:
    """The result as a table, with the machine it holds for."""
    module = _benchmark(name)
    if callable(getattr(module, "show", None)):
        module.show(record["result"])
    else:
        show_table(name, ("what", "result"), _leaves(record["result"]))
    machine = ", ".join(f"{key} {value}" for key, value in record["machine"].items() if value is not None)
    show_table(record["command"], ("seconds", "machine"), [(record["seconds"], machine)])


def check_names(names: list[str]) -> None:
    """Refuse unknown names before the first benchmark runs."""
    for name in names:
        _benchmark(name)


def _benchmark(name: str) -> ModuleType:
    if name not in (known := benchmarks()):
        raise BadInput(f"no benchmark '{name}'; there are {', '.join(known)}")
    return importlib.import_module(f"oblivec.bench.{name.replace('-', '_')}")


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every number, word and yes or no of a nested result, under the path that leads to it."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{number}]")
    else:
        yield path, f"{value:.4g}" if isinstance(value, float) else str(value)
