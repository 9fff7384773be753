"""What the page of results says about each experiment: its tables, and sentences that their figures choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from oblivec.experiments.efficiency_tables import CHANGES
from oblivec.experiments.printed import COLUMNS
from oblivec.experiments.results_markdown import HEADINGS, beside, table, yes
from oblivec.experiments.results_table1 import about_table1
from oblivec.experiments.summaries import shown, shown_worst

Result = Mapping[str, Any]


def _efficiency(result: Result) -> list[str]:
    lines = []
    for case in result["cases"]:
        seconds, last = case["seconds"], max(what for what in case["requirements"] if what not in CHANGES)
        training = next(iter(seconds["original"].values()))
        where = f"on {case['cores']} cores"
        lines.append(f"### {case['dataset']}, {case['model']}: percent of a training's time, {where}\n")
        headings = [f"{what} attr." if what.isdigit() else what for what in case["requirements"]]
        lines.append(table(("method", *headings), [
            (method, *(f"{100 * value / training:.1f}" for value in by.values())) for method, by in seconds.items()
        ]))
        floor = ", ".join(f"{name} {one['times_the_floor']:.1f}" for name, one in case["d2dfr_floor"].items())
        scaled = ", ".join(f"{method} {run}" for method, run in case["runs"].items() if run != "whole")
        grown = {method: by[last] / by["1"] for method, by in seconds.items()}
        slowest = max(seconds["lego"][what] for what in CHANGES)
        stored = max(case["stored_bytes"].values()) / 1e6
        lines.append(
            f"- The paper: D2DFR's time is proportional to the number of attributes. Here {last} cost "
            f"{grown['d2dfr']:.1f} times one.\n"
            f"- The paper: LEGO costs nearly the same for several as for one. Meeting {last} from nothing costs "
            f"{grown['lego']:.1f} times one with `lego`, {grown['paper']:.1f} times with `paper`; following a change "
            f"from a warm store costs `lego` at most {slowest / seconds['lego']['1']:.1f} times one from nothing.\n"
            f"- AdvX takes {seconds['advx'][last] / seconds['original'][last]:.1f} times a plain training.\n"
            f"- D2DFR with its intermediate matrices stored holds {stored:.1f} MB of them after all changes.\n"
            f"- D2DFR's time over that of its matrix products alone: {floor}.\n"
            f"- Scaled up from shorter runs: {scaled}.\n"
        )
    return lines


def _epsilon(result: Result) -> list[str]:
    rows = result["rows"]
    claims = []
    for method in dict.fromkeys(one["method"] for one in rows):
        ends = [
            {one["radius"]: one for one in rows if (one["dataset"], one["model"], one["method"]) == (*case, method)}
            for case in dict.fromkeys((one["dataset"], one["model"]) for one in rows)
        ]
        ends = [by for by in ends if {"0", "inf"} <= by.keys()]
        if ends:
            private = sum(by["inf"]["bacc"]["mean"] < by["0"]["bacc"]["mean"] for by in ends)
            worst = sum(by["inf"]["worst_points"] < by["0"]["worst_points"] for by in ends)
            ranking = sum(by["inf"]["ndcg@10"]["mean"] < by["0"]["ndcg@10"]["mean"] for by in ends)
            claims.append((method, f"{private} of {len(ends)}", f"{worst} of {len(ends)}", f"{ranking} of {len(ends)}"))
    return [
        "The paper: as the radius grows, both BAcc and NDCG@10 fall. Curves that end (no limit) below the original:\n",
        table(("method", "BAcc falls", "worst attacker falls", "NDCG@10 falls"), claims),
        table(
            ("data", "model", "method", "radius", "NDCG@10", "BAcc", "worst of the panel, points from chance"),
            [(one["dataset"], one["model"], one["method"], one["radius"], shown(one["ndcg@10"]), shown(one["bacc"]),
              shown_worst(one)) for one in rows],
        ),
        (
            "The radius is every user's: in the units of the matrix for `paper`, as a share of the user's row for "
            "`paper-tuned` and `lego`. The paper prints it as that of one ball around the whole matrix.\n"
        ),
    ]


def _ablation(result: Result) -> list[str]:
    lines = [table(
        ("data", "model", "method", *HEADINGS, "worst of the panel, points from chance"),
        [(one["dataset"], one["model"], one["method"], *(beside(one, column) for column in COLUMNS), shown_worst(one))
         for one in result["rows"]],
    )]
    for case in dict.fromkeys((one["dataset"], one["model"]) for one in result["rows"]):
        by = {one["method"]: one for one in result["rows"] if (one["dataset"], one["model"]) == case}
        for whole, variant in (("paper", ""), ("paper-tuned", ":tuned")):
            for part, what in (("d2dfr-fc", "calibration"), ("ec-ac", "learned weights")):
                if whole in by and part + variant in by:
                    worse = by[part + variant]["bacc"]["mean"] - by[whole]["bacc"]["mean"]
                    lines.append(f"- {', '.join(case)}, steps of `{whole}`: without the {what}, BAcc rises (the "
                                 f"paper's claim): {yes(worse > 0)}, {worse:+.1f} points.")
    return [*lines, ""]


def _correlated(result: Result) -> list[str]:
    rows = [
        (one["dataset"], one["model"], one["method"], one["protected"].replace("+", ", "), name,
         shown(score) + (f" / {one['printed'][name]['bacc']:.2f}" if one["printed"] else ""),
         f"{one['worst'][name]['points']:+.1f}")
        for one in result["rows"] for name, score in one["bacc_by_attribute"].items()
    ]
    lines = [table(("data", "model", "method", "protected", "attacked", "BAcc", "worst of the panel, points"), rows)]
    originals = {(one["dataset"], one["model"]): one for one in result["rows"] if one["method"] == "original"}
    for one in result["rows"]:
        original = originals.get((one["dataset"], one["model"]))
        for name, score in one["bacc_by_attribute"].items():
            if original is not None and one["method"] == "lego" and name not in one["protected"].split("+"):
                change = score["mean"] - original["bacc_by_attribute"][name]["mean"]
                lines.append(f"- `lego`, {one['protected']} protected: {name}, which was not asked for, falls (the "
                             f"paper: slightly): {yes(change < 0)}, {change:+.1f} points of BAcc.")
    lines.append("\nSequential unlearning (D2DFR), all attributes attacked after each step. *Came back*: points that "
                 "the worst attacker has regained since an attribute's own removal, the paper's first challenge.\n")
    lines.append(table(
        ("data", "model", "removed so far", "worst of the panel, points from chance", "came back", "NDCG@10"),
        [(one["dataset"], one["model"], one["removed"].replace("+", ", "), shown_worst(one),
          ", ".join(f"{name} {points:+.1f}" for name, points in one["came_back"].items()) or "-",
          shown(one["ndcg@10"])) for one in result["steps"]],
    ))
    back = [points for one in result["steps"] for points in one["came_back"].values()]
    if back:
        more = sum(one > 1 for one in back)
        lines.append(f"- An attribute removed earlier leaks more after a later step, by over a point, in {more} of "
                     f"{len(back)} cases; {max(back):+.1f} points at most.\n")
    return lines


def _bound(result: Result) -> list[str]:
    rows = []
    for one in result["rows"]:
        paper = f"{one['printed']['P1']:.4f}, {one['printed']['P2']:.4f}" if one["printed"] else "-"
        for estimate in ("printed_q", "fresh_q"):
            rows.append((
                one["dataset"], one["model"], one["method"], estimate.replace("_", " "),
                *(shown(one[estimate][kind], 4) for kind in ("original", "P1", "P2")),
                f"{one[f'{estimate}_gap_percent']:+.1f} %", paper, shown(one["in_the_loop"]["P2"]),
            ))
    lines = [
        (
            "Sum over attributes of vCLUB in nats: P1 after LEGO's two steps, P2 after solving for matrices and "
            "weights together. *Printed q* is the paper's network on the users it learnt from, *fresh q* a faster one "
            "on users it has not seen; *in its loop* is what the network inside the end-to-end loop believed last.\n"
        ),
        table(("data", "model", "loop", "estimated by", "original", "P1", "P2", "P1 - P2, share of the original",
               "the paper's P1, P2", "P2 in its loop"), rows),
    ]
    for loop in dict.fromkeys(one["method"] for one in result["rows"]):
        own = [one for one in result["rows"] if one["method"] == loop]
        near = sum(abs(one["fresh_q_gap_percent"]) <= 10 for one in own)
        blind = sum(one["in_the_loop"]["P2"]["mean"] < 0 < one["fresh_q"]["P2"]["mean"] for one in own)
        more = sum(one["fresh_q"]["P1"]["mean"] > one["fresh_q"]["original"]["mean"] for one in own)
        lines.append(
            f"- `{loop}`: P1 and P2 within a tenth of what the original tells (fresh q) in {near} of {len(own)} cases. "
            f"In {blind} the loop's own q reports less than nothing while a fresh one reads something, and in {more} "
            "the two steps leave more to read than the original had"
            + (": a vCLUB by a q that lags behind bounds nothing." if blind or more else ".")
        )
    return [*lines, ""]


SECTIONS: Mapping[str, Callable[[Result], list[str]]] = {
    "table1": about_table1, "efficiency": _efficiency, "epsilon": _epsilon, "ablation": _ablation,
    "correlated": _correlated, "bound": _bound,
}
