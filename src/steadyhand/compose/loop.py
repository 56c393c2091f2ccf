"""The event loop of a run: the quick one where calls are timed, the standard one where start-up counts more."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
_YOUNG = 20_000


def run_in_loop(main: Coroutine[Any, Any, T], *, network: bool) -> T:
    """Run to the end, on uvloop when there are calls to time; a scripted run is over before it is loaded."""
    with asyncio.Runner(loop_factory=_quick_loop() if network else None) as runner, _seldom_collecting():
        return runner.run(main)


def _quick_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


@contextmanager
def _seldom_collecting() -> Generator[None]:
    """Modules and scenarios stay for the whole run: looking through them again and again holds up the loop.

    Trials are freed when they are let go of; what they leave in cycles is collected, less often.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_YOUNG, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
