"""The policy file: TOML, checked to the last key, with every fault named by file and key.

    [source]
    embeddings = "users.npy"
    attributes = "attributes.csv"

    [output]
    dir = "releases"

    [policies.eu]
    protect = ["gender", "age"]
    verdict = "at_chance"
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from oblivec.errors import BadInput
from oblivec.files.ids import find_id_column, listing
from oblivec.files.interaction_tables import USER_ID
from oblivec.files.opening import check_readable, suffix_of
from oblivec.files.table_sources import open_table
from oblivec.policies.source import Source

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Output(_Table):
    """The table `[output]`."""

    dir: Path
    """Where releases and reports go; made when it is not there."""


class Policy(_Table):
    """One table `[policies.NAME]`: a named requirement and what its release must keep to."""

    protect: list[str] = Field(min_length=1)
    """The attributes it protects."""
    max_ndcg_loss_percent: float | None = Field(None, ge=0)
    """How much of NDCG@10 may be lost, relative to the original."""
    verdict: Literal["at_chance", "undecided"] | None = None
    """What the audit must say of every attribute: `at_chance`, or at least `undecided`, that is, no leak found."""


class PolicyFile(_Table):
    """The file as a whole; paths are absolute once it is read."""

    source: Source
    output: Output
    policies: dict[str, Policy] = Field(min_length=1)

    @property
    def attributes(self) -> list[str]:
        """Every attribute that some policy protects, by name."""
        return sorted({name for policy in self.policies.values() for name in policy.protect})

    def release(self, name: str) -> Path:
        """Where the release of that policy goes."""
        return self.output.dir / f"{name}{suffix_of(self.source.embeddings)}"

    def targets(self) -> dict[str, Path]:
        """Every file `apply` may write, by policy and kind."""
        return {
            f"policies.{name} ({path.suffix}):": path
            for name in self.policies
            for path in (self.release(name), self.output.dir / f"{name}.json", self.output.dir / f"{name}.html")
        }


def read_policies(path: Path | str) -> PolicyFile:
    """Read a policy file. Whatever is wrong with it is one line that names the key."""
    path, _ = check_readable(path, (".toml",))
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as problem:
        where = re.search(r"\(at .*\)$", str(problem))
        raise BadInput(f"{path}: is not valid TOML {where[0] if where else ''}; mend it there") from None
    try:
        policies = PolicyFile.model_validate(content)
    except ValidationError as problem:
        raise _explained(path, problem) from None
    _check_names(path, policies)
    return _check_source(path, _absolute(policies, path.absolute().parent))


def _explained(path: Path, problem: ValidationError) -> BadInput:
    """The first fault of many, in words."""
    fault = problem.errors()[0]
    place = [str(part) for part in fault["loc"]]
    key = ".".join(place)
    if fault["type"] == "extra_forbidden":
        table: type[BaseModel] = {"source": Source, "output": Output, "policies": Policy}.get(place[0], PolicyFile)
        table = PolicyFile if len(place) == 1 else table
        return BadInput(f"{path}: {key}: no such key; there are {', '.join(table.model_fields)}")
    if fault["type"] == "missing":
        return BadInput(f"{path}: {key}: is missing; add it")
    if fault["type"] == "too_short":
        return BadInput(f"{path}: {key}: is empty; name at least one")
    return BadInput(f"{path}: {key}: {fault['msg'][:1].lower()}{fault['msg'][1:]}; mend it")


def _check_names(path: Path, policies: PolicyFile) -> None:
    """Names become file names, on file systems that may not tell `EU` from `eu`."""
    seen: dict[str, str] = {}
    for name in policies.policies:
        if not _NAME.fullmatch(name):
            raise BadInput(f"{path}: policies.{name}: becomes a file name; use letters, digits, _ and - only")
        if (twin := seen.setdefault(name.lower(), name)) != name:
            raise BadInput(f"{path}: policies.{name}: differs from {twin} in case only; files could replace each other")


def _absolute(policies: PolicyFile, folder: Path) -> PolicyFile:
    source: dict[str, Any] = {key: folder / found for key, found in policies.source.paths.items()}
    return policies.model_copy(update={
        "source": policies.source.model_copy(update=source),
        "output": Output(dir=folder / policies.output.dir),
    })


def _check_source(path: Path, policies: PolicyFile) -> PolicyFile:
    """What can be known to be wrong before anything large is read."""
    source = policies.source
    for key, file in source.paths.items():
        if not file.exists():
            raise BadInput(f"{path}: source.{key}: {file}: no such file; paths are relative to the policy file")
    if source.items is not None and source.model is not None:
        raise BadInput(f"{path}: source.items and source.model: give one of them; a model brings its own item side")
    measurable = source.interactions is not None and (source.items or source.model) is not None
    names = open_table(source.attributes).names
    id_column = find_id_column(names, source.id_column, (USER_ID if USER_ID in names else "id",), source.attributes)
    known = [name for name in names if name != id_column]
    hint = f"it has {listing(known)}" if id_column else "check its header line"
    for name, policy in policies.policies.items():
        if policy.max_ndcg_loss_percent is not None and not measurable:
            raise BadInput(f"{path}: policies.{name}.max_ndcg_loss_percent: cannot be measured without "
                           "source.interactions and source.items or source.model; add them")
        for attribute in policy.protect:
            if attribute not in known:
                raise BadInput(f"{path}: policies.{name}.protect: {source.attributes} has no attribute '{attribute}'; "
                               f"{hint}")
    return policies
