"""The command line's manners: exit codes, one line per error, no traceback, and help worth reading."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from oblivec import __version__
from oblivec.cli.app import app, run
from oblivec.console import show_table, voice
from oblivec.errors import BadInput, LeakFound, OblivecError

COMMANDS = {
    "apply", "audit", "bench", "data", "demo", "doctor", "plan", "store", "train", "unlearn", "version",
}


def commands() -> Iterator[tuple[str, object]]:
    """Every command under its full name, groups opened."""
    waiting = [("oblivec", get_command(app))]
    while waiting:
        name, command = waiting.pop()
        yield name, command
        waiting += [(f"{name} {child}", inner) for child, inner in getattr(command, "commands", {}).items()]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Make `oblivec bench` fail in the given way."""

    def arrange(problem: BaseException) -> None:
        def fail() -> dict[str, str]:
            raise problem

        monkeypatch.setattr("oblivec.cli.bench.benchmarks", fail)

    return arrange


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version"]) == 0
    assert capsys.readouterr().out == f"{__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["data"], ["data", "--help"], ["train", "-h"]])
def test_help_is_no_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    said = capsys.readouterr()
    assert "Usage:" in said.out
    assert not said.err


def test_the_commands_are_all_there() -> None:
    assert set(get_command(app).commands) >= COMMANDS  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=lambda value: value if type(value) is str else "")
def test_every_command_and_option_explains_itself(name: str, command: object) -> None:
    assert command.help, name  # type: ignore[attr-defined]
    for parameter in command.params:  # type: ignore[attr-defined]
        assert getattr(parameter, "help", None), f"{name}: {parameter.name}"


def test_every_command_can_be_quiet_and_verbose() -> None:
    for name, command in commands():
        if hasattr(command, "commands") or name == "oblivec version":
            continue
        options = {option for parameter in command.params for option in parameter.opts}  # type: ignore[attr-defined]
        assert {"--quiet", "--verbose"} <= options, name


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nosuch"], "nosuch"),
        (["data", "nosuch"], "nosuch"),
        (["train", "--nosuch"], "--nosuch"),
        (["--nosuch"], "--nosuch"),
        (["train"], "--out"),
        (["train", "--out"], "--out"),
        (["train", "--out", "x", "--seed", "soon"], "--seed"),
        (["train", "--out", "x", "--seed", "-1"], "--seed"),
        (["doctor", "surplus"], "surplus"),
        (["bench", "nosuch"], "nosuch"),
        (["demo", "--device", "quantum"], "quantum"),
        (["data", "describe", "nosuch"], "nosuch"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    said = capsys.readouterr()
    assert not said.out
    assert said.err.count("\n") == 1
    assert said.err.startswith("oblivec: ")
    assert says in said.err


def test_the_installed_command_keeps_its_manners() -> None:
    """The same through a real process: nothing else writes to standard error on the way in or out."""
    command = Path(sys.executable).parent / "oblivec"
    done = subprocess.run([command, "data", "fetch", "nosuch"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert not done.stdout
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("problem", "code"),
    [(OblivecError("diverged"), 1), (BadInput("row 3\nis odd"), 2), (LeakFound("a leak"), 3),
     (KeyboardInterrupt(), 130), (typer.Abort(), 130), (typer.Exit(4), 4)],
)
def test_each_end_has_its_exit_code(
    failing: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str], problem: BaseException, code: int
) -> None:
    failing(problem)
    assert run(["bench"]) == code
    assert capsys.readouterr().err.count("\n") == (0 if isinstance(problem, typer.Exit) else 1)


def test_our_own_fault_is_one_line_that_quotes_no_data(
    failing: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    failing(KeyError("user 4711 is a widow"))
    assert run(["bench"]) == 1
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "internal error: KeyError in bench.py, line" in line
    assert "--verbose" in line
    assert "4711" not in line


def test_verbose_shows_the_traceback_of_our_own_fault(
    failing: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    failing(KeyError("details"))
    assert run(["bench", "--verbose"]) == 1
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert "KeyError: 'details'" in said
    assert said.rstrip().splitlines()[-1].startswith("oblivec: internal error: KeyError")


def test_verbose_shows_no_traceback_of_bad_input(
    failing: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    failing(BadInput("row 3 is odd"))
    assert run(["bench", "--verbose"]) == 2
    assert capsys.readouterr().err == "oblivec: row 3 is odd\n"


@pytest.mark.parametrize(("option", "code"), [("--quiet", 0), ("--verbose", 0), ("--quiet nosuch", 2)])
def test_the_voice_of_one_command_ends_with_it(option: str, code: int) -> None:
    assert run(["bench", *option.split()]) == code
    assert not voice.quiet
    assert not voice.verbose


def test_a_real_interrupt_ends_with_130(tmp_path: Path) -> None:
    """Ctrl-C in the middle of training."""
    rows = [f"{user},{item}" for user in "abc" for item in "xyz"]
    (tmp_path / "interactions.csv").write_text("\n".join(["user_id,item_id", *rows]))
    code = "import sys; from oblivec.cli import main; print('ready', flush=True); main(sys.argv[1:])"
    arguments = ["train", "--interactions", str(tmp_path / "interactions.csv"), "--out", str(tmp_path / "model"),
                 "--epochs", "10000000", "--verbose"]
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        while not (line := process.stderr.readline()).startswith("lightgcn on"):  # said right before training starts
            assert line, "ended before training"
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait() == 130
    assert rest == "oblivec: interrupted\n"
    assert [path.name for path in tmp_path.iterdir()] == ["interactions.csv"]


def test_a_reader_that_leaves_early_is_no_fault_of_ours() -> None:
    command = Path(sys.executable).parent / "oblivec"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([command, "--help"], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert done.returncode == 1
    assert not done.stderr


def test_tables_show_brackets_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """A file or an attribute may be called anything; none of it is markup."""
    show_table("[red]title", ("[b]column",), [("cell[/x]",), ("[bold]",)], caption="[/nothing]")
    printed = capsys.readouterr().out
    for text in ("[red]title", "[b]column", "cell[/x]", "[bold]", "[/nothing]"):
        assert text in printed
