"""Tiny MovieLens files in every layout, for tests."""

from __future__ import annotations

import zipfile
from pathlib import Path

RATINGS = [(3, 50, 5, 100), (1, 50, 4, 90), (1, 7, 3, 90), (2, 9, 1, 95), (3, 7, 2, 80), (1, 9, 2, 70)]
MEMBERS = [(1, 24, "M", "writer"), (2, 28, "F", "doctor"), (3, 41, "F", "writer")]
TITLES = {50: "Star Wars (1977)", 7: "Café, Le (1996)", 9: "Dead Man Walking (1995)"}


def write_100k(folder: Path, ratings=RATINGS, members=MEMBERS, line_end: str = "\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "u.data", ("\t".join(map(str, row)) for row in ratings), line_end)
    _write(folder / "u.user", ("|".join(map(str, (*row, "00000"))) for row in members), line_end)
    return folder


def write_1m(folder: Path, ratings=RATINGS, members=MEMBERS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "ratings.dat", ("::".join(map(str, row)) for row in ratings))
    _write(folder / "users.dat", (f"{key}::{gender}::{age}::{job}::00000" for key, age, gender, job in members))
    return folder


def write_wheel(path: Path, name: str, prefix: str, titles: bool) -> Path:
    """As the package-index mirror has it: `name:type` headers, tabs, CRLF, prefixed users, titles for items."""
    head = "user_id:token\titem_id:token\trating:float\ttimestamp:float"
    people = "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token"
    ratings = [f"{prefix}{u}\t{TITLES[i] if titles else i}\t{r}\t{t}" for u, i, r, t in RATINGS]
    members = [f"{prefix}{u}\t{age}\t{gender}\t{job}\t00000" for u, age, gender, job in MEMBERS]
    with zipfile.ZipFile(path, "w") as wheel:
        inside = f"recbole/dataset_example/{name}/{name}"
        wheel.writestr(f"{inside}.inter", "\r\n".join([head, *ratings, ""]))
        wheel.writestr(f"{inside}.user", "\r\n".join([people, *members, ""]))
    return path


def zipped(folder: Path, path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for file in folder.iterdir():
            archive.write(file, f"{folder.name}/{file.name}")
    return path


def _write(path: Path, lines, line_end: str = "\n") -> None:
    path.write_bytes("".join(line + line_end for line in lines).encode())
