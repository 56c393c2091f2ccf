"""Executes a run: runs every pending trial and records it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from steadyhand.batch.local import Batch, InProcess, Perform, PrecededExecutor, Remaining, trial_runner
from steadyhand.batch.plan import PlannedPart
from steadyhand.batch.provider import ProviderGate
from steadyhand.compose.builder import Builder, RunParts, no_doubts
from steadyhand.compose.fingerprint import total
from steadyhand.compose.isolation import clean_workspaces
from steadyhand.compose.models import Tape, build_gate
from steadyhand.compose.run import Run
from steadyhand.compose.run_watch import RunWatch
from steadyhand.engine.import_guard import VARIABLE, no_imports
from steadyhand.engine.limits import LagMonitor, SpendingLimit
from steadyhand.engine.model_call import OpenGate
from steadyhand.errors import SteadyhandError, StoreError
from steadyhand.judging.cost import Prices
from steadyhand.ports.executor import Executor
from steadyhand.ports.model import Gate
from steadyhand.ports.observer import RunObserver, reads_whole_trials
from steadyhand.records.config import RunOptions
from steadyhand.records.run import PlannedTrial, RunHeader, RunHealth, TrialRecord
from steadyhand.report.progress import RedactedProgress
from steadyhand.store.labels import read_labels
from steadyhand.store.reader import RunReader
from steadyhand.store.schema import PlanEntry, still_to_do
from steadyhand.store.writer import RunWriter

if TYPE_CHECKING:
    from steadyhand.children.nursery import Nursery
    from steadyhand.compose.calibration import Canaries
    from steadyhand.compose.executors import Workers


class Stops(Protocol):
    """Whether the run should stop."""

    @property
    def stopping(self) -> bool: ...


_LOOK_S = 0.1
_FEWEST = 1_000
"""With fewer trials, a run that nobody gave workers is not prepared for any: that would cost more than it gains."""

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
        self._nursery: Nursery | None = None
        self._workers_notes: dict[str, None] = {}
        self._budget: SpendingLimit = budget_of(run)
        if run.record is not None and self._budget.limited:
            self._budget.count_spent(RunReader.open(run.record).trials())

    def prepare_workers(self) -> None:
        """Workers then start in a moment. Only a caller that runs no event loop and no threads yet can do that."""
        run = self._run
        if not run.uses_workers and (len(run.pending) < _FEWEST or run.needs_network):
            return  # without importing what decides about workers
        from steadyhand.compose.auto_workers import may_add_workers
        from steadyhand.compose.executors import open_nursery

        if run.uses_workers or may_add_workers(run):
            self._nursery = open_nursery(run)

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
            if self._nursery is not None:
                self._nursery.close()

    @property
    def used_workers(self) -> bool:
        return self._workers is not None

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
        run = self._run

        def note(message: str) -> None:
            if message not in self._workers_notes:  # every worker finds what the others find
                self._workers_notes[message] = None
                _tell(observers, message)

        self._gate = build_gate(run.providers, run.settings, note, spaced=not run.uses_workers)
        with LagMonitor() as lag:
            self._lag = lag
            builder = builder_of(run, lag, self._gate, self._budget, tape)
            try:
                if run.origin is None:
                    builder.prepare(run.scenarios, runs_agents=not run.uses_workers)
                else:
                    builder.prepare_judging(run.scenarios)
                for message in (*run.notes, *run.settings.notes(run.scenarios), *run.cannot_pass()):
                    note(message)
                for message in builder.out_of_reach():
                    note(message)
                self._canaries = self._prepare_canaries(builder)
                with attend(note) as interrupts:
                    if run.uses_workers:
                        await self._open_workers(note, interrupts)
                    lag.reset()
                    return await self._record(builder, tape, observers, interrupts)
            finally:
                if self._workers is not None:
                    await asyncio.shield(self._workers.close())
                for problem in await builder.close():
                    _tell(observers, problem)
                if self._workers is not None:
                    clean_workspaces()  # of a worker that was killed

    async def _open_workers(self, note: Callable[[str], None], interrupts: Stops) -> None:
        """Raises `SetupError` when the workers cannot start, and `KeyboardInterrupt` if the run is interrupted first: a
        cluster may take minutes to make room for them."""
        from steadyhand.compose.executors import open_workers

        assert isinstance(self._gate, ProviderGate), "a replay runs in one process"
        opening = asyncio.ensure_future(open_workers(self._run, self._gate, self._budget, note, self._nursery))
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

    def _prepare_canaries(self, builder: Builder) -> Canaries | None:
        """Raises `UsageError` if the file is invalid."""
        run, file = self._run, self._run.settings.options.judge_canaries
        if file is None or self._header.canaries is not None:
            return None
        from steadyhand.compose.calibration import Canaries, Cases

        cases = Cases(run.settings, run.casts.registries, run.redactor)
        found = cases.of(read_labels(file), run.scenarios)
        canaries = Canaries(file, cases, found, trials=len(self.pending), seed=run.seed)
        known = {scenario.id for scenario in run.scenarios}
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
        self._began = time.monotonic()
        try:
            with no_imports() if os.environ.get(VARIABLE) else nullcontext():
                await self._unless_stalled(watch, self._run_trials(builder, writer, tape, observers, interrupts))
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

    async def _run_trials(
        self, builder: Builder, writer: RunWriter, tape: Tape, observers: Sequence[RunObserver], interrupts: Stops
    ) -> None:
        batch = self._batch(builder, writer, tape, observers, interrupts)
        if self._nursery is None or self._workers is not None:
            await batch.run(self.pending)
            return
        from steadyhand.compose.auto_workers import try_out

        def note(message: str) -> None:
            _tell(observers, message)

        remaining = Remaining(self.pending)
        tried = await try_out(batch, remaining, lambda: interrupts.stopping)
        note(str(tried))
        if tried.worth_workers and not interrupts.stopping:
            await self._open_workers(note, interrupts)
            batch = self._batch(builder, writer, tape, observers, interrupts)
        await batch.run(remaining)

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
        run = self._run
        if run.record is not None:
            return RunWriter.open(run.record, redactor=run.redactor, proved=run.proved)
        prints = run.fingerprints()
        self._header = msgspec.structs.replace(self._header, fingerprints=prints)
        if run.settings.options.shard is not None:
            from steadyhand.compose.shards import shard_of

            parts = {each: total(found) for each, found in run.fingerprints(run.unsharded).items()}
            shard = shard_of(run.unsharded, run.casts, run.settings.options.shard, parts)
            self._header = msgspec.structs.replace(self._header, shard=shard)
        digests = {scenario_id: total(parts) for scenario_id, parts in prints.items()}
        entries = (PlanEntry(key=each.key, seed=each.seed, digest=digests[each.scenario.id]) for each in run.planned)
        return RunWriter.create(run.settings.out, self._header, entries, redactor=run.redactor, sources=run.sources())

    def _batch(
        self, builder: Builder, writer: RunWriter, tape: Tape, observers: Sequence[RunObserver], interrupts: Stops
    ) -> Batch:
        decisions = self._run.decisions()

        pool = self._workers.pool if self._workers is not None else None
        resumed = self._run.record is not None
        whole = pool is not None and any(map(reads_whole_trials, observers))

        def keep(trial: TrialRecord) -> TrialRecord:
            encoded = pool.encoded(trial.key) if pool is not None else None
            replaces = resumed and writer.verdict(trial.key) is not None
            if encoded is not None and (whole or replaces):
                trial = writer.decoded(encoded)
            kept = writer.append(self._with_replaced(trial)) if replaces else writer.append(trial, encoded)
            if pool is not None:
                pool.share(writer.dictionary)
            if decisions is not None:
                decisions.add(kept.key, kept.judged.verdict)
            return kept

        def stopping() -> bool:
            failed = self._without_workers is not None
            return interrupts.stopping or failed or tape.broken is not None or not self._budget.may_start()

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
        if self._budget.exhausted is not None:
            notes.append(f"{self._budget.exhausted}; no more trials were started")
        if (failure := self._without_workers) is not None:
            notes.append(f"{failure}; no more trials were started")
        return notes

    def _close(self, writer: RunWriter) -> None:
        cut_short = (
            self.interrupted
            or self.stalled is not None
            or self.broken is not None
            or self.crashed is not None
            or self._budget.exhausted is not None
            or self._without_workers is not None
        ) or (self._run.origin is not None and self._run.origin.flaw is not None)
        took_ms = self._header.took_ms + (time.monotonic() - self._began) * 1000
        header = self._header = msgspec.structs.replace(self._header, took_ms=took_ms)
        if self._canaries is not None:
            header = self._header = msgspec.structs.replace(self._header, canaries=self._canaries.tally())
        try:
            writer.close("interrupted" if cut_short else "finished", header=header)
        except StoreError as error:
            self.broken = self.broken or error


def budget_of(run: Run) -> SpendingLimit:
    options = run.settings.options
    return SpendingLimit(Prices.of_run(run.header), max_cost=options.max_cost, max_tokens=options.max_tokens)


def builder_of(run: Run, lag: LagMonitor, gate: Gate, budget: SpendingLimit, tape: Tape | None = None) -> Builder:
    """What builds the trials of the run, here or in a worker."""
    doubts = no_doubts
    if run.settings.config.calibration.required:
        from steadyhand.compose.calibration import Doubts

        doubts = Doubts(run.casts, run.redactor).of
    tape = tape or Tape(RunOptions(), run.redactor)
    return Builder(RunParts(run.casts, clean_workspaces(), lag, gate, tape, budget, doubts))


def _unattended(note: Callable[[str], None]) -> AbstractContextManager[Stops]:
    return nullcontext(_NeverStops())


class _NeverStops:
    stopping: bool = False


def _tell(observers: Sequence[RunObserver], message: str) -> None:
    for observer in observers:
        observer.noted(message)


def _late(count: int) -> str:
    return "1 request reached the gateway" if count == 1 else f"{count} requests reached the gateway"
