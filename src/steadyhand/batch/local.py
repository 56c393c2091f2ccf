"""Runs many trials, several at once: in this process, or wherever an executor runs them."""

from __future__ import annotations

import asyncio
import signal
import traceback
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Self

from steadyhand.batch.plan import Plan
from steadyhand.engine.context import TrialParts
from steadyhand.engine.trial import keep_step, run_until_measured
from steadyhand.errors import TrialError
from steadyhand.ports.executor import Executor
from steadyhand.ports.observer import RunObserver
from steadyhand.records.base import plain_text, utc_now
from steadyhand.records.evaluation import Verdict
from steadyhand.records.event import ErrorHappened
from steadyhand.records.run import Judged, PlannedTrial, TrialKey, TrialRecord

Build = Callable[[PlannedTrial], TrialParts]
Perform = Callable[[PlannedTrial], Awaitable[TrialRecord]]


class InProcess:
    """Implements `Executor` in this process, with at most `places` trials at once."""

    def __init__(self, perform: Perform, *, places: int = 1) -> None:
        self.places: int = max(1, places)
        self.perform: Perform = perform


class PrecededExecutor:
    """Implements `Executor`: wraps another one, and does something before each trial."""

    def __init__(self, executor: Executor, before: Callable[[], Awaitable[None]]) -> None:
        self._executor = executor
        self._before = before

    @property
    def places(self) -> int:
        return self._executor.places

    async def perform(self, planned: PlannedTrial) -> TrialRecord:
        await self._before()
        return await self._executor.perform(planned)


class Remaining:
    """The trials of a sequence that were not taken yet, in order."""

    def __init__(self, trials: Sequence[PlannedTrial]) -> None:
        self._waiting: Iterator[PlannedTrial] = iter(trials)
        self._left: int = len(trials)

    def __len__(self) -> int:
        return self._left

    def take(self, most: int) -> list[PlannedTrial]:
        taken = list(islice(self._waiting, most))
        self._left -= len(taken)
        return taken

    def __iter__(self) -> Iterator[PlannedTrial]:
        return self._waiting


class Batch:
    """Runs planned trials with an executor. `keep` is called with each finished trial; observers get its return value.

    Once `stopping` is set, no further trial starts; those in flight are finished and kept. If a trial is not `wanted`
    when its turn comes, the rest of its scenario is skipped too.
    """

    def __init__(
        self,
        executor: Executor,
        *,
        keep: Callable[[TrialRecord], TrialRecord],
        observers: Sequence[RunObserver] = (),
        stopping: Callable[[], bool] = lambda: False,
        wanted: Callable[[TrialKey], bool] | None = None,
    ) -> None:
        self._executor = executor
        self._keep = keep
        self._observers = observers
        self._stopping = stopping
        self._wanted = wanted
        self._outer: asyncio.Task[object] | None = None
        self._failing: bool = False
        self._active: int = 0

    async def run(self, trials: Sequence[PlannedTrial] | Remaining) -> None:
        """Returns when every started trial has been kept, and may be called again. An exception from `keep` ends the
        run; any other exception is an error of its trial."""
        waiting = self._wanted_of(trials)
        self._outer = asyncio.current_task()
        self._active = 0
        try:
            async with asyncio.TaskGroup() as group:
                self._fill(group, waiting, len(trials))
        except* Exception as failures:  # noqa: BLE001 - raised again as itself
            raise _first(failures) from None

    def _fill(self, group: asyncio.TaskGroup, waiting: Iterator[PlannedTrial], most: int) -> None:
        """Keep as many trials running as the executor has places for."""
        while self._active < min(self._executor.places, most):
            self._active += 1
            group.create_task(self._work(group, waiting, most))

    async def _work(self, group: asyncio.TaskGroup, waiting: Iterator[PlannedTrial], most: int) -> None:
        executor = self._executor
        for planned in waiting:
            if self._stopping():
                return
            for observer in self._observers:
                observer.trial_started(planned.key, planned.scenario.name)
            record = await perform_contained(executor.perform, planned, self._ending)
            try:
                kept = self._keep(record)
                for observer in self._observers:
                    observer.trial_finished(kept)
            except BaseException:
                self._failing = True
                raise
            del record, kept  # freed while it is in the processor's cache, which is cheaper than later
            await keep_step()
            if self._active > executor.places:
                self._active -= 1
                return
            if self._active < executor.places:
                self._fill(group, waiting, most)

    def _ending(self) -> bool:
        return self._failing or self._outer is None or bool(self._outer.cancelling())

    def _wanted_of(self, trials: Sequence[PlannedTrial] | Remaining) -> Iterator[PlannedTrial]:
        if self._wanted is None:
            return iter(trials)
        if isinstance(trials, Plan):
            return trials.wanted(self._wanted)
        wanted = self._wanted
        return (each for each in trials if wanted(each.key))


async def perform_contained(perform: Perform, planned: PlannedTrial, ending: Callable[[], bool]) -> TrialRecord:
    """Raises only on cancellation of the whole run, when it is `ending`: one trial must not affect others."""
    try:
        return await perform(planned)
    except asyncio.CancelledError as error:
        if ending():
            raise
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
        return _broken_off(planned, error, "the trial cancelled its own task")
    except TrialError as error:
        return _broken_off(planned, error, str(error))
    except (Exception, GeneratorExit, SystemExit) as error:  # noqa: BLE001 - told in the record
        return _broken_off(planned, error, f"unexpected {type(error).__name__}: {error}")


def trial_runner(build: Build) -> Perform:
    """Runs the trial that `build` makes, and repeats it if only its latency could not be graded."""

    return lambda planned: run_until_measured(lambda: build(planned))


def _broken_off(planned: PlannedTrial, error: BaseException, reason: str) -> TrialRecord:
    scenario = planned.scenario
    happened = ErrorHappened(
        at_ms=0.0,
        phase="run",
        message=plain_text(reason),
        error_type=type(error).__name__,
        traceback=plain_text("".join(traceback.format_exception(error))),
    )
    return TrialRecord(
        key=planned.key,
        scenario_name=scenario.name,
        place=scenario.place,
        digest=scenario.digest,
        started_at=utc_now(),
        duration_ms=0.0,
        judged=Judged(verdict=Verdict.ERROR, reason=happened.message),
        seed=planned.seed,
        domain=scenario.domain,
        expects=scenario.expects,
        tags=scenario.tags,
        events=(happened,),
    )


def _first(group: BaseExceptionGroup[Exception]) -> Exception:
    """Unwrap a worker's failure: the caller handles `StoreError`, not an exception group with one member."""
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    assert isinstance(first, Exception)
    return first


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Use around a batch, in the task that runs it. Outside the main thread nothing is caught and nothing changes.

    The first signal sets `stopping` and is passed to `note`; the second cancels the task. A terminal that hangs up
    cannot send a second signal, so a hang-up cancels immediately, unless hang-ups are ignored (`nohup`).
    """

    def __init__(self, note: Callable[[str], None] = lambda message: None) -> None:
        self.stopping: bool = False
        self._note = note
        self._task: asyncio.Task[object] | None = None
        self._caught: list[signal.Signals] = []

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        for each in _SIGNALS:
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(each, self.interrupt)
                self._caught.append(each)
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(signal.SIGHUP, self.hang_up)
                self._caught.append(signal.SIGHUP)
        return self

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for each in self._caught:
            loop.remove_signal_handler(each)
        self._caught.clear()
        self._task = None

    def interrupt(self) -> None:
        if not self.stopping:
            self.stopping = True
            self._note("stopping after the trials in progress; interrupt again to stop immediately")
        elif self._task is not None:
            self._task.cancel()

    def hang_up(self) -> None:
        self.stopping = True
        if self._task is not None:
            self._task.cancel()
