"""`oblivec apply` among processes: killed at any moment it goes on where it was, and takes about as long as planned."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oblivec.randomness import numpy_rng
from oblivec.store import Store
from oblivec.store.upkeep import verify
from unlearn_files import Files

NAMES = ("one", "two", "three")


def write_office(folder: Path, users: int, dimensions: int) -> Path:
    """A policy file over three attributes; one policy for each of them and one for all."""
    rng = numpy_rng(0, "office")
    np.save(folder / "users.npy", rng.standard_normal((users, dimensions)).astype(np.float32))
    labels = rng.integers(2, size=(users, 3)).tolist()
    Files(folder).write("attributes.csv", ("user_id", *NAMES), [(row, *values) for row, values in enumerate(labels)])
    policies = "".join(f'[policies.{name}]\nprotect = ["{name}"]\n' for name in NAMES)
    (folder / "policies.toml").write_text(
        '[source]\nembeddings = "users.npy"\nattributes = "attributes.csv"\n[output]\ndir = "releases"\n'
        f'{policies}[policies.all]\nprotect = {json.dumps(NAMES)}\n'
    )
    return folder / "policies.toml"


def command(word: str, policies: Path, *options: str) -> list[str]:
    return [sys.executable, "-c", "from oblivec.cli import main; main()", word, str(policies), "--store",
            str(policies.parent / "store"), "--method", "paper-tuned", "--device", "cpu", "--quiet", *options]


def tensor_files(store: Path) -> dict[str, int]:
    """Every finished entry, and when its tensors were written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in store.glob("*/[!.]*/*.safetensors")}


@pytest.mark.parametrize("done", [1, *(pytest.param(done, marks=pytest.mark.slow) for done in (2, 4, 7, 9))])
def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, done: int) -> None:
    """Killed once so many of its fourteen entries are there: three calibrations, then three for every policy."""
    policies, store = write_office(tmp_path, 300, 4), tmp_path / "store"
    quick = ("--set", "steps=25", "--set", "combination.steps=2", "--attacker", "linear", "--jobs", "1")
    with subprocess.Popen(command("apply", policies, *quick)) as run:
        try:
            while run.poll() is None and len(tensor_files(store)) < done:
                time.sleep(0.002)
            assert run.poll() is None, "it was done before it could be killed"
        finally:
            run.kill()
    finished = tensor_files(store)
    assert len(finished) >= done
    assert not (tmp_path / "releases" / "all.npy").exists()
    subprocess.run(command("apply", policies, *quick), check=True, stdout=subprocess.DEVNULL)
    assert finished.items() <= tensor_files(store).items()  # nothing that was finished was done again
    assert {path.name for path in (tmp_path / "releases").iterdir()} == {
        f"{name}.{kind}" for name in (*NAMES, "all") for kind in ("npy", "json", "html")
    }
    assert [finding.problem for finding in verify(Store(store)) if finding.problem] == []


@pytest.mark.slow
@pytest.mark.parametrize("warm", [False, True], ids=["probed", "from earlier runs"])
def test_a_plan_is_right_within_a_factor_of_three(tmp_path: Path, warm: bool) -> None:
    policies = write_office(tmp_path, 1500, 16)
    settings = ("--set", "steps=30", "--set", "combination.steps=20", "--attacker", "linear,forest,mlp")
    if warm:
        subprocess.run(command("apply", policies, *settings, "--seed", "1"), check=True, stdout=subprocess.DEVNULL)
    planned = timed(policies, "plan", *settings)["seconds"]
    start = time.perf_counter()
    timed(policies, "apply", *settings)
    spent = time.perf_counter() - start
    assert spent / 3 < planned < 3 * spent


def timed(policies: Path, word: str, *options: str) -> dict[str, Any]:
    target = policies.parent / f"{word}.json"
    subprocess.run(command(word, policies, *options, "--json", str(target)), check=True, stdout=subprocess.DEVNULL)
    return json.loads(target.read_text())
