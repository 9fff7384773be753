"""What the page of results says about table 1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from oblivec.experiments.printed import COLUMNS
from oblivec.experiments.results_markdown import HEADINGS, beside, table
from oblivec.experiments.summaries import shown_worst
from oblivec.experiments.table1 import AT_ANY_PRICE
from oblivec.experiments.table1_aggregates import COUNTS

BASELINES = ("d2dfr", f"d2dfr:{AT_ANY_PRICE}", "advx", "advx:tuned")
"""Of which the page says in a sentence how strong they are."""
FAR = 4.0
"""Points below chance from which that is said too."""


def about_table1(result: Mapping[str, Any]) -> list[str]:
    rows = result["rows"]
    lines = [*_what_reproduces(rows), *_aggregates(result["aggregates"]), *_duels(result["duels"])]
    for dataset, requirement in dict.fromkeys((one["dataset"], one["requirement"]) for one in rows):
        own = [one for one in rows if (one["dataset"], one["requirement"]) == (dataset, requirement)]
        chance = next((f" (chance {one['chance']:.2f})" for one in own if "chance" in one), "")
        note = "; the paper's figures are KuaiSAR's" if dataset == "kuairand-pure" else ""
        lines.append(f"### {dataset}: {requirement.replace('+', ', ')}{chance}{note}\n")
        lines.append(table(
            ("model", "method", *HEADINGS, "worst of the panel, points from chance", "verdicts"),
            [(one["model"], one["method"], *(beside(one, column) for column in COLUMNS), shown_worst(one),
              _verdicts(one)) for one in own],
        ))
    return lines


def _verdicts(one: Mapping[str, Any]) -> str:
    """How often each verdict was given, over seeds and attributes."""
    counts: Counter[str] = Counter()
    for by in one.get("verdicts", {}).values():
        counts.update(by["verdicts"])
    return ", ".join(f"{count} {verdict.replace('_', ' ')}" for verdict, count in counts.most_common()) or "-"


def _what_reproduces(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    by = {(one["dataset"], one["model"], one["requirement"], one["method"]): one for one in rows}

    def pairs(method: str) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        return [
            (one, by[*key[:3], "original"]) for key, one in by.items()
            if key[3] == method and (*key[:3], "original") in by and "worst_points" in one
        ]

    lines = ["### What reproduces, and what does not\n"]
    if literal := pairs("paper"):
        worse = sum(one["worst_points"] > original["worst_points"] for one, original in literal)
        average = sum(one["bacc"]["mean"] > original["bacc"]["mean"] for one, original in literal)
        lines.append(
            f"- **The algorithm as printed** (`paper`) leaves more to read than the original in {worse} of "
            f"{len(literal)} cells by the panel's worst attacker, and in {average} by the paper's own attacker. "
            + ("Its q learns too slowly for the matrix it describes: the matrix runs ahead of q and spells the labels "
               "out where q does not look." if 2 * worse > len(literal) else "")
        )
    if tuned := [pair for pair in pairs("paper-tuned") if pair[0]["printed"]]:
        apart = [abs(one["bacc"]["mean"] - one["printed"]["bacc"]) for one, _ in tuned]
        lines.append(
            f"- **With a q that keeps up** (`paper-tuned`) the average BAcc is within 4 points of the paper's LEGO in "
            f"{sum(value <= 4 for value in apart)} of {len(apart)} cells (farthest: {max(apart):.1f} points)."
        )
        several = [one for one, _ in tuned if len(one["worst"]) > 1]
        if several:
            one = max(several, key=lambda one: max(abs(read["points"]) for read in one["worst"].values()))
            name = max(one["worst"], key=lambda name: abs(one["worst"][name]["points"]))
            lines.append(
                f"- **What its average hides**: {one['dataset']}, {one['model']}, {one['requirement']}: average BAcc "
                f"{one['bacc']['mean']:.1f} at a chance of {one['chance']:.1f}, while {name} alone is read "
                f"{one['worst'][name]['points']:+.1f} points from chance. A convex combination gives every attribute "
                "its share of the correction and hands the rest of the leak back."
            )
    lines += [_of_baseline(method, pairs(method)) for method in BASELINES if pairs(method)]
    if ours := pairs("lego"):
        farthest = max(ours, key=lambda pair: max(abs(read["points"]) for read in pair[0]["worst"].values()))[0]
        points = max(abs(read["points"]) for read in farthest["worst"].values())
        lost = sum(one["ndcg@10_lost"]["mean"] for one, _ in ours) / len(ours)
        lines.append(
            f"- **`lego`**: over {len(ours)} cells the worst attacker on any attribute is {points:.1f} points from "
            f"chance ({farthest['dataset']}, {farthest['model']}, {farthest['requirement']}); NDCG@10 lost on average "
            f"{lost:.1f} %."
        )
    return [*lines, ""]


def _of_baseline(method: str, compared: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> str:
    points, lost = (
        sum(figures) / len(compared) for figures in
        zip(*((one["worst_points"], one["ndcg@10_lost"]["mean"]) for one, _ in compared), strict=True)
    )
    said = (f"- **`{method}`** leaves the panel's worst attacker {points:.1f} points from chance, averaged over "
            f"{len(compared)} cells, at {lost:.1f} % of NDCG@10")
    if worse := [one for one, original in compared if one["worst_points"] > original["worst_points"]]:
        where = ", ".join(dict.fromkeys(f"{one['model']} on {one['dataset']}" for one in worse))
        said += f"; in {len(worse)} of them more can be read than from the original ({where})"
    lowest = min(read["points"] for one, _ in compared for read in one["worst"].values())
    if lowest < -FAR:
        said += f"; at its lowest {-lowest:.1f} points *below* chance, where turning the guess around reads as much"
    return f"{said}."


def _aggregates(found: Mapping[str, Any]) -> list[str]:
    stated, recomputed = found["printed"], found["recomputed_from_the_printed_table"]
    rows = []
    for method, one in found["ours"].items():
        own = "lego" if method.startswith("paper") else method.partition(":")[0]
        paper = [
            f"{by[kind][own]:.2f}" if own in by[kind] else "-" for kind in ("bacc_drop", "ndcg_drop")
            for by in (stated, recomputed)
        ]
        by_count = [one["by_attributes"].get(str(count)) for count in COUNTS]
        counts = ["-" if part is None else f"{part['bacc_drop']:.1f} / {part['ndcg_drop']:.1f}" for part in by_count]
        rows.append((
            method, f"{one['bacc_drop']:.2f}", paper[0], paper[1], f"{one['ndcg_drop']:.2f}", paper[2], paper[3],
            f"{one['worst_points']:.1f}", *counts,
        ))
    apart = max(abs(stated["bacc_drop"][name] - recomputed["bacc_drop"][name]) for name in stated["bacc_drop"])
    return [
        "### Averages\n",
        (
            "How much of the original's BAcc and NDCG@10 is gone, in percent, averaged over cells. The averages that "
            f"the paper states do not follow from its table (BAcc: up to {apart:.1f} points apart): here are both.\n"
        ),
        table(
            ("method", "BAcc drop", "stated", "from the paper's table", "NDCG@10 drop", "stated",
             "from the paper's table", "worst attacker, points", "one attribute: BAcc / NDCG@10", "two", "three"),
            rows,
        ),
    ]


def _duels(found: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = []
    for dataset, against in dict.fromkeys((one["dataset"], one["against"]) for one in found):
        own = [one for one in found if (one["dataset"], one["against"]) == (dataset, against)]
        counts = Counter(one["outcome"] for one in own)
        rows.append((dataset, against, counts["win"], counts["tie"], counts["loss"],
                     f"{max(one['difference'] for one in own):+.1f}"))
    return ["### `lego` against each method that loses less than 10 % NDCG@10, by cell\n",
            table(("data", "against", "wins", "ties", "losses", "worst difference, points"), rows)]
