"""The documents keep their word: commands parse, make targets and linked files exist, nothing private is named."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from oblivec import __version__
from oblivec.cli.app import app

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def shell_lines(document: Path) -> Iterator[str]:
    for block in re.findall(r"```sh\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL):
        yield from (line.partition("#")[0].strip() for line in block.splitlines() if line.strip())


def unknown_part(words: list[str]) -> str | None:
    """The first word of an `oblivec` command line that names no command or option, or None."""
    command = get_command(app)
    while words and hasattr(command, "commands"):
        name = words.pop(0)
        if name not in command.commands:  # type: ignore[attr-defined]
            return name
        command = command.commands[name]  # type: ignore[attr-defined]
    options = {option for parameter in command.params for option in parameter.opts}
    return next((word for word in words if word.startswith("-") and word not in options), None)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_in_a_document_exists(document: Path) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for line in shell_lines(document):
        program, *words = shlex.split(line)
        if program == "make":
            assert set(words) <= set(targets), line
        else:
            assert program == ".venv/bin/oblivec", line
            assert unknown_part(words) is None, line


def test_a_wrong_command_would_be_noticed() -> None:
    assert unknown_part(["audit", "x.npy", "--attributs", "y.csv"]) == "--attributs"
    assert unknown_part(["unlern", "x.npy"]) == "unlern"
    assert len(list(shell_lines(ROOT / "README.md"))) >= 5


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_linked_file_exists(document: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", document.read_text(encoding="utf-8")):
        if not target.startswith(("http", "#")):
            assert (document.parent / target.partition("#")[0]).exists(), f"{document.name}: {target}"


def test_the_version_is_the_same_everywhere() -> None:
    assert f'version = "{__version__}"' in (ROOT / "pyproject.toml").read_text()
