"""What the grid search chose, as `oblivec bench tuning` has written it: data set, model, method.

Each entry holds `settings`, the command that chose them and the figures on validation items and users. What is not in
the file has not been searched for: the method's defaults stand, and the tables say so.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

FILE = "tuned.json"


def tuned() -> dict[str, Any]:
    return json.loads((files("oblivec.experiments") / FILE).read_text(encoding="utf-8"))
