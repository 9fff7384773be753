"""The audit's HTML report: what it says, what it must never say, and that it stands on its own."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_audits import AGE, GENDER, OCCUPATION, WHO, all_clear, attribute_result, crowded, everything
from oblivec.audit.charts import LONGEST_NAME, attacker_chart, change_chart, class_maps
from oblivec.audit.report import render_report
from oblivec.audit.result import SMALLEST_CELL, AttributeResult, AuditResult, DensityView, ThreatResult, Verdict
from oblivec.audit.suppression import row_shares, shown_count
from oblivec.audit.wording import answer, headline, hundred

MARGIN = 0.03
VOID = {"meta", "link", "br", "hr", "img", "input", "circle", "rect", "line"}


class Outline(HTMLParser):
    """Tags, headings, ids and text of a page; complains about tags that are not closed in order."""

    def __init__(self, page: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.text += data

    def values(self, attribute: str) -> list[str]:
        return [value for _, attrs in self.tags if (value := attrs.get(attribute)) is not None]


@pytest.fixture(scope="module", params=[everything, all_clear, crowded], ids=lambda make: make.__name__)
def page(request: pytest.FixtureRequest) -> str:
    return render_report(request.param())


def single(found: AttributeResult, **changes: object) -> AuditResult:
    threat = ThreatResult("embeddings", WHO["embeddings"], {found.name: found})
    return replace(all_clear(), threats={"embeddings": threat}, **changes)


def test_is_well_formed_with_landmarks_and_ordered_headings(page: str) -> None:
    outline = Outline(page)
    assert outline.open == []
    assert outline.tags[0] == ("html", {"lang": "en"})
    names = [tag for tag, _ in outline.tags]
    assert all(names.count(tag) == 1 for tag in ("h1", "main", "header", "footer"))
    levels = [int(tag[1]) for tag in names if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = outline.values("id")
    assert len(ids) == len(set(ids))
    assert {target[1:] for target in outline.values("href") if target.startswith("#")} <= set(ids)
    described = " ".join(outline.values("aria-labelledby")).split()
    assert set(described) <= set(ids)


def test_every_picture_has_words(page: str) -> None:
    pictures = [attrs for tag, attrs in Outline(page).tags if tag == "svg"]
    assert pictures
    assert all(attrs["role"] == "img" and attrs["aria-labelledby"] for attrs in pictures)


def test_asks_the_network_for_nothing(page: str) -> None:
    assert not re.search(r"https?:|[\"'(]//|url\(|@import|\ssrc=|<(iframe|img|object|embed)", page)
    assert {target for target in Outline(page).values("href") if not target.startswith("#")} == {"data:,"}
    assert "default-src 'none'" in page


def test_same_result_same_bytes() -> None:
    assert render_report(everything()) == render_report(everything())


@pytest.mark.parametrize(
    "evil", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</style><b>", "a'b&c{{7*7}}"]
)
def test_names_from_files_are_escaped(evil: str) -> None:
    found = replace(attribute_result(evil, GENDER, gain=0.1, verdict="leaks", notes=(evil,)), name=evil)
    result = single(found, notes=(evil,), untested={evil: evil})
    result = replace(result, before=result.main, views=(DensityView(evil, np.full((2, 3, 4), 20)),))
    plain, attacked = render_report(single(attribute_result("a", GENDER))), render_report(result, title=evil)
    assert evil not in attacked
    outline = Outline(attacked)
    assert evil in outline.text
    assert [tag for tag, _ in outline.tags].count("script") == [tag for tag, _ in Outline(plain).tags].count("script")
    assert not any(name.startswith("on") for _, attrs in outline.tags for name in attrs)


def test_answer_comes_first_and_sections_in_order() -> None:
    page = render_report(everything())
    order = ("answer", "change", "evidence", "threats", "limits", "method")
    places = [page.index(f'<section id="{name}"') for name in order]
    assert places == sorted(places)
    text = Outline(page).text
    assert "3 of 5 attributes can be inferred." in text
    for words in ("at chance", "below chance", "leaks", "undecided", "Guessing", "Not tested", *WHO.values()):
        assert words in text
    assert "oblivec audit EMBEDDINGS" in text
    assert "--type income=continuous" in text
    assert "--margin 3 --seed 7" in text


def test_without_a_baseline_there_is_no_before_and_after() -> None:
    page = render_report(all_clear())
    assert 'id="change"' not in page
    assert "Before" not in Outline(page).text


def test_reference_threat_does_not_make_the_matrix_leak() -> None:
    found = {"gender": attribute_result("gender", GENDER)}
    history = {"gender": attribute_result("gender", GENDER, gain=0.2, verdict="leaks")}
    threats = {
        "embeddings": ThreatResult("embeddings", "", found), "interactions": ThreatResult("interactions", "", history),
    }
    assert "The attribute could not be inferred." in render_report(replace(all_clear(), threats=threats))
    del threats["embeddings"]
    assert "The attribute can be inferred" in render_report(replace(all_clear(), threats=threats))


def test_attribute_attacked_under_one_threat_only_is_said() -> None:
    result = everything()
    hidden = ThreatResult("unlabelled", WHO["unlabelled"], {"gender": result.main.attributes["gender"]})
    page = render_report(replace(result, threats=result.threats | {"unlabelled": hidden}))
    assert Outline(page).text.count("not attacked") == 4


# Words


@pytest.mark.parametrize(
    ("verdict", "gain", "expected"),
    [
        ("leaks", 0.2, ["Can be inferred.", "guessing gets 50 right", "paper, gets 70 (between 68 and 71)"]),
        ("below_chance", -0.1, ["turning the answers round", "gets only 40", "still there"]),
        ("at_chance", 0.0, ["No attacker could tell.", "No attacker's interval reaches more than 3 away"]),
        ("undecided", 0.02, ["Cannot be said yet.", "About 24,000 labelled users would decide; there were 6,040."]),
    ],
)
def test_each_verdict_in_plain_words(verdict: Verdict, gain: float, expected: list[str]) -> None:
    found = answer(attribute_result("gender", GENDER, gain=gain, verdict=verdict), MARGIN)
    for words in expected:
        assert words in f"{found.short} {found.numbers}"


def test_continuous_attribute_is_told_in_parts_of_variation() -> None:
    found = answer(attribute_result("income", gain=0.11, verdict="leaks"), MARGIN)
    assert "guessing the average explains none; the best attacker, paper, explains 11" in found.numbers
    assert (found.guessing, found.best) == ("0", "11")


def test_leak_the_score_does_not_show_is_explained() -> None:
    found = attribute_result("gender", GENDER, gain=0.002, verdict="leaks")
    assert "This number alone may be luck" in answer(found, MARGIN).numbers


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["leaks", "at_chance"], "1 of 2 attributes can be inferred."),
        (["leaks", "below_chance"], "All 2 attributes can be inferred."),
        (["undecided", "at_chance"], "No leak was found, but 1 of 2 attributes is undecided."),
        (["at_chance"] * 3, "None of the 3 attributes could be inferred."),
        (["below_chance"], "The attribute can be inferred from what was attacked."),
        (["undecided"], "Whether the attribute can be inferred is undecided."),
    ],
)
def test_headline(verdicts: list[Verdict], expected: str) -> None:
    assert headline(verdicts) == expected


@pytest.mark.parametrize(
    ("rate", "expected"),
    [(0.5, "50"), (1 / 3, "33.3"), (-0.0001, "0.0"), (-0.05, "−5"), (0.0, "0"), (0.025, "2.5"), (float("nan"), "–")],
)
def test_out_of_a_hundred(rate: float, expected: str) -> None:
    assert hundred(rate) == expected


# Privacy


@given(st.lists(st.lists(st.integers(0, 60), min_size=4, max_size=4), min_size=1, max_size=5))
def test_confusion_shows_no_small_cell_not_even_by_subtraction(rows: list[list[int]]) -> None:
    counts = np.array(rows)
    shares = row_shares(counts)
    hidden = np.isnan(shares)
    assert hidden[counts < SMALLEST_CELL].all()
    for row, out in zip(counts, hidden, strict=True):
        if out.any() and not out.all():
            assert out.sum() >= 2
            assert row[out].sum() >= SMALLEST_CELL
    assert np.allclose(shares[~hidden], (counts / np.maximum(counts.sum(1, keepdims=True), 1))[~hidden])
    assert not hidden[(counts >= SMALLEST_CELL).all(axis=1)].any()


def test_counts_under_ten_never_appear() -> None:
    sizes = (300, 7)
    found = attribute_result("gender", sizes, missing=4)
    text = Outline(render_report(single(found))).text
    assert "class 2: fewer than 10" in text
    assert "fewer than 10 without a label" in text
    small = "fewer than 10"
    assert [shown_count(users) for users in (0, 1, 9, 10, 12345)] == ["0", small, small, "10", "12,345"]


def test_confusion_of_small_classes_is_dashed_or_left_out() -> None:
    text = render_report(single(attribute_result("occupation", OCCUPATION, gain=0.2, verdict="leaks")))
    assert "nothing that may be shown" in text
    counts = attribute_result("occupation", OCCUPATION, gain=0.2, verdict="leaks").attackers["paper"].confusion
    assert counts is not None
    shown = re.findall(r'<td class="heat-[1-5]">(\d+)</td>', text)
    assert len(shown) == int((~np.isnan(row_shares(counts))).sum())


# Pictures


def percent(place: str) -> float:
    return float(place.rstrip("%"))


@pytest.mark.parametrize("sizes", [GENDER, AGE, OCCUPATION, ()])
def test_attackers_stand_on_one_scale_inside_the_picture(sizes: tuple[int, ...]) -> None:
    found = attribute_result("a", sizes, gain=0.05)
    chart = attacker_chart(found, MARGIN)
    assert [row.strong for row in chart.rows] == [name == found.worst for name in found.attackers]
    for row, attacker in zip(chart.rows, found.attackers.values(), strict=True):
        (mark,) = row.marks
        assert 0 <= percent(mark.low) <= percent(mark.at) <= percent(mark.high) <= 100
        assert (percent(mark.at) > percent(chart.chance)) == (attacker.score > found.chance)
    middle = percent(chart.band[0]) + percent(chart.band[1]) / 2
    assert middle == pytest.approx(percent(chart.chance), abs=0.02)
    assert 3 <= len(chart.ticks) <= 9


def test_hopeless_regressor_is_cut_off_and_marked() -> None:
    found = attribute_result("income", gain=0.01)
    bad = replace(found.attackers["mlp"], score=-4.0, ci=(-5.0, -3.0))
    chart = attacker_chart(replace(found, attackers=found.attackers | {"mlp": bad}), MARGIN)
    marks = {row.name: row.marks[0] for row in chart.rows}
    assert marks["mlp"].outside
    assert not marks["linear"].outside
    assert percent(marks["linear"].at) - percent(marks["mlp"].at) > 20


def test_change_is_measured_from_guessing() -> None:
    before, after = attribute_result("x" * 60, GENDER, gain=0.2, verdict="leaks"), attribute_result("x" * 60, GENDER)
    chart = change_chart([(before, after)], MARGIN, continuous=False)
    (row,) = chart.rows
    was, now = row.marks
    assert percent(was.at) > percent(now.at)
    assert abs(percent(now.at) - percent(chart.chance)) < percent(chart.band[1]) / 2
    assert len(row.name) == LONGEST_NAME
    assert "x" * 60 in chart.description


def test_maps_colour_only_what_is_beyond_luck_and_never_fewer_than_ten() -> None:
    cells = np.zeros((2, 2, 3), dtype=int)
    cells[:, 0] = [[50, 50, 90], [50, 50, 10]]
    cells[:, 1, 0] = [1, 9]
    maps = class_maps(DensityView("a", cells), continuous=False)
    assert maps is not None
    first, second = maps.maps
    assert (first.more, first.less, second.less) == (1, 1, 1)
    assert second.more == 0
    assert (maps.columns, maps.rows) == (3, 2)
    assert len(first.squares) == 4
    assert first.name == "class 1 (largest)"
    assert class_maps(DensityView("a", np.zeros((2, 4, 4), dtype=int)), continuous=False) is None
    thirds = class_maps(DensityView("a", np.full((3, 4, 4), 40)), continuous=True)
    assert thirds is not None
    assert [one.name for one in thirds.maps] == ["low third", "middle third", "high third"]


def test_many_classes_draw_six_maps_and_say_so() -> None:
    maps = class_maps(DensityView("a", np.full((21, 4, 4), 40)), continuous=False)
    assert maps is not None
    assert (len(maps.maps), maps.left_out) == (6, 15)
