"""What calibrators and combiners have in common: a name, a documented configuration, and a registry to find them in."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from oblivec.errors import BadInput


class Settings(BaseModel):
    """What a method does. Where it runs (device, seed) is given when it is called. Unknown settings are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Configured(ABC):
    """Something with a name and settings."""

    name: ClassVar[str]
    Config: ClassVar[type[Settings]]

    def __init__(self, config: Settings | None = None):
        self.config = config if config is not None else self.Config.model_validate({})

    @classmethod
    def configure(cls, **settings: Any) -> Self:
        """One with some settings overruled."""
        try:
            return cls(cls.Config(**settings))
        except ValidationError as problem:
            first = problem.errors()[0]
            setting = ".".join(map(str, first["loc"])) or "(all)"
            known = ", ".join(cls.Config.model_fields) or "none"
            raise BadInput(f"{cls.name}: setting {setting}: {first['msg']}; the settings are {known}") from None


Kind = TypeVar("Kind", bound=Configured)


def find(registry: Mapping[str, type[Kind]], role: str, name: str) -> type[Kind]:
    """The registered class of that name; `role` is the word the message uses for what was looked up."""
    if name not in registry:
        raise BadInput(f"{role} {name!r}: unknown; use one of {', '.join(sorted(registry))}")
    return registry[name]
