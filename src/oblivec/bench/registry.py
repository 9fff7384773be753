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


def run_benchmark(name: str, quick: bool = False, **options: Any) -> dict[str, Any]:
    """Run one benchmark: its result, how long it took, the command that repeats it and the machine it ran on.

    Of `options`, those that are not None are handed to the benchmark's `run`, which must have a parameter of that name.
    Two mean the same in every benchmark that has them: `minutes` (its `run` gets `enough_seconds`), after which nothing
    new is begun, and `resume`, the file in which it keeps what is done, so that several runs add up to one.
    `models`, a directory, arrives as `models_folder`.
    """
    module = _benchmark(name)
    given = {option: value for option, value in options.items() if value is not None}
    command = f"oblivec bench {name}{' --quick' * quick}"
    handed: dict[str, Any] = {}
    for option, value in given.items():
        key = {"minutes": "enough_seconds", "models": "models_folder"}.get(option, option)
        if key not in inspect.signature(module.run).parameters:
            raise BadInput(f"--{option}: benchmark '{name}' has no use for it; leave the option out")
        handed[key] = 60 * value if option == "minutes" else value
        command += f" --{option} {_shown(value)}"
    start = time.perf_counter()
    result = module.run(quick=quick, **handed)
    return {
        "benchmark": name, "command": command,
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


def _shown(value: Any) -> str:
    """An option's value in the command. Paths differ from machine to machine and stand as PATH."""
    if isinstance(value, Path):
        return "PATH"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


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
