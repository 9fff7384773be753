"""Progress bars: one at a time, on a terminal only, and gone when the work ends, however it ends."""

from __future__ import annotations

import io
import sys

import pytest

from oblivec.console import progress, voice


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Called by the test itself: between a fixture and its test pytest puts its own stream back."""
    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen)
    return screen


def test_a_bar_inside_another_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    with progress("Outer", 2) as tick, progress("Inner", 5) as inner:
        tick()
        inner(note="never shown")
    assert "Outer" in screen.getvalue()
    assert "Inner" not in screen.getvalue()
    with progress("Next", 1):
        pass
    assert "Next" in screen.getvalue()


def test_a_failure_ends_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    with pytest.raises(ZeroDivisionError), progress("Broken", 1):
        raise ZeroDivisionError
    assert "Broken" in screen.getvalue()
    assert not voice.counting
