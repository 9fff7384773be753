"""Statistics, verdicts, reports. The room is also its front door: `oblivec.audit(U, attributes)` runs an audit."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oblivec.audit.result import AuditResult


class _Room(ModuleType):
    """A package cannot hold a function of its own name beside its modules, so the package itself is callable."""

    def __call__(self, U: Any, attributes: Any, **options: Any) -> AuditResult:
        """See `oblivec.audit.run.audit`."""
        from oblivec.audit.run import audit

        return audit(U, attributes, **options)


sys.modules[__name__].__class__ = _Room
