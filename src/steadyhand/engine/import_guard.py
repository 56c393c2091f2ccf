"""A switch for finding what is imported while answers are being timed: `STEADYHAND_DEBUG_IMPORTS=1`.

An import takes milliseconds of the event loop, and whatever arrives meanwhile is stamped late. What a run will need is
loaded when it is prepared; with the switch, anything forgotten raises where it is imported.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

VARIABLE = "STEADYHAND_DEBUG_IMPORTS"
_guarded: set[int] = set()
"""The threads in which nothing may be imported for the first time."""


class LateImport(BaseException):
    """Something was imported while trials were running. No `Exception`, so that nobody handles it."""


@contextmanager
def no_imports() -> Generator[None]:
    """Importing a new module in this thread raises `LateImport`. Used if the switch is set."""
    _watch()
    here = threading.get_ident()
    _guarded.add(here)
    try:
        yield
    finally:
        _guarded.discard(here)


@functools.cache
def _watch() -> None:
    """An audit hook stays for the life of the process."""
    sys.addaudithook(_on_event)


def _on_event(event: str, args: tuple[Any, ...]) -> None:
    if event == "import" and threading.get_ident() in _guarded and args[0] not in sys.modules:
        raise LateImport(f"{args[0]} was imported while answers were being timed; load it when the run is prepared")
