"""Progress bars: one at a time, on a terminal only, and gone when the work ends, however it ends."""

from __future__ import annotations

import io
import sys

import pytest

from oblivec.console import progress, voice


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    return screen


def test_a_bar_inside_another_is_silent(terminal: Terminal) -> None:
    with progress("Outer", 2) as tick, progress("Inner", 5) as inner:
        tick()
        inner(note="never shown")
    assert "Outer" in terminal.getvalue()
    assert "Inner" not in terminal.getvalue()
    with progress("Next", 1):
        pass
    assert "Next" in terminal.getvalue()


def test_a_failure_ends_the_bar(terminal: Terminal) -> None:
    with pytest.raises(ZeroDivisionError), progress("Broken", 1):
        raise ZeroDivisionError
    assert not voice.counting
