"""What `oblivec doctor` looks at: the environment, the machine, the data, and what to do about what is missing.

Nothing is fetched, installed or written.
"""

from __future__ import annotations

import importlib
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import torch

from oblivec import __version__
from oblivec.datasets.entry import FETCHED_WHEN_USED, NEEDS_PATH
from oblivec.datasets.fetch import cache_root
from oblivec.datasets.registry import ENTRIES
from oblivec.engines.local import default_jobs
from oblivec.machine import cpu_model, free_disk_bytes, gigabytes, gpu_name, memory_bytes, package_version

State = Literal["ok", "note", "broken"]
OLDEST_PYTHON = (3, 11)
LITTLE_MEMORY_GB = 2.0
"""ML-1M trains and audits within this."""
LITTLE_DISK_GB = 1.0
"""Room for the MovieLens data sets, twice over."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
IMPORT_NAMES = {"scikit-learn": "sklearn"}
"""Where a distribution is imported under another name."""


@dataclass(frozen=True)
class Finding:
    """One line of the table. `note`: works, and could be better; `broken`: something required is not there."""

    what: str
    state: State
    found: str
    advice: str = ""


def examine(root: Path | None = None) -> list[Finding]:
    """Every finding, in the order of the table; `root` is the cache of fetched data sets."""
    cache = cache_root(root)
    return [
        _python(), Finding("oblivec", "ok", __version__), *_packages(), _device(), _cores(), _memory(), _disk(cache),
        *_data(cache), _pip(), _browser(),
    ]


def _python() -> Finding:
    good = sys.version_info >= OLDEST_PYTHON
    oldest = ".".join(map(str, OLDEST_PYTHON))
    return Finding("python", "ok" if good else "broken", platform.python_version(),
                   "" if good else f"install Python {oldest} or newer, then run make setup")


def _packages() -> Iterator[Finding]:
    """What the installed package says it needs, then its extras for users; those for developers are not asked for."""
    try:
        requirements = requires("oblivec") or []
    except PackageNotFoundError:
        yield Finding("packages", "broken", "oblivec is not installed, only importable", "run make setup")
        return
    for text in requirements:
        requirement, _, condition = text.partition(";")
        name = re.split(r"[^\w.-]", requirement.strip(), maxsplit=1)[0]
        extra = re.search(r"extra\s*==\s*['\"](\w+)", condition)
        if extra is None:
            yield _required(name, requirement)
        elif extra[1] != "dev":
            installed = package_version(name)
            advice = "" if installed else f"one more attacker: pip install {name}"
            yield Finding(name, "ok" if installed else "note", installed or "not installed", advice)


def _required(name: str, requirement: str) -> Finding:
    installed = package_version(name)
    if installed is None:
        return Finding(name, "broken", "not installed", "run make setup")
    oldest = re.search(r">=\s*([\d.]+)", requirement)
    if oldest and _numbers(installed) < _numbers(oldest[1]):
        return Finding(name, "broken", installed, f"too old, {oldest[1]} is needed; run make setup")
    try:
        importlib.import_module(IMPORT_NAMES.get(name, name))
    except Exception as problem:  # a library built for another machine fails in any way it likes
        return Finding(name, "broken", f"{installed}, cannot be imported ({type(problem).__name__})",
                       f"pip install --force-reinstall {name}")
    return Finding(name, "ok", installed)


def _numbers(version: str) -> tuple[int, ...]:
    """The release part of a version, comparable: `2.13.0+cpu` is (2, 13, 0)."""
    release = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in release[0].split(".")) if release else ()


def _device() -> Finding:
    name = gpu_name()
    if name is not None:
        return Finding("device", "ok", f"{name} (CUDA {torch.version.cuda})")
    if torch.version.cuda is None:
        return Finding("device", "ok", "CPU; this torch is built without CUDA",
                       "nothing needs a GPU; to use one, install a CUDA build of torch")
    return Finding("device", "note", "CPU; torch is built for CUDA and sees no GPU",
                   "nothing needs a GPU; if there should be one, check its driver")


def _cores() -> Finding:
    return Finding("cores", "ok", f"{default_jobs()} ({cpu_model()})")


def _memory() -> Finding:
    total, free = (gigabytes(size) for size in memory_bytes())
    if free is None:
        return Finding("memory", "ok", "the system does not say" if total is None else f"{total} GB in all")
    scarce = free < LITTLE_MEMORY_GB
    return Finding("memory", "note" if scarce else "ok", f"{free} GB free of {total} GB",
                   f"have {LITTLE_MEMORY_GB:g} GB free for ML-1M" if scarce else "")


def _disk(cache: Path) -> Finding:
    free = gigabytes(free_disk_bytes(cache)) or 0.0
    scarce = free < LITTLE_DISK_GB
    return Finding("disk", "note" if scarce else "ok", f"{free} GB free for {cache}",
                   "free some, or keep data elsewhere: set OBLIVEC_DATA" if scarce else "")


def _data(cache: Path) -> Iterator[Finding]:
    for entry in ENTRIES.values():
        presence = entry.presence(cache)
        advice = {FETCHED_WHEN_USED: f"oblivec data fetch {entry.name}", NEEDS_PATH: entry.by_hand}.get(presence, "")
        yield Finding(f"data: {entry.name}", "note" if advice else "ok", presence, advice)


def _pip() -> Finding:
    if find_spec("pip") is None:
        return Finding("pip", "note", "not in this environment",
                       "the MovieLens mirror is read through it: python -m ensurepip")
    return Finding("pip", "ok", package_version("pip") or "present")


def _browser() -> Finding:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        return Finding("chromium", "note", "not found",
                       "only the browser tests use it: install the package chromium")
    return Finding("chromium", "ok", found)
