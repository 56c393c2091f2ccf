"""Libraries that take long to import, for tests that are collected by every worker and run by one."""

from __future__ import annotations

import importlib
from typing import Any


class Late:
    """Stands for a module, which is imported when something of it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # what pytest looks for in everything that a test file defines
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)
