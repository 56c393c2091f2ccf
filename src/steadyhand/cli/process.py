"""The process of a command: its event loop, its signals and its garbage collector, which are ours to set.

Whoever runs scenarios from Python keeps these for themselves; see `steadyhand.api`.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from steadyhand.batch.local import Interrupts
from steadyhand.compose.running import quick_loop

T = TypeVar("T")
_YOUNG = 20_000


def run_in_loop(main: Coroutine[Any, Any, T], *, network: bool) -> T:
    """Run to the end, on uvloop when there are calls to time; a scripted run is over before it is loaded."""
    with asyncio.Runner(loop_factory=quick_loop() if network else None) as runner, _seldom_collecting():
        return runner.run(main)


@contextmanager
def attended(note: Callable[[str], None]) -> Generator[Interrupts]:
    """Around the trials of a run: signals stop it, and the garbage collector, off until now, leaves alone what is
    there already."""
    gc.freeze()
    gc.enable()
    with Interrupts(note) as interrupts:
        yield interrupts


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
