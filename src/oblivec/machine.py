"""What this machine is, in words that may be published: never its name, its user or an address."""

from __future__ import annotations

import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from oblivec import __version__
from oblivec.engines.local import default_jobs


def describe_machine() -> dict[str, Any]:
    """What a measurement depends on; goes into the JSON of every benchmark."""
    return {
        "cpu": cpu_model(), "cores": default_jobs(), "memory_gb": gigabytes(memory_bytes()[0]), "gpu": gpu_name(),
        "system": f"{platform.system()} {platform.machine()}", "python": platform.python_version(),
        "oblivec": __version__, "torch": torch.__version__, "numpy": package_version("numpy"),
        "scikit-learn": package_version("scikit-learn"),
    }


def cpu_model() -> str:
    """The processor's model as the system tells it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, "") or platform.processor() or platform.machine() or "unknown"


def gpu_name() -> str | None:
    """The first GPU torch can use, or None."""
    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else None


def memory_bytes() -> tuple[int | None, int | None]:
    """Memory in all and memory free for use; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        found = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
        return found["MemTotal"], found["MemAvailable"]
    except (OSError, KeyError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), None
    except (OSError, ValueError, AttributeError):
        return None, None


def free_disk_bytes(path: Path) -> int:
    """Free space where `path` is or would be."""
    present = next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
    return shutil.disk_usage(present).free


def package_version(name: str) -> str | None:
    """The installed version of a distribution, or None when it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def gigabytes(size: int | None) -> float | None:
    return None if size is None else round(size / 2**30, 1)
