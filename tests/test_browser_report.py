"""The audit's report in a real Chromium: it opens, says nothing on the console, and its controls work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from browser import opened
from fake_audits import GENDER, all_clear, attribute_result, crowded, everything
from oblivec.audit.report import render_report
from oblivec.audit.result import AuditResult, ThreatResult

pytestmark = pytest.mark.browser

LOW_CONTRAST = """() => {
  const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    paint.clearRect(0, 0, 1, 1); paint.fillStyle = colour; paint.fillRect(0, 0, 1, 1);
    return [...paint.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const found = rgb(getComputedStyle(node).backgroundColor);
      if (found[3] === 255) return found;
    }
    return [255, 255, 255, 255];
  };
  const bad = [];
  for (const node of document.body.querySelectorAll("*")) {
    const said = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    const silent = ["SCRIPT", "STYLE", "title", "desc", "OPTION"].includes(node.tagName);
    if (!said || silent || !node.getClientRects().length) continue;
    const style = getComputedStyle(node);
    const ink = light(rgb(node instanceof SVGElement ? style.fill : style.color)), paper = light(ground(node));
    const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    if (ratio < 4.5) bad.push(`${node.tagName}.${node.getAttribute("class")} ${ratio.toFixed(2)}`);
  }
  return [...new Set(bad)];
}"""
PAGE_GROUND = "getComputedStyle(document.body).backgroundColor"
SHOWN = "[...document.querySelectorAll('.panel')].filter((panel) => panel.getClientRects().length).length"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[], AuditResult]], Path]:
    """Where the report of a fake audit lies, written once."""
    folder = tmp_path_factory.mktemp("reports")

    def write(make: Callable[[], AuditResult]) -> Path:
        path = folder / f"{make.__name__}.html"
        if not path.exists():
            path.write_text(render_report(make()), encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize("make", [everything, all_clear, crowded])
def test_opens_without_a_word_on_the_console_or_a_request(chromium: Any, written: Any, make: Any) -> None:
    with opened(chromium, written(make)) as (page, trouble):
        assert page.title() == "Privacy audit of a user matrix"
        assert page.locator("h1").is_visible()
        assert page.locator("#theme").is_visible()
    assert trouble.errors == []
    assert set(trouble.requests) <= {"data:,"}


@pytest.mark.parametrize("make", [everything, all_clear, crowded])
def test_fits_a_phone(chromium: Any, written: Any, make: Any) -> None:
    with opened(chromium, written(make), width=360) as (page, _):
        page.click("#numbers")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        texts = "[...document.querySelectorAll('.chart text')].map((t) => parseFloat(getComputedStyle(t).fontSize))"
        assert min(page.evaluate(texts)) >= 12
        assert page.evaluate("[...document.querySelectorAll('button, select')].every((c) => c.offsetHeight >= 36)")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_both_modes(chromium: Any, written: Any, scheme: str) -> None:
    with opened(chromium, written(everything), color_scheme=scheme) as (page, _):
        page.click("#numbers")
        assert page.evaluate(LOW_CONTRAST) == []


def test_contrast_check_can_fail(chromium: Any, written: Any) -> None:
    with opened(chromium, written(all_clear)) as (page, _):
        page.evaluate("document.documentElement.style.setProperty('--quiet', '#b0b0b0')")
        assert page.evaluate(LOW_CONTRAST)


def test_dark_mode_follows_the_system_and_the_button(chromium: Any, written: Any) -> None:
    grounds = {}
    for scheme in ("light", "dark"):
        with opened(chromium, written(all_clear), color_scheme=scheme) as (page, _):
            before = page.evaluate(PAGE_GROUND)
            other = "Dark mode" if scheme == "light" else "Light mode"
            assert page.inner_text("#theme") == other
            page.focus("#theme")
            page.keyboard.press("Enter")
            grounds[scheme] = before, page.evaluate(PAGE_GROUND)
            assert page.inner_text("#theme") != other
    assert grounds["light"] == grounds["dark"][::-1]
    assert grounds["light"][0] != grounds["light"][1]


def test_numbers_button_shows_the_tables_by_keyboard(chromium: Any, written: Any) -> None:
    with opened(chromium, written(everything)) as (page, _):
        table = page.locator(".panel .numbers").first
        button = page.locator("#numbers")
        assert not table.is_visible()
        assert button.get_attribute("aria-pressed") == "false"
        button.focus()
        page.keyboard.press("Space")
        assert table.is_visible()
        assert button.get_attribute("aria-pressed") == "true"
        page.keyboard.press("Space")
        assert not table.is_visible()


def test_filters_pick_an_attribute_and_a_threat(chromium: Any, written: Any) -> None:
    with opened(chromium, written(crowded)) as (page, trouble):
        assert page.evaluate(SHOWN) == 60
        page.select_option("#pick-attribute", "3")
        assert page.evaluate(SHOWN) == 6
        page.select_option("#pick-threat", "2")
        assert page.evaluate(SHOWN) == 1
        assert page.locator("#a3-t2").is_visible()
        assert page.inner_text("#shown") == "1 of 60 panels"
        page.click("table.overview a[href='#a5-t1']")
        assert page.locator("#a5-t1").is_visible()
        assert page.evaluate(SHOWN) == 60
        assert page.inner_text("#shown") == ""
    assert trouble.errors == []


def test_paper_is_white_and_complete_whatever_the_screen_shows(chromium: Any, written: Any, tmp_path: Path) -> None:
    with opened(chromium, written(everything), color_scheme="dark") as (page, _):
        everything_shown = page.evaluate(SHOWN)
        page.select_option("#pick-attribute", "1")
        page.emulate_media(media="print")
        assert page.evaluate(SHOWN) == everything_shown
        assert page.evaluate(PAGE_GROUND) == "rgb(255, 255, 255)"
        assert page.locator(".panel .numbers").first.is_visible()
        assert not page.locator(".toolbar").is_visible()
        assert not page.locator("#theme").is_visible()
        assert page.evaluate(LOW_CONTRAST) == []
        printed = page.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True)
    assert printed.startswith(b"%PDF")
    assert printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") >= 8


def test_complete_without_scripts(chromium: Any, written: Any) -> None:
    with opened(chromium, written(everything), java_script_enabled=False) as (page, _):
        assert page.locator(".panel .numbers").first.is_visible()
        assert page.locator(".panel").last.is_visible()
        assert not page.locator("#theme").is_visible()


def test_a_script_in_a_column_name_does_not_run(chromium: Any, tmp_path: Path) -> None:
    evil = "<script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\">"
    found = attribute_result(evil, GENDER, notes=(evil,))
    result = replace(all_clear(), threats={"embeddings": ThreatResult("embeddings", evil, {evil: found})})
    path = tmp_path / "evil.html"
    path.write_text(render_report(result), encoding="utf-8")
    with opened(chromium, path) as (page, trouble):
        assert page.title() == "Privacy audit of a user matrix"
        assert "<script>" in page.inner_text(".card h3")
    assert trouble.errors == []


def test_even_an_injected_script_is_stopped_by_the_policy(chromium: Any, tmp_path: Path) -> None:
    path = tmp_path / "injected.html"
    page_text = render_report(all_clear()).replace("<main", "<script>document.title = 'taken'</script><main", 1)
    path.write_text(page_text, encoding="utf-8")
    with opened(chromium, path) as (page, trouble):
        assert page.title() == "Privacy audit of a user matrix"
    assert any("Content Security Policy" in error for error in trouble.errors)
