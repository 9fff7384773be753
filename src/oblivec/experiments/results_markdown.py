"""Markdown for the page of results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oblivec.experiments.summaries import shown

HEADINGS = ("HR@10", "NDCG@10", "BAcc", "F1")
"""The paper's columns."""


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table with a line of air behind it."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "/") for cell in line) + " |" for line in lines) + "\n"


def yes(fact: bool) -> str:
    return "yes" if fact else "**no**"


def beside(one: Mapping[str, Any], column: str) -> str:
    """Ours, and behind a slash the paper's where it has the cell."""
    ours = shown(one.get(column))
    return f"{ours} / {one['printed'][column]:.2f}" if one.get("printed") else ours
