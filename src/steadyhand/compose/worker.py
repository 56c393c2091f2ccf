"""A worker: runs the trials that the driver assigns to it, and reports the results.

It loads the same files as the driver and builds trials in the same way. The driver enforces all limits: model calls
request permits from it, and their cost is reported to it.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime

import msgspec

from steadyhand.batch.local import perform_contained, trial_runner
from steadyhand.batch.messages import BackOff, CallEnd, FinishedTrial, LeaveRequest, Order, Orders, Report, WorkerSetup
from steadyhand.batch.permits import RemoteGate
from steadyhand.compose.builder import Builder
from steadyhand.compose.execution import budget_of, builder_of
from steadyhand.compose.fingerprint import total
from steadyhand.compose.models import build_gate
from steadyhand.compose.run import Run
from steadyhand.compose.settings import restore_options
from steadyhand.engine.limits import LagMonitor, SpendingLimit, SystemClock
from steadyhand.errors import SetupError
from steadyhand.judging.cost import Prices
from steadyhand.records.event import AnyEvent, ModelCalled
from steadyhand.records.run import PlannedTrial, RanOn, TrialKey, TrialRecord, brief_of, error_in_place_of
from steadyhand.records.scenario import Scenario
from steadyhand.store import schema
from steadyhand.store.writer import written
from steadyhand.version import __version__

_GATHER_S = 0.004
_HEARTBEAT_S = 1.0
_LARGEST = 32 * 2**20


class _Spending(SpendingLimit):
    """Reports spending to the driver, which enforces the budget."""

    def __init__(self, prices: Prices, report: Callable[[ModelCalled], None]) -> None:
        super().__init__(prices)
        self._report = report

    @property
    def limited(self) -> bool:
        return True

    def emit(self, event: AnyEvent) -> None:
        if isinstance(event, ModelCalled):
            self._report(event)


class Worker:
    """Made in the event loop that it runs in. `send` takes a report to the driver and must not block."""

    def __init__(self, setup: WorkerSetup, run: Run, send: Callable[[Report], None], *, node: str = "") -> None:
        self._setup = setup
        self._run = run
        self._send = send
        self._scenarios: dict[str, Scenario] = {scenario.id: scenario for scenario in run.scenarios}
        self._waiting: deque[Order] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._report: Report | None = None
        self._flush_timer: asyncio.TimerHandle | None = None
        self._heartbeat: asyncio.TimerHandle | None = None
        self._hurried: bool = False
        self._lag_ms: float | None = None
        self._closing: bool = False
        self._clock_ms: float = 0.0
        self._dictionary: bytes = b""
        self._dictionary_id: int | None = None
        self._node: str = node or socket.gethostname()
        self._stack = ExitStack()
        self._lag: LagMonitor = self._stack.enter_context(LagMonitor())
        self._gate: RemoteGate = RemoteGate(
            build_gate(run.providers, run.settings, lambda _: None),
            SystemClock(),
            free=setup.free,
            ask=self._ask,
            end=self._end,
            wait=self._back_off,
            share=min(1.0, setup.places / setup.concurrency),
        )
        budget = _Spending(Prices.of_run(run.header), self._spent) if setup.counts_spending else budget_of(run)
        self._builder: Builder = builder_of(run, self._lag, self._gate, budget)
        self._running = trial_runner(self._builder.build)

    def open(self) -> None:
        """Build once what all trials need. Raises `UsageError`."""
        self._builder.prepare(self._run.scenarios)
        self._soon().notes.extend([*self._builder.out_of_reach(), *self._builder.notices])
        self._lag.reset()
        self._beat()

    def take(self, orders: Orders) -> None:
        self._clock_ms = round((datetime.now(UTC).timestamp() - orders.now) * 1000.0, 1)
        if orders.dictionary:
            self._dictionary, self._dictionary_id = orders.dictionary, schema.dictionary_id(orders.dictionary)
        for number, reason, blamed_s in orders.granted:
            self._gate.granted(number, reason, blamed_s)
        for number, error in orders.refused:
            self._gate.refused(number, error)
        self._waiting.extend(orders.trials)
        while self._waiting and len(self._tasks) < self._setup.places:
            self._begin(self._waiting.popleft())

    async def close(self) -> None:
        """Cancel running trials, tear them down, and release all resources. Safe to call twice."""
        if self._closing:
            return
        self._closing = True
        self._waiting.clear()
        for timer in (self._heartbeat, self._flush_timer):
            if timer is not None:
                timer.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._builder.close()
        self._stack.close()

    def _begin(self, order: Order) -> None:
        task = asyncio.get_running_loop().create_task(self._perform(order))
        self._tasks.add(task)
        task.add_done_callback(self._trial_ended)

    def _trial_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved only to avoid a warning: our exit tells the driver
        if self._waiting and not self._closing:
            self._begin(self._waiting.popleft())
        elif not self._tasks and self._report is not None:
            self._flush()

    async def _perform(self, order: Order) -> None:
        planned = PlannedTrial(
            scenario=self._scenarios[order.scenario_id],
            key=TrialKey(scenario_id=order.scenario_id, index=order.index),
            seed=order.seed,
            mock_seed=order.mock_seed,
        )
        began = time.perf_counter()
        record = await perform_contained(self._running, planned, lambda: self._closing)
        lag_ms = round(self._lag.worst_ms(began, time.perf_counter()), 1)
        ran_on = RanOn(worker=self._setup.name, node=self._node, lag_ms=lag_ms, clock_ms=self._clock_ms)
        done = self._finished(order.number, msgspec.structs.replace(record, ran_on=ran_on))
        self._soon().finished.append(done)

    def _finished(self, number: int, record: TrialRecord) -> FinishedTrial:
        """Encoded once, for the file."""
        record, data = self._written(record)
        if not self._setup.trusted:
            return FinishedTrial(number, data)
        _, brief = schema.encode(brief_of(record))
        if not self._dictionary:
            return FinishedTrial(number, data, None, brief)
        return FinishedTrial(number, schema.compress(data, self._dictionary), self._dictionary_id, brief)

    def _written(self, record: TrialRecord) -> tuple[TrialRecord, bytes]:
        """Redacted here, because only this machine knows its own secrets."""
        record, data = written(record, self._run.redactor)
        if len(data) > _LARGEST:
            reason = f"the trial cannot be recorded: {len(data):,} bytes; a worker sends at most {_LARGEST:,}"
            in_place = msgspec.structs.replace(error_in_place_of(record, reason), ran_on=record.ran_on)
            return written(in_place, self._run.redactor)
        return record, data

    def _ask(self, ask: LeaveRequest) -> None:
        self._at_once().asks.append(ask)

    def _end(self, end: CallEnd) -> None:
        self._at_once().ends.append(end)

    def _back_off(self, wait: BackOff) -> None:
        self._at_once().back_offs.append(wait)

    def _spent(self, event: ModelCalled) -> None:
        slim = msgspec.structs.replace(event, text=None, tool_calls=())
        self._at_once().spent.append(msgspec.msgpack.encode(slim))

    def _beat(self) -> None:
        self._lag_ms = round(self._lag.recent_worst_ms(), 1)
        self._soon()
        self._heartbeat = asyncio.get_running_loop().call_later(_HEARTBEAT_S, self._beat)

    def _soon(self) -> Report:
        """The next report, sent after a few milliseconds, so that a busy worker reports several trials at once."""
        if self._report is None:
            self._report = Report(finished=[], asks=[], ends=[], spent=[], back_offs=[], notes=[])
            self._flush_timer = asyncio.get_running_loop().call_later(_GATHER_S, self._flush)
        return self._report

    def _at_once(self) -> Report:
        """The next report, sent when all ready tasks have run."""
        report = self._soon()
        if not self._hurried:
            self._hurried = True
            asyncio.get_running_loop().call_soon(self._flush)
        return report

    def _flush(self) -> None:
        report, self._report = self._report, None
        self._hurried = False
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        if report is not None:
            lag_ms, self._lag_ms = self._lag_ms, None
            self._send(msgspec.structs.replace(report, lag_ms=lag_ms))


def load_run(setup: WorkerSetup) -> Run:
    """Load what the driver loaded, from its files or from copies of them.

    Raises `UsageError`, also if the files here define different trials than the driver's.
    """
    if setup.version != __version__:
        raise SetupError(
            f"the driver is Steadyhand {setup.version}, this worker is {__version__}; install the same version"
        )
    _, selection, options = restore_options(setup.saved)
    run = Run(selection, msgspec.structs.replace(options, trust=setup.trust))
    if setup.digests:
        found = {scenario_id: total(parts) for scenario_id, parts in run.fingerprints().items()}
        for scenario_id, digest in setup.digests.items():
            if found.get(scenario_id) != digest:
                raise SetupError(
                    f"{scenario_id} is not the same here as where the run was started: a file or setting differs"
                )
    return run
