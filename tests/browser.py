"""A real Chromium for tests of pages: finding it, starting it, and what a page must never do."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]
NOTICE = f"no browser found (looked for {', '.join(NAMES)}): what people see was not tested"


def executable() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=ARGUMENTS)
        yield browser
        browser.close()


@dataclass
class Trouble:
    """What a page did wrong while it was open."""

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    """Everything asked for beyond the page itself."""


@contextmanager
def opened(browser: Any, path: Path, *, width: int = 1100, **options: Any) -> Iterator[tuple[Any, Trouble]]:
    """The page at `path`, watched; `options` are the browser context's (colour scheme, scripts on or off)."""
    context = browser.new_context(viewport={"width": width, "height": 800}, **options)
    page = context.new_page()
    trouble = Trouble()
    url = path.as_uri()
    page.on("console", lambda said: trouble.errors.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: trouble.errors.append(str(error)))
    page.on("requestfailed", lambda request: trouble.errors.append(f"failed: {request.url}"))
    page.on("request", lambda request: trouble.requests.append(request.url) if request.url != url else None)
    page.goto(url)
    yield page, trouble
    context.close()
