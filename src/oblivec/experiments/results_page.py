"""docs/RESULTS.md from the records of `oblivec reproduce`, and from nothing else.

    python -m oblivec.experiments.results_page benchmarks/results/reproduce docs/RESULTS.md

Every number on the page comes from a JSON file that is linked beside it. A sentence that depends on a figure is chosen
by that figure, so that the page says what was measured after every run.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from oblivec.errors import BadInput
from oblivec.experiments.kept import code_digest
from oblivec.experiments.registry import EXPERIMENTS, experiment, experiments
from oblivec.experiments.results_markdown import table
from oblivec.experiments.results_sections import SECTIONS
from oblivec.experiments.running import RECORD, Options, setup_for
from oblivec.files.atomic import write_text

INTRODUCTION = """\
# Results: the paper, reproduced

This page is made by `make results` from the records of `oblivec reproduce`, which lie beside the figures they gave.
Nothing on it is typed by hand: a sentence that depends on a figure is chosen by that figure.

How to read it:

- **BAcc and F1** are those of the paper's attacker under the paper's protocol, averaged over the attributes, in
  percent. The paper's figure stands behind the slash.
- **Worst of the panel**: the attacker of our panel farthest from chance, above or below, per attribute, in points. An
  average can look good while one attribute leaks; this cannot.
- `paper` is the algorithm as printed, `paper-tuned` the same with a q that keeps up, `lego` ours. The paper's LEGO
  stands beside all three.
- **±** is the standard deviation over base models, each trained from its own seed. The paper's spread of 0.00 over ten
  runs can only be that of one base model.
- **HR@10 and NDCG@10** are on the full catalogue and the last item by time. Which of several items with the same time
  counts as last is not printed in the paper and moves these figures more than most methods do: compare within a
  column, not across the slash.
"""


def read_records(folder: Path) -> dict[str, dict[str, Any]]:
    """The records there are, by experiment."""
    found = {}
    for name in EXPERIMENTS:
        path = folder / f"{name}.json"
        try:
            if path.exists():
                found[name] = json.loads(path.read_text(encoding="utf-8"))
                found[name]["of_other_code"] = _of_other_code(folder, name, found[name])
        except (OSError, ValueError):
            raise BadInput(f"{path}: is not a record; run oblivec reproduce {name} again") from None
    if not found:
        raise BadInput(f"{folder}: holds no record of oblivec reproduce; run one with --out {folder}")
    return found


def _of_other_code(folder: Path, name: str, record: Mapping[str, Any]) -> dict[str, int]:
    """By method, how many of the record's cells were measured by code that did something else than it does now."""
    path = folder / f"{name}{RECORD}"
    if not path.exists():
        return {}
    options = Options(datasets=record["datasets"], models=record["models"], seeds=len(record["seeds"]))
    cells = experiment(name).cells(setup_for(name, options))
    codes = {cell.line(result): code_digest(cell.sources) for cell in cells for result in cell.results}
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    old = [line["audit"].split(" ")[0].split("/") for line in lines if codes.get(line["audit"]) != line["code"]]
    return dict(Counter(parts[4].partition(":")[0] if len(parts) > 4 else parts[0] for parts in old))


def results_page(records: Mapping[str, Mapping[str, Any]], folder: str) -> str:
    """The whole page; `folder` is where the records lie as seen from it."""
    parts = [INTRODUCTION, _targets(records)]
    titles = experiments()
    for name in EXPERIMENTS:
        parts.append(f"## `{name}`: {titles[name].rstrip('.')}\n")
        if name not in records:
            parts.append(f"Not run yet: `oblivec reproduce {name}`.\n")
            continue
        record = records[name]
        parts.append(_provenance(name, record, folder))
        parts.append("\n".join(SECTIONS[name](record["result"])))
        parts.append(f"![{name}]({folder}/{name}.svg)\n")
    return "\n".join(parts)


def _targets(records: Mapping[str, Mapping[str, Any]]) -> str:
    """Every target with its figure, first of all."""
    words = {True: "reached", False: "**not reached**", None: "open"}
    rows: list[Sequence[object]] = [
        (one["what"], one["limit"], one["figure"].replace("\n", "; ") or "-", words[one["reached"]])
        for one in records.get("table1", {}).get("result", {}).get("targets", [])
    ]
    for one in records.get("efficiency", {}).get("result", {}).get("targets", []):
        rival = one["against"].replace("original", "a training")
        what = f"{one['dataset']}, {one['model']}: a change with `lego`, times faster than {rival}"
        rows.append((what, f"{one['limit']:.0f}", f"{one['times']:.1f}", words[one["reached"]]))
    return "## Targets\n\n" + (table(("what", "limit", "figure", ""), rows) if rows else "None measured yet.\n")


def _provenance(name: str, record: Mapping[str, Any], folder: str) -> str:
    """Where the figures come from: command, machines, seeds, files; and what is not there."""
    machines = "; ".join(_machine(one) for one in record["machines"])
    missing, failed = record["cells"]["missing"], record["cells"]["failed"]
    lines = [(
        f"`{record['command']}`, base seeds {_listed(record['seeds'])}. Records: [{name}.json]({folder}/{name}.json), "
        f"[cell by cell]({folder}/{name}-cells.jsonl), figure as [SVG]({folder}/{name}.svg) and "
        f"[PDF]({folder}/{name}.pdf). {record['cells']['done']} cells, measured on {machines}.\n"
    )]
    if old := record.get("of_other_code"):
        counts = _listed(f"{count} of {method}" for method, count in sorted(old.items()))
        lines.append(f"**Before the last change of the code** they depend on, and not measured since: {counts}.\n")
    if record["quick"]:
        lines.append("**A quick run, which shows that it runs and no more.**\n")
    if missing:
        kinds = sorted({"/".join(cell.split("/")[:3]) for cell in missing})
        lines.append(f"**Not whole:** {len(missing)} cells are missing ({_listed(kinds)}), {len(failed)} of them "
                     "failed.\n")
    return "\n".join(lines)


def _machine(one: Mapping[str, Any]) -> str:
    place = one.get("gpu") or f"{one['cpu']}, {one['cores']} cores"
    return f"{place} (torch {one['torch']}, oblivec {one['oblivec']}; {one['cells']} cells)"


def _listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 2:
        raise BadInput("give two paths: the folder with the records, and the page to write")
    folder, page = Path(arguments[0]), Path(arguments[1])
    seen_from_page = Path(os.path.relpath(folder, page.parent)).as_posix()
    write_text(page, results_page(read_records(folder), seen_from_page))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BadInput as problem:
        sys.stderr.write(f"{problem}\n")
        sys.exit(BadInput.exit_code)
