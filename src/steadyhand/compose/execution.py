"""Executes a run: runs every pending trial and records it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from steadyhand.batch.local import Batch, InProcess, Perform, PrecededExecutor, trial_runner
from steadyhand.batch.plan import PlannedPart
from steadyhand.batch.provider import ProviderGate
from steadyhand.compose.builder import Builder
from steadyhand.compose.fingerprint import Fingerprints, total
from steadyhand.compose.models import Tape
from steadyhand.compose.run import Run, clean_workspaces
from steadyhand.compose.stall import RunWatch
from steadyhand.engine.import_guard import no_imports
from steadyhand.engine.limits import LagMonitor
from steadyhand.engine.model_call import OpenGate
from steadyhand.errors import SteadyhandError, StoreError
from steadyhand.judging.cost import Prices
from steadyhand.judging.rates import (
    percent,
    required_of,
)
from steadyhand.judging.sequential import fewest_passes
from steadyhand.ports.executor import Executor
from steadyhand.ports.observer import RunObserver
from steadyhand.records.run import PlannedTrial, RunHeader, RunHealth, TrialRecord
from steadyhand.records.scenario import Scenario, evaluation_specs
from steadyhand.report.progress import RedactedProgress
from steadyhand.store.labels import read_labels
from steadyhand.store.reader import RunReader
from steadyhand.store.schema import PlanEntry, still_to_do
from steadyhand.store.writer import RunWriter

if TYPE_CHECKING:
    from steadyhand.compose.calibration import Canaries
    from steadyhand.compose.executors import Workers


class Stops(Protocol):
    """Whether the run should stop."""

    @property
    def stopping(self) -> bool: ...


_LOOK_S = 0.1

Attend = Callable[[Callable[[str], None]], AbstractContextManager[Stops]]
"""Entered around the trials, in the task that runs them, with a function that shows a message to the user."""


class Execution:
    """Executes a run once, and then holds how it ended.

    `interrupted` is set after an interrupt, `broken` if the record or recording could no longer be written, `stalled`
    if no provider answered, and `crashed` after an unexpected exception; the record has the finished trials.
    """

    def __init__(self, run: Run) -> None:
        self._run: Run = run
        self.interrupted: bool = False
        self.broken: StoreError | None = None
        self.crashed: Exception | None = None
        self.stalled: str | None = None
        self._header: RunHeader = run.header
        self.pending: Sequence[PlannedTrial] = run.pending
        self._canaries: Canaries | None = None
        self._began: float = 0.0
        self._gate: ProviderGate | OpenGate | None = None
        self._lag: LagMonitor | None = None
        self._workers: Workers | None = None

    async def execute(self, observers: Sequence[RunObserver], *, attend: Attend | None = None) -> Path:
        """Run and record every pending trial, and return the path of the record.

        Raises `SetupError` or `StoreError` before anything runs. The caller is responsible for signals and the garbage
        collector, and can handle them in `attend`.
        """
        observers = [RedactedProgress(observer, self._run.redactor) for observer in observers]
        tape = Tape(self._run.settings.options, self._run.redactor, add=self._run.record is not None)
        try:
            return await self._execute(tape, observers, attend or _unattended)
        except SteadyhandError as error:
            error.args = (self._run.redactor.text(str(error)),)
            raise
        finally:
            tape.close()

    def health(self) -> RunHealth:
        """What is delaying the run right now. May be called from another thread, at any time."""
        return RunHealth(
            waits=self._gate.waits() if isinstance(self._gate, ProviderGate) else (),
            lag_ms=self._lag_ms(),
        )

    def _lag_ms(self) -> float:
        if self._workers is not None:
            return self._workers.pool.lag_ms
        return self._lag.recent_worst_ms() if self._lag is not None else 0.0

    async def _execute(self, tape: Tape, observers: Sequence[RunObserver], attend: Attend) -> Path:
        def note(message: str) -> None:
            _tell(observers, message)

        self._gate = self._run.gate(note, spaced=not self._run.uses_workers)
        with LagMonitor() as lag:
            self._lag = lag
            builder = self._run.builder(lag, self._gate, tape=tape)
            try:
                if self._run.origin is None:
                    builder.prepare(self._run.scenarios)
                else:
                    builder.prepare_judging(self._run.scenarios)
                for message in (*self._run.notes, *self._run.settings.notes(self._run.scenarios)):
                    note(message)
                for message in self._cannot_pass():
                    note(message)
                for message, count in builder.out_of_reach.items():
                    note(f"{message} ({count} scenarios)" if count > 1 else message)
                self._canaries = self._prepare_canaries(builder)
                with attend(note) as interrupts:
                    await self._open_workers(note, interrupts)
                    lag.reset()
                    return await self._record(builder, tape, observers, interrupts)
            finally:
                if self._workers is not None:
                    await asyncio.shield(self._workers.close())
                for problem in await builder.close():
                    note(problem)
                if self._workers is not None:
                    clean_workspaces()  # of a worker that was killed

    async def _open_workers(self, note: Callable[[str], None], interrupts: Stops) -> None:
        """Raises `SetupError` when the workers cannot start, and `KeyboardInterrupt` if the run is interrupted first: a
        cluster may take minutes to make room for them."""
        if not self._run.uses_workers:
            return
        from steadyhand.compose.executors import open_workers

        assert isinstance(self._gate, ProviderGate), "a replay runs in one process"
        opening = asyncio.ensure_future(open_workers(self._run, self._gate, note))
        try:
            while not opening.done() and not interrupts.stopping:
                await asyncio.wait([opening], timeout=_LOOK_S)
        finally:
            if not opening.done():
                opening.cancel()
                await asyncio.wait([opening])
        if opening.cancelled():
            raise KeyboardInterrupt
        self._workers = opening.result()

    def _cannot_pass(self) -> list[str]:
        """A note for each maximum number of trials that is too low for the test ever to pass."""
        if self._header.until is None:
            return []
        short: dict[str, int] = {}
        for scenario_id, trials in self._run.planned.per_scenario().items():
            required = required_of(self._header, scenario_id) or 1.0
            needed = fewest_passes(required, self._header.alpha)
            if needed is not None and trials < needed:
                told = f"--until decided can never say passed with {trials} trials: {percent(required)} at alpha "
                told += f"{self._header.alpha:g} needs at least {needed}, all passed"
                short[told] = short.get(told, 0) + 1
        return [f"{message} ({count} scenarios)" if count > 1 else message for message, count in short.items()]

    def _prepare_canaries(self, builder: Builder) -> Canaries | None:
        """Raises `UsageError` if the file is invalid."""
        file = self._run.settings.options.judge_canaries
        if file is None or self._header.canaries is not None:
            return None
        from steadyhand.compose.calibration import Canaries, Cases

        cases = Cases(self._run.settings, self._run.registries, self._run.redactor)
        found = cases.of(read_labels(file), self._run.scenarios)
        canaries = Canaries(file, cases, found, trials=len(self.pending), seed=self._run.seed)
        known = {scenario.id for scenario in self._run.scenarios}
        builder.prepare_judging([each for each in canaries.scenarios if each.id not in known])
        return canaries

    async def _record(self, builder: Builder, tape: Tape, observers: Sequence[RunObserver], interrupts: Stops) -> Path:
        writer = self._writer()
        if self._run.record is not None:
            # Another process may have run some of the trials before this one locked the record.
            keys = [each.key for each in self.pending if still_to_do(writer.verdict(each.key))]
            self.pending = PlannedPart(self._run.planned, keys)
        gate = self._gate if isinstance(self._gate, ProviderGate) else None
        watch = RunWatch(gate, self._run.settings.stall_limit_s, lambda message: _tell(observers, message))
        observers = [*observers, watch]
        for observer in observers:
            observer.run_started(msgspec.structs.replace(self._header, planned=len(self.pending)))
            for notice in builder.notices:
                observer.noted(notice)
        batch = self._batch(builder, writer, tape, observers, interrupts)
        self._began = time.monotonic()
        try:
            with no_imports():
                await self._unless_stalled(watch, batch.run(self.pending))
            await self._ask_rest(builder, interrupts)
            self.broken = tape.broken
            for message in self._last_notes(builder):
                _tell(observers, message)
        except StoreError as error:
            self.broken = error
        except asyncio.CancelledError:
            if not interrupts.stopping and self.stalled is None:
                writer.close("interrupted")
                raise
        except Exception as error:  # noqa: BLE001 - a bug of ours: what there is will be reported
            self.crashed = error
        except BaseException:
            writer.close("interrupted")
            raise
        finally:
            for observer in observers:
                observer.run_finished()
        self.interrupted = interrupts.stopping
        self._close(writer)
        return writer.path

    async def _unless_stalled(self, watch: RunWatch, work: Coroutine[Any, Any, None]) -> None:
        """Cancels the work, and this task with it, when the run is stalled."""
        task = asyncio.current_task()
        assert task is not None

        async def look() -> None:
            self.stalled = await watch.stalled()
            task.cancel()

        looking = asyncio.create_task(look())
        try:
            await work
        except asyncio.CancelledError:
            if self.stalled is not None:
                task.uncancel()
            raise
        finally:
            looking.cancel()

    def _writer(self) -> RunWriter:
        if self._run.record is not None:
            return RunWriter.open(self._run.record, redactor=self._run.redactor)
        prints = self._run.fingerprints()
        self._header = msgspec.structs.replace(self._header, fingerprints=prints)
        if self._run.settings.options.shard is not None:
            from steadyhand.compose.shards import shard_of

            made = Fingerprints(self._run.settings, self._run.redactor, self._run.registries)
            parts = {scenario.id: total(made.parts(scenario)) for scenario in self._run.unsharded}
            shard = shard_of(self._run.unsharded, self._run.settings, self._run.settings.options.shard, parts)
            self._header = msgspec.structs.replace(self._header, shard=shard)
        digests = {scenario_id: total(parts) for scenario_id, parts in prints.items()}
        entries = (
            PlanEntry(key=each.key, seed=each.seed, digest=digests[each.scenario.id]) for each in self._run.planned
        )
        return RunWriter.create(
            self._run.settings.out,
            self._header,
            entries,
            redactor=self._run.redactor,
            sources=_sources(self._run.scenarios),
        )

    def _batch(
        self, builder: Builder, writer: RunWriter, tape: Tape, observers: Sequence[RunObserver], interrupts: Stops
    ) -> Batch:
        decisions = self._run.decisions()

        pool = self._workers.pool if self._workers is not None else None
        resumed = self._run.record is not None

        def keep(trial: TrialRecord) -> TrialRecord:
            data = pool.encoded(trial.key) if pool is not None else None
            if resumed and writer.verdict(trial.key) is not None:
                kept = writer.append(self._with_replaced(trial))
            else:
                kept = writer.append(trial, data)
            if decisions is not None:
                decisions.add(kept.key, kept.judged.verdict)
            return kept

        def stopping() -> bool:
            failed = self._without_workers is not None
            return interrupts.stopping or failed or tape.broken is not None or not self._run.budget.may_start()

        return Batch(
            self._executor(builder, interrupts),
            keep=keep,
            observers=observers,
            stopping=stopping,
            wanted=decisions.wants if decisions is not None else None,
        )

    def _executor(self, builder: Builder, interrupts: Stops) -> Executor:
        """The executor: workers or this process; it runs trials, or judges stored ones again."""
        executor: Executor = InProcess(self._performing(builder), places=self._run.settings.concurrency)
        if self._workers is not None:
            executor = self._workers.pool
        canaries, prices = self._canaries, Prices.of_run(self._header)
        if canaries is None:
            return executor

        async def before() -> None:
            if not interrupts.stopping:
                await canaries.before_trial(builder, prices)

        return PrecededExecutor(executor, before)

    def _performing(self, builder: Builder) -> Perform:
        origin = self._run.origin
        if origin is None:
            return trial_runner(builder.build)

        async def perform(planned: PlannedTrial) -> TrialRecord:
            from steadyhand.engine.rejudgement import rejudge

            stored = origin.trial(planned.key)
            return await rejudge(lambda each: builder.build_stored(planned.scenario, each), stored, origin=origin.id)

        return perform

    def _with_replaced(self, trial: TrialRecord) -> TrialRecord:
        """The trial, with the one it replaces, whose cost counts too."""
        assert self._run.record is not None
        before = RunReader.open(self._run.record).trial(trial.key)
        if before is None:
            return trial
        replaced = (*before.replaced, msgspec.structs.replace(before, replaced=()))
        return msgspec.structs.replace(trial, replaced=replaced)

    @property
    def _without_workers(self) -> str | None:
        """Why no worker can run another trial; None while one can, and for a run of one process."""
        return self._workers.pool.failure if self._workers is not None else None

    async def _ask_rest(self, builder: Builder, interrupts: Stops) -> None:
        if self._canaries is not None and not interrupts.stopping:
            await self._canaries.rest(builder, Prices.of_run(self._header))

    def _last_notes(self, builder: Builder) -> list[str]:
        notes = [f"{trial}: {_late(count)} after the trial had ended, refused" for trial, count in builder.late.items()]
        if self._run.budget.exhausted is not None:
            notes.append(f"{self._run.budget.exhausted}; no more trials were started")
        if (failure := self._without_workers) is not None:
            notes.append(f"{failure}; no more trials were started")
        return notes

    def _close(self, writer: RunWriter) -> None:
        cut_short = (
            self.interrupted
            or self.stalled is not None
            or self.broken is not None
            or self.crashed is not None
            or self._run.budget.exhausted is not None
            or self._without_workers is not None
        ) or (self._run.origin is not None and not self._run.origin.complete)
        took_ms = self._header.took_ms + (time.monotonic() - self._began) * 1000
        header = self._header = msgspec.structs.replace(self._header, took_ms=took_ms)
        if self._canaries is not None:
            header = self._header = msgspec.structs.replace(self._header, canaries=self._canaries.tally())
        try:
            writer.close("interrupted" if cut_short else "finished", header=header)
        except StoreError as error:
            self.broken = self.broken or error


def _unattended(note: Callable[[str], None]) -> AbstractContextManager[Stops]:
    return nullcontext(_NeverStops())


class _NeverStops:
    stopping: bool = False


def _tell(observers: Sequence[RunObserver], message: str) -> None:
    for observer in observers:
        observer.noted(message)


def _late(count: int) -> str:
    return "1 request reached the gateway" if count == 1 else f"{count} requests reached the gateway"


_MOST_SOURCES = 8 * 1024 * 1024


def _sources(scenarios: Sequence[Scenario]) -> dict[str, str]:
    """The text of the files that the scenarios and their checks were read from, up to a size limit."""
    places = {scenario.place.file: None for scenario in scenarios}
    places.update((spec.place.file, None) for scenario in scenarios for spec in evaluation_specs(scenario))
    found: dict[str, str] = {}
    room = _MOST_SOURCES
    for file in places:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, ValueError):  # made in Python, or gone meanwhile
            continue
        room -= len(text)
        if room < 0:
            break
        found[file] = text
    return found
