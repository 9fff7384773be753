"""The house rules: who may import whom, what `import oblivec` costs, what no file may do, and that files stay small."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import oblivec

PACKAGE = Path(oblivec.__file__).parent
ORDER = (
    "errors", "console", "randomness", "devices", "files", "datasets", "metrics", "engines", "machine", "recommenders",
    "attacks", "audit", "information", "calibration", "combination", "baselines", "store", "lego", "policies",
    "importers", "experiments", "bench", "doctor", "demo", "desk", "cli",
)
"""Rooms and single modules, in the direction data walks: each imports from itself and from those before it."""
CORE_TYPES = {"datasets.attributes", "datasets.interactions"}
"""What an attribute and an interaction are; the readers in `files` make them, so they may be imported from anywhere."""
ATTACK_SIDE, METHOD_SIDE = {"attacks", "audit"}, {
    "information", "calibration", "combination", "baselines", "store", "lego",
}
LONGEST_MODULE = 400
HEAVY = ("sklearn", "pyarrow", "matplotlib", "jinja2", "joblib", "pandas", "polars")
MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    """`datasets.own` for src/oblivec/datasets/own.py; the empty text for the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and target, within the package, of every import in a file, those inside functions included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}, line {node.lineno}: relative import"
            module = node.module or ""
            targets = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        for target in targets:
            if target.partition(".")[0] == "oblivec":
                yield node.lineno, target.removeprefix("oblivec").removeprefix(".")


def offence(importer: str, target: str) -> str | None:
    """What is wrong with `importer` importing `target`, or None. Both are names within the package."""
    room, other = importer.partition(".")[0], target.partition(".")[0]
    if room == "" or target == "__version__" or ".".join(target.split(".")[:2]) in CORE_TYPES:
        return None  # the package itself is the front door: its cost is tested below
    if room not in ORDER or other not in ORDER:
        return f"{room if room not in ORDER else other} has no place in the order of rooms"
    if {room, other} & ATTACK_SIDE and {room, other} & METHOD_SIDE:
        return "an audit and a method must not know each other"
    return None if ORDER.index(other) <= ORDER.index(room) else f"{other} comes after {room}"


def calls_of(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield node.lineno, ast.unparse(node.func)


def test_every_room_imports_only_from_rooms_before_it() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}, line {line}: {target}: {wrong}"
        for path in MODULES for line, target in imports_of(path) if (wrong := offence(name_of(path), target))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("importer", "target"),
    [("datasets.own", "recommenders.base"), ("calibration.edit", "attacks.base"), ("audit.run", "information.club"),
     ("attacks.mlp", "audit.run"), ("files.npy", "datasets.own"), ("nowhere.at_all", "errors"), ("bench.x", "cli.app"),
     ("store.entry", "audit.run"), ("audit.run", "store.store")],
)
def test_the_import_rule_can_fail(importer: str, target: str) -> None:
    assert offence(importer, target)


def test_the_core_types_need_no_room() -> None:
    for name in CORE_TYPES:
        path = PACKAGE / Path(*name.split(".")).with_suffix(".py")
        assert {target.partition(".")[0] for _, target in imports_of(path)} <= {"errors"}


def test_importing_the_package_is_light() -> None:
    """Heavy libraries are imported where they are used; a plain import, and the command line's help, need none."""
    code = (
        "import json, sys, time; start = time.perf_counter(); import oblivec; spent = time.perf_counter() - start; "
        "package = sorted(sys.modules); import oblivec.cli; print(json.dumps([spent, package, sorted(sys.modules)]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, package, command_line = json.loads(done.stdout)
    assert not set(HEAVY) & set(package)
    assert not set(HEAVY) & set(command_line)
    assert seconds < 20  # torch on a busy machine; a plain import takes far less


def test_nothing_in_the_package_runs_what_it_reads() -> None:
    """No pickles, no eval. The fuzz benchmark *writes* pickles, to see that none is opened."""
    forbidden = ("eval", "exec", "torch.load", "pickle.load", "pickle.loads", "joblib.load", "marshal.loads")
    found = [
        f"{path.relative_to(PACKAGE)}, line {line}: {call}"
        for path in MODULES for line, call in calls_of(path) if call in forbidden
    ]
    assert not found, "\n".join(found)


def test_only_benchmarks_know_pickle() -> None:
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        if path.parent.name != "bench":
            assert "import pickle" not in text, path
            assert "allow_pickle=True" not in text.replace(" ", ""), path
        assert "weights_only=False" not in text.replace(" ", ""), path


def test_no_module_is_long() -> None:
    lengths = {str(path.relative_to(PACKAGE)): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert not {path: lines for path, lines in lengths.items() if lines > LONGEST_MODULE}


def test_every_module_says_what_it_is() -> None:
    silent = [path for path in MODULES if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))]
    assert not silent


def test_files_are_written_in_one_place() -> None:
    """Outside `files` nothing opens a file for writing except into a temporary path that `files` handed out."""
    writers = {"np.save", "np.savez", "torch.save", "json.dump", "os.replace", "os.rename", "shutil.move"}
    found = [
        f"{path.relative_to(PACKAGE)}, line {line}: {call}"
        for path in MODULES if name_of(path).partition(".")[0] not in ("files", "bench")
        for line, call in calls_of(path) if call in writers
    ]
    assert not found, "\n".join(found)
