"""Libraries that are slow to import, for tests that every worker collects and one runs."""

from __future__ import annotations

import importlib
from typing import Any


class Late:
    """Stands in for a module, which is imported on first use."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # pytest looks these up in everything that a test file defines
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)
