"""The store: what goes in comes out, damage is found, bad places are refused in one line, and nothing is lost."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from oblivec.calibration.base import Calibration
from oblivec.errors import BadInput, StoreDamaged
from oblivec.files.embeddings import read_embeddings, write_embeddings
from oblivec.files.tensors import save_tensors
from oblivec.files.write_once import TEMPORARY
from oblivec.store import Store
from oblivec.store.entry import Entry
from oblivec.store.lineage import SCHEMA
from oblivec.store.manifest import write_manifest
from oblivec.store.upkeep import collect, verify
from store_helpers import calibration, release, users

ZEROS = "0" * 64


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def filled(store: Store, numbers: int = 2) -> list[str]:
    """Keys of some calibrations and one release, just put."""
    keys = [store.put(*calibration(number), 1.5) for number in range(numbers)]
    return [*keys, store.put_release(*release(), 0.25)]


def problems(store: Store) -> list[str]:
    return [str(finding.problem) for finding in verify(store) if finding.problem]


def flip(path: Path, position: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


def test_a_calibration_comes_back_as_it_was(store: Store) -> None:
    lineage, made = calibration(3)
    assert not store.has(lineage.key)
    assert store.put(lineage, made, 1.5) == lineage.key
    assert store.has(lineage.key)
    found = Store(store.path).get(lineage.key)
    assert torch.equal(found.calibrated, made.calibrated)
    assert {name: tensor.tolist() for name, tensor in found.tensors.items()} == {
        name: tensor.tolist() for name, tensor in made.tensors.items()
    }
    assert (found.attribute, found.method, found.facts) == (made.attribute, made.method, made.facts)


def test_a_release_comes_back_as_it_was(store: Store) -> None:
    lineage, made = release(2)
    assert not store.has(lineage.key)
    assert torch.equal(store.get_release(store.put_release(lineage, made, 0.5)), made)
    assert store.has(lineage.key)


def test_odd_tensors_survive(store: Store) -> None:
    """Views of one storage, other strides, no rows, a number, half precision: a method may keep what it likes."""
    lineage, made = calibration()
    base = users()
    tensors = {
        "view": base[:3], "same": base, "turned": base.T, "none": torch.zeros(0, 2), "number": torch.tensor(2.5),
        "half": base.bfloat16(), "twice": made.calibrated,
    }
    odd = Calibration("gender", "tiny", made.calibrated, tensors, {})
    found = store.get(store.put(lineage, odd, 0)).tensors
    assert all(torch.equal(found[name], tensors[name]) and found[name].dtype == tensors[name].dtype for name in tensors)


def test_a_lineage_of_something_else_is_refused(store: Store) -> None:
    lineage, made = calibration()
    with pytest.raises(ValueError, match="another calibration's"):
        store.put(lineage, Calibration("age", "tiny", made.calibrated), 1)
    with pytest.raises(ValueError, match="not that of a release"):
        store.put_release(lineage, made.calibrated, 1)
    assert not store.entries()


def test_the_manifest_says_where_it_comes_from_and_nothing_about_anyone(store: Store) -> None:
    lineage, made = calibration()
    store.put(lineage, made, 1.5)
    manifest = store.entries()[0].manifest()
    assert manifest.lineage == lineage
    assert (manifest.rows, manifest.dimensions, manifest.seconds) == (20, 4, 1.5)
    assert set(manifest.tensors) == {"calibrated", "tensors/map", "tensors/kept"}
    assert set(manifest.versions) == {"oblivec", "torch", "numpy", "python"}
    assert manifest.created.endswith("+00:00")
    raw = json.loads(store.entries()[0].manifest_file.read_text())
    assert raw["lineage"]["labels"].keys() == {"gender"}
    assert not {"f", "m"} & set(map(str, raw.values()))


def test_putting_again_is_no_work_and_no_change(store: Store) -> None:
    lineage, made = calibration()
    store.put(lineage, made, 1)
    before = store.entries()[0].manifest_file.read_bytes()
    store.put(lineage, made, 2)
    assert store.entries()[0].manifest_file.read_bytes() == before
    assert not store.temporaries()


def test_others_are_kept_out(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        store = Store(tmp_path / "deep" / "store")
        filled(store)
    finally:
        os.umask(old)
    assert not store.is_open_to_others
    for path in [store.path, *store.path.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_an_empty_directory_becomes_a_store_closed_to_others(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert not Store(tmp_path).is_open_to_others


# --- damage -----------------------------------------------------------------------------------------------------------


def positions(entry: Entry) -> Iterator[tuple[Path, int]]:
    """Of the manifest every third byte, of the tensor file its whole header and every 13th byte of the data."""
    for position in range(0, entry.manifest_file.stat().st_size, 3):
        yield entry.manifest_file, position
    size = entry.tensor_file.stat().st_size
    header = 8 + int.from_bytes(entry.tensor_file.read_bytes()[:8], "little")
    for position in [*range(header), *range(header, size, 13), size - 1]:
        yield entry.tensor_file, position


@pytest.mark.parametrize("kind", ["calibration", "release"])
def test_a_flipped_bit_is_found_wherever_it_is(store: Store, kind: str) -> None:
    key = store.put(*calibration(), 1) if kind == "calibration" else store.put_release(*release(), 1)
    entry = store.find(key)
    for count, (path, position) in enumerate(positions(entry)):
        whole = path.read_bytes()
        flip(path, position, bit=count % 8)
        with pytest.raises(StoreDamaged) as found:
            store.get(key) if kind == "calibration" else store.get_release(key)
        assert str(path) in str(found.value)
        assert f"oblivec store gc --store {store.path}" in str(found.value)
        assert "\n" not in str(found.value)
        assert len(problems(store)) == 1, (path.name, position)
        path.write_bytes(whole)
    assert not problems(store)


@pytest.mark.parametrize("name", ["manifest.json", "calibration.safetensors"])
@pytest.mark.parametrize("how", ["missing", "cut", "longer", "empty", "directory"])
def test_other_damage_is_found_and_the_next_run_mends_it(store: Store, name: str, how: str) -> None:
    lineage, made = calibration()
    key = store.put(lineage, made, 1)
    path = store.path / "calibrations" / key / name
    content = path.read_bytes()
    path.unlink()
    if how == "directory":
        path.mkdir()
    elif how != "missing":
        path.write_bytes({"cut": content[:-1], "longer": content + b" ", "empty": b""}[how])
    with pytest.raises(BadInput, match=name):
        store.get(key)
    assert len(problems(store)) == 1
    if how != "directory":
        assert not store.has(key)
        store.put(lineage, made, 1)
        assert torch.equal(store.get(key).calibrated, made.calibrated)
        assert not store.temporaries()


def test_an_entry_under_another_key_is_damage(store: Store) -> None:
    first, second, _ = filled(store)
    one, other = store.find(first), store.find(second)
    one.path.rename(store.path / "aside")
    other.path.rename(one.path)
    with pytest.raises(StoreDamaged, match="belongs to another entry"):
        store.get(first)


def test_tensors_of_another_entry_are_damage(store: Store) -> None:
    first, second, _ = filled(store)
    shutil.copy(store.find(second).tensor_file, store.find(first).tensor_file)
    with pytest.raises(StoreDamaged, match=r"calibration\.safetensors: is damaged"):
        store.get(first)


# --- places that will not do ------------------------------------------------------------------------------------------


def refused(path: Path, **options: Any) -> str:
    with pytest.raises(BadInput) as found:
        Store(path, **options)
    assert "\n" not in str(found.value)
    return str(found.value)


def test_places_that_are_no_store(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    assert "is a file" in refused(file)
    assert "Not a directory" in refused(file / "below")
    assert "holds files but no store.json" in refused(tmp_path)
    assert "no store here" in refused(tmp_path / "absent", create=False)
    assert "cannot be read" in refused(tmp_path / ("x" * 300))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert file.read_text() == "mine"


def test_a_newer_store_is_left_alone(store: Store) -> None:
    filled(store)
    (store.path / "store.json").write_text(json.dumps({"store": "oblivec", "schema": SCHEMA + 1}))
    before = sorted(store.path.rglob("*"))
    assert "needs a newer Oblivec" in refused(store.path)
    assert sorted(store.path.rglob("*")) == before


@pytest.mark.parametrize("text", ["", "[]", '{"store": "oblivec"}', '{"store": "oblivec", "schema": "1"}', "[" * 9999])
def test_a_damaged_store_file_is_said_and_can_be_mended(store: Store, text: str) -> None:
    key = filled(store)[0]
    (store.path / "store.json").write_text(text)
    said = refused(store.path)
    assert "is damaged; write " in said
    (store.path / "store.json").write_text(said.partition("write ")[2].partition(" into")[0])
    assert Store(store.path).has(key)


def test_an_entry_of_a_newer_oblivec_is_no_damage(store: Store) -> None:
    lineage, made = calibration()
    key = store.put(lineage, made, 1)
    entry = store.find(key)
    path, newer = entry.manifest_file, {"schema_version": SCHEMA + 1, "checksum": ZEROS}
    write_manifest(path, entry.manifest().model_copy(update=newer))
    with pytest.raises(BadInput, match="newer Oblivec"):
        store.get(key)
    with pytest.raises(BadInput, match="newer Oblivec"):
        store.put(lineage, made, 1)
    assert [finding.is_damaged for finding in verify(store)] == [False]
    assert not list(collect(store, unused_days=0))
    assert path.exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KB."""
    path = tmp_path / "disk"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(path)]
    if os.geteuid() or shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    yield path
    subprocess.run(["umount", str(path)], check=True)


def test_a_full_disk_loses_nothing(small_disk: Path) -> None:
    store = Store(small_disk / "store")
    kept = store.put(*calibration(), 1)
    with pytest.raises(BadInput, match=r"cannot be written \(No space left on device\)"):
        store.put(*calibration(1, rows=50_000), 1)
    assert [entry.key for entry in store.entries()] == [kept]
    assert not store.temporaries()
    assert not problems(store)
    store.put(*calibration(2), 1)


def test_a_full_disk_is_bad_input_for_a_matrix_too(small_disk: Path, tmp_path: Path) -> None:
    """The safetensors library has an error of its own for it."""
    save_tensors(tmp_path / "users.safetensors", {"embeddings": users(rows=50_000)})
    like = read_embeddings(tmp_path / "users.safetensors")
    with pytest.raises(BadInput, match=r"cannot be written \(No space left on device\)"):
        write_embeddings(small_disk / "users.safetensors", like, like.values)
    assert not list(small_disk.iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_store_that_may_only_be_read_can_be_read(store: Store) -> None:
    key = filled(store)[0]
    (store.path / "calibrations").chmod(0o500)
    try:
        assert store.get(key).attribute == "gender"
        with pytest.raises(BadInput, match="cannot be written"):
            store.put(*calibration(9), 1)
    finally:
        (store.path / "calibrations").chmod(0o700)
    assert len(store.entries()) == 3


def test_a_read_only_disk_can_be_read(small_disk: Path) -> None:
    store = Store(small_disk / "store")
    key = filled(store)[0]
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    store = Store(small_disk / "store")
    assert store.get(key).attribute == "gender"
    assert not problems(store)
    with pytest.raises(BadInput, match="Read-only file system"):
        store.put(*calibration(9), 1)
    with pytest.raises(BadInput, match="Read-only file system"):
        list(collect(store))
    assert "Read-only file system" in refused(small_disk / "other")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
@pytest.mark.parametrize("step", ["oblivec.store.entry.save_tensors", "oblivec.files.write_once.os.fsync"])
def test_a_disk_that_fails_at_any_step_loses_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, step: str, code: int
) -> None:
    filled(store)

    def fail(*arguments: object, **options: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(step, fail)
        with pytest.raises(BadInput, match="cannot be written"):
            store.put(*calibration(5), 1)
    assert len(store.entries()) == 3
    assert not store.temporaries()
    assert not problems(store)


# --- upkeep -----------------------------------------------------------------------------------------------------------


def test_gc_removes_what_is_left_over_or_damaged_and_nothing_else(store: Store) -> None:
    good, bad, combined = filled(store)
    flip(store.find(bad).tensor_file, 100)
    (store.path / "releases" / f"{TEMPORARY}x").mkdir()
    (store.path / ".store.json.x.json").write_text("")
    (store.path / "notes.txt").write_text("mine")
    planned = list(collect(store, dry_run=True))
    assert len(store.entries()) == 3
    assert list(collect(store)) == planned
    assert [removal.why for removal in planned] == [*["left behind by a run that was killed"] * 2, "damaged"]
    assert planned[-1].bytes > 300
    assert {entry.key for entry in store.entries()} == {good, combined}
    assert not store.temporaries()
    assert (store.path / "notes.txt").exists()
    assert not list(collect(store))


def test_gc_by_age_goes_by_last_use(store: Store) -> None:
    old, used, kept, combined = filled(store, 3)
    for entry in store.entries():
        os.utime(entry.manifest_file, (0, 0))
    store.get(used)
    store.get_release(combined)
    removed = list(collect(store, unused_days=30, keep={kept}))
    assert [removal.what for removal in removed] == [f"calibration {old[:12]}"]
    assert {entry.key for entry in store.entries()} == {used, kept, combined}


def test_the_beginning_of_a_key_will_do(store: Store) -> None:
    keys = [store.put(*calibration(number), 1) for number in range(17)]
    assert store.find(keys[3][:20]).key == keys[3]
    assert store.find(keys[3].upper()).key == keys[3]
    shared = next(digit for digit in "0123456789abcdef" if sum(key[0] == digit for key in keys) > 1)
    for prefix, says in ((shared, "keys begin with"), ("x", "no entry's key"), ("", "no entry's key")):
        with pytest.raises(BadInput, match=says):
            store.find(prefix)


def test_a_missing_key_is_bad_input(store: Store) -> None:
    with pytest.raises(BadInput, match="has no calibration"):
        store.get(ZEROS)


def test_an_entry_that_appears_between_two_looks_is_not_taken_for_a_damaged_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer is done just after this one has found nothing there: theirs stays."""
    lineage, made = calibration()
    look, theirs = Entry.is_there, []

    def stale(entry: Entry) -> bool:
        if theirs:
            return look(entry)
        monkeypatch.setattr(Entry, "is_there", look)
        Store(store.path).put(lineage, made, 0.1)
        theirs.append(entry.tensor_file.stat().st_ino)
        return False

    monkeypatch.setattr(Entry, "is_there", stale)
    store.put(lineage, made, 0.1)
    assert [entry.tensor_file.stat().st_ino for entry in store.entries()] == theirs
