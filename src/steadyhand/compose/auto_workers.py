"""Whether a run gets workers where the user has not said how many: the first trials, run in this process, decide.

Workers pay where trials compute. How long a trial computes is not known before one has run, so the first are run here,
for a seventh of a second. If the others would keep this process busy for long enough, workers run them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from steadyhand.batch.local import Batch, Remaining
from steadyhand.compose.executors import may_stop_early, processors
from steadyhand.compose.run import Run

_TRIED_S = 0.15
_AT_ONCE = 64
_WORTH_S = 2.0
_BUSY = 0.7


def may_add_workers(run: Run) -> bool:
    """Whether workers could run the trials, and nobody has chosen how many. Where models are called over the
    network, one process does: it takes less than a processor."""
    options = run.settings.options
    one_process = options.record, options.replay, options.rejudge, options.judge_canaries
    return (
        options.workers is None
        and options.engine != "ray"
        and run.origin is None
        and all(each is None for each in one_process)
        and not may_stop_early(run)
        and processors() > 1
    )


class TriedOut(NamedTuple):
    """`rest_s` is how long the remaining trials would compute in one process, `busy` the share of the time in which the
    first trials did. Time for which the process waited for a processor is left out."""

    rest_s: float
    busy: float

    @property
    def worth_workers(self) -> bool:
        return self.rest_s >= _WORTH_S and self.busy >= _BUSY

    def __str__(self) -> str:
        if self.worth_workers:
            return f"{processors()} workers run the rest: in one process, it would take about {self.rest_s:.0f} s"
        if self.busy < _BUSY:
            return f"one process runs the rest: it computes for only {self.busy:.0%} of the time"
        return f"one process runs the rest: it takes about {self.rest_s:.1f} s, too short for workers to gain"


class _Stopwatch:
    """How long this process has computed, and how long it could have."""

    def __init__(self) -> None:
        self._began: tuple[float, float] = self._now()

    def read(self) -> tuple[float, float]:
        began, now = self._began, self._now()
        return now[0] - began[0], now[1] - began[1]

    @staticmethod
    def _now() -> tuple[float, float]:
        waited_ns = 0
        with suppress(OSError, ValueError, IndexError):
            waited_ns = int(Path("/proc/self/schedstat").read_text(encoding="ascii").split()[1])
        return time.process_time(), time.perf_counter() - waited_ns / 1e9


async def try_out(batch: Batch, remaining: Remaining, stopping: Callable[[], bool]) -> TriedOut:
    """Runs some of the trials, and takes them out of what remains."""
    watch, done, spent, free = _Stopwatch(), 0, 0.0, 0.0
    while len(remaining) and spent < _TRIED_S and not stopping():
        part = remaining.take(_AT_ONCE)
        await batch.run(part)
        done += len(part)
        spent, free = watch.read()
    return TriedOut(rest_s=spent / max(done, 1) * len(remaining), busy=spent / max(free, spent, 1e-9))
