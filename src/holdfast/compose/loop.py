"""The event loop of a run: the quick one where calls are timed, the standard one where start-up counts more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_in_loop(main: Coroutine[Any, Any, T], *, network: bool) -> T:
    """Run to the end. uvloop halves the work of a call, and takes longer to load than a scripted run takes."""
    with asyncio.Runner(loop_factory=_quick_loop() if network else None) as runner:
        return runner.run(main)


def _quick_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
