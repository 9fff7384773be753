"""`oblivec store`: what is in a store, whether it is whole, and what can go."""

from __future__ import annotations

import json as json_text
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from oblivec.cli.app import app
from oblivec.cli.options import Quiet, Verbose, split_list
from oblivec.console import detail, out, progress, say, show_table
from oblivec.errors import BadInput, OblivecError, StoreDamaged
from oblivec.files.atomic import write_json
from oblivec.store.entry import Entry
from oblivec.store.store import Store
from oblivec.store.upkeep import collect
from oblivec.store.upkeep import verify as verify_entries

store = typer.Typer(
    help="List, show, verify and clean up a store of calibrations and releases.\n\n"
         "A store is as sensitive as the labels: the difference between a calibration and the user matrix spells them "
         "out, and fingerprints can confirm a guess. Keep it, its backups and its listings where the labels are kept.",
    no_args_is_help=True, rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(store, name="store")

Directory = Annotated[Path, typer.Option("--store", metavar="DIR", help="The store. As sensitive as the labels.")]
Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the result here too.")]
_SHORT_KEY = 12


@store.command("list")
def list_entries(directory: Directory, json: Json = None, quiet: Quiet = False, verbose: Verbose = False) -> None:
    """List calibrations and releases.

    Of which attributes, by which method, how large, when last used; the latest used first. Reads the manifests only;
    `verify` reads everything.
    """
    opened = Store(directory, create=False)
    records = [_record(entry) for entry in sorted(opened.entries(), key=lambda entry: -entry.used)]
    if json is not None:
        write_json(json, {"entries": records})
    rows = [
        (
            record["kind"], record["key"][:_SHORT_KEY], ", ".join(record["attributes"]), record["method"],
            f"{record['rows']:,} x {record['dimensions']}", record["seed"], record["used"], _size(record["bytes"]),
        )
        if "problem" not in record
        else (record["kind"], record["key"][:_SHORT_KEY], "(unusable)", "", "", "", record["used"],
              _size(record["bytes"]))
        for record in records
    ]
    columns = ("kind", "key", "attributes", "method", "users x dimensions", "seed", "last used", "size")
    total = f"{len(records)} entries, {_size(sum(record['bytes'] for record in records))}"
    show_table(str(directory), columns, rows, caption=total)
    if any("problem" in record for record in records):
        say(f"Some entries are unusable; `oblivec store verify --store {directory}` says why")


@store.command()
def show(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key, or as much of its beginning as is unique.")],
    directory: Directory,
    json: Json = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Show one entry's manifest.

    What it was made from, how, when, how long it took, and what the method noted. Neither labels nor ids are in it.
    """
    entry = Store(directory, create=False).find(key)
    manifest = entry.manifest()
    if json is not None:
        record = {"key": entry.key, "bytes": entry.bytes, "used": _moment(entry.used)}
        write_json(json, record | manifest.model_dump(mode="json"))
    lineage = manifest.lineage
    rows: list[tuple[str, object]] = [
        ("key", entry.key), ("attributes", ", ".join(lineage.attributes)), ("method", lineage.method),
        ("settings", _plain(lineage.configuration)), ("seed", lineage.seed),
        ("users x dimensions", f"{manifest.rows:,} x {manifest.dimensions}"), ("user matrix", lineage.user_matrix),
        ("item matrix", lineage.item_matrix or "none"),
        *(("calibration", calibration) for calibration in lineage.calibrations),
        *((f"note: {name}", _plain(fact)) for name, fact in manifest.facts.items()),
        ("tensors", ", ".join(manifest.tensors)), ("size", _size(entry.bytes)), ("made", manifest.created),
        ("seconds", f"{manifest.seconds:.3g}"), ("last used", _moment(entry.used)),
        ("made with", ", ".join(f"{name} {version}" for name, version in manifest.versions.items())),
    ]
    show_table(f"{entry.kind} {entry.key[:_SHORT_KEY]}", ("what", "value"), rows)


@store.command()
def verify(directory: Directory, json: Json = None, quiet: Quiet = False, verbose: Verbose = False) -> None:
    """Check every bit of every entry.

    Reads all of it and compares it with the fingerprints taken when it was written. Exit code 0 when all is as it was,
    2 when something is not. Nothing is changed; `gc` removes damaged entries, and the next run makes them again.
    """
    opened = Store(directory, create=False)
    findings = []
    with progress("Verifying", len(opened.entries())) as tick:
        for finding in verify_entries(opened):
            detail(f"{finding.entry.kind} {finding.entry.key}: {finding.problem or 'good'}")
            findings.append(finding)
            tick()
    bad = [finding for finding in findings if finding.problem is not None]
    left = len(opened.temporaries())
    if json is not None:
        problems = [
            {"kind": one.entry.kind, "key": one.entry.key, "damaged": one.is_damaged, "problem": str(one.problem)}
            for one in bad
        ]
        write_json(json, {
            "entries": len(findings), "problems": problems, "temporaries": left,
            "open_to_others": opened.is_open_to_others,
        })
    if left:
        say(f"{left} temporaries of runs that were killed, or are writing now; `oblivec store gc` removes the former")
    if opened.is_open_to_others:
        say(f"{directory}: others on this machine can look inside; chmod 700 keeps them out")
    if bad:
        kind = StoreDamaged if any(one.is_damaged for one in bad) else BadInput
        raise kind(f"{len(bad)} of {len(findings)} entries cannot be used; the first: {bad[0].problem}")
    out().print(f"{len(findings)} entries, all as they were written", markup=False)


@store.command()
def gc(
    directory: Directory,
    unused_since: Annotated[
        float | None,
        typer.Option("--unused-since", metavar="DAYS", min=0, help="Also remove entries that were neither written nor "
                                                                   "read for this many days."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="KEY", help="Never mind --unused-since for this entry; repeatable, the "
                                                   "beginning of the key will do."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Remove left-overs and damaged entries.

    That is what killed runs left behind and entries that are not as they were written; with --unused-since also old
    ones. Reads every entry. Waits for runs that are writing to finish their entry. Whatever is removed, a later run
    that needs it makes it again from the user matrix and the labels.
    """
    opened = Store(directory, create=False)
    if keep and unused_since is None:
        raise BadInput("--keep: only --unused-since removes good entries; give both or neither")
    kept = {opened.find(prefix).key for prefix in split_list(keep)}
    removals = list(collect(opened, unused_days=unused_since, keep=kept, dry_run=dry_run))
    if removals:
        rows = [(removal.what, removal.why, _size(removal.bytes)) for removal in removals]
        show_table(str(directory), ("would be removed" if dry_run else "removed", "why", "size"), rows)
    freed = _size(sum(removal.bytes for removal in removals))
    out().print(f"{freed} {'would be' if dry_run else ''} freed".replace("  ", " "), markup=False)


def _record(entry: Entry) -> dict[str, Any]:
    """One entry for the listing's JSON; `problem` instead of the details when its manifest cannot be used."""
    record: dict[str, Any] = {
        "kind": entry.kind, "key": entry.key, "bytes": entry.bytes, "used": _moment(entry.used),
    }
    try:
        manifest = entry.manifest()
    except OblivecError as problem:
        return record | {"problem": str(problem)}
    lineage = manifest.lineage
    return record | {
        "attributes": lineage.attributes, "method": lineage.method, "seed": lineage.seed, "rows": manifest.rows,
        "dimensions": manifest.dimensions, "created": manifest.created, "seconds": manifest.seconds,
        "config_hash": manifest.config_hash, "calibrations": list(lineage.calibrations),
    }


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json_text.dumps(value, ensure_ascii=False)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds") if seconds else "unknown"


def _size(count: int) -> str:
    """Bytes for people: 1.5 MB."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
