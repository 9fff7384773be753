"""What all tests share: a browser where there is one, and a word where there is none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

import browser as browsers

# Test problems are tiny: threads that wait for each other at every step turn seconds into minutes on a busy machine.
# Read when torch is first imported, here and in every process a test starts.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    needs_browser = pytest.mark.skipif(browsers.executable() is None, reason=browsers.NOTICE)
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(needs_browser)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if any(browsers.NOTICE in str(report.longrepr) for report in skipped):
        terminalreporter.write_line(f"NOTICE: {browsers.NOTICE}", yellow=True)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    with browsers.chromium() as browser:
        yield browser
