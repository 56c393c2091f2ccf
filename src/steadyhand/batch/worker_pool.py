"""The workers of a run, local or remote: which worker runs which trial, and what happens if a worker is lost."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from steadyhand.batch.messages import FinishedTrial, Order, Orders, Report
from steadyhand.batch.permits import PermitDesk
from steadyhand.batch.provider import ProviderGate
from steadyhand.children.channel import RemoteError
from steadyhand.errors import SetupError, StoreError, TrialError
from steadyhand.records.event import AnyEvent
from steadyhand.records.run import PlannedTrial, TrialKey, TrialRecord
from steadyhand.store.schema import EncodedTrial, decode

MOST_LOSSES = 3
"""A trial that was running each time this many workers were lost is not retried: it may be what kills them."""

_SUSPECTS = 16
"""Of the trials that a worker runs at once, one in this many may be on its last attempt, so that a trial that kills
workers takes few others with it."""

_AHEAD_S = 0.02
_LONG_S = 0.5
_MOST_AHEAD = 64
_SMOOTHING = 0.3
_ENDING_S = 10.0
_PATIENCE_S = 10.0
_LOOK_S = 5.0
SILENT_LOOKS = 6
"""After so many looks, a silent worker is replaced. A count, not a time: if the driver itself was stopped, it has yet
to read what workers sent meanwhile."""

_event = msgspec.msgpack.Decoder(AnyEvent)


class StartFailed(SetupError):
    """This worker could not be started; another attempt may succeed, on another machine or a moment later."""


class Link(Protocol):
    """The connection to a worker."""

    @property
    def name(self) -> str: ...

    def send(self, orders: Orders) -> None:
        """Must not block. If the message cannot be sent, the worker is lost, which is reported separately."""
        ...

    async def close(self, within_s: float) -> None:
        """Ask the worker to stop, and kill it after the grace period."""
        ...


class Launch(Protocol):
    async def __call__(
        self, number: int, places: int, hear: Callable[[Report], None], lost: Callable[[str], None]
    ) -> Link:
        """Start a worker that runs this many trials at once, and wait until it is ready.

        `hear` receives its reports, and `lost` is called once, with the reason, when the worker is gone. Raises
        `SetupError`, or `StartFailed` if it is worth another try.
        """
        ...


class _Job:
    __slots__ = ("done", "given_at", "losses", "number", "planned")

    def __init__(self, number: int, planned: PlannedTrial, done: asyncio.Future[FinishedTrial]) -> None:
        self.number: int = number
        self.planned: PlannedTrial = planned
        self.done: asyncio.Future[FinishedTrial] = done
        self.losses: int = 0
        self.given_at: float = 0.0

    @property
    def suspected(self) -> bool:
        return self.losses == MOST_LOSSES - 1


class _Worker:
    """One worker. Everything sent to it in one iteration of the event loop goes in one message."""

    def __init__(self, number: int, places: int, gate: ProviderGate, now: Callable[[], float]) -> None:
        self.number: int = number
        self.places: int = places
        self.ahead: int = 0
        self.link: Link | None = None
        self.jobs: dict[int, _Job] = {}
        self.suspects: int = 0
        self.silent_looks: int = 0
        self.desk: PermitDesk = PermitDesk(gate, self)
        self.lag_ms: float = 0.0
        self._now = now
        self._orders: Orders | None = None
        self._trial_s: float | None = None
        self._dictionary: bytes = b""

    @property
    def room(self) -> int:
        return 0 if self.link is None else self.places + self.ahead - len(self.jobs)

    @property
    def room_for_suspects(self) -> int:
        return min(self.room, max(1, self.places // _SUSPECTS) - self.suspects)

    def grant(self, number: int, reason: str, blamed_s: float) -> None:
        self._next().granted.append((number, reason, blamed_s))

    def refuse(self, number: int, error: RemoteError) -> None:
        self._next().refused.append((number, error))

    def order(self, job: _Job) -> None:
        planned = job.planned
        self.jobs[job.number] = job
        self.suspects += job.suspected
        job.given_at = self._now()
        order = Order(
            number=job.number,
            scenario_id=planned.key.scenario_id,
            index=planned.key.index,
            seed=planned.seed,
            mock_seed=planned.mock_seed,
        )
        self._next().trials.append(order)

    def share(self, dictionary: bytes) -> None:
        """It goes along with the next orders."""
        self._dictionary = dictionary

    def take_back(self, number: int) -> _Job | None:
        job = self.jobs.pop(number, None)
        if job is not None:
            self.suspects -= job.suspected
        return job

    def set_prefetch(self, jobs: Sequence[_Job]) -> None:
        """A worker that finishes many trials per round trip gets a few more than it can run at once, so that it is
        never idle. One whose trials take long does not, because assigned trials cannot be taken back.

        What counts is how long trials take, not how many end together: after a slow answer, thousands may.
        """
        now = self._now()
        trial_s = max(sum(now - job.given_at for job in jobs) / len(jobs), 1e-6)
        before_s = trial_s if self._trial_s is None else self._trial_s
        self._trial_s = before_s + _SMOOTHING * (trial_s - before_s)
        ahead = 0 if self._trial_s > _LONG_S else int((self.places + self.ahead) / self._trial_s * _AHEAD_S)
        self.ahead = min(_MOST_AHEAD, ahead)

    def _next(self) -> Orders:
        if self._orders is None:
            now = datetime.now(UTC).timestamp()
            dictionary, self._dictionary = self._dictionary, b""
            self._orders = Orders(trials=[], granted=[], refused=[], now=now, dictionary=dictionary)
            asyncio.get_running_loop().call_soon(self._flush)
        return self._orders

    def _flush(self) -> None:
        orders, self._orders = self._orders, None
        if orders is not None and self.link is not None:
            self.link.send(orders)


class PoolSize(NamedTuple):
    """The number of workers, and the number of trials in flight across all of them. If the number of workers is
    `elastic`, the run starts with the first one. `ahead` allows assigning a worker a few more trials than it runs at
    once, which a run that may have to stop after any trial must not do."""

    workers: int
    concurrency: int
    elastic: bool = False
    ahead: bool = True


class WorkerPool:
    """Implements `Executor` with workers that `launch` starts. A lost worker is replaced, and its trials are rerun.

    `trusted` means that the workers know the driver's secrets, so their encoded records can be stored unchanged.
    `spent` receives the model calls of a run with a budget, `note` messages for the user.
    """

    def __init__(
        self,
        launch: Launch,
        size: PoolSize,
        *,
        trusted: bool = True,
        gate: ProviderGate,
        spent: Callable[[AnyEvent], None],
        note: Callable[[str], None],
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._launch = launch
        self._size = size
        self._trusted = trusted
        self._share: int = math.ceil(size.concurrency / size.workers)
        self._gate = gate
        self._spent = spent
        self._note = note
        self._now = now
        self._workers: dict[int, _Worker] = {}
        self._starting: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._waiting: deque[_Job] = deque()
        self._suspects: deque[_Job] = deque()
        self._dealing: bool = False
        self._numbers = itertools.count(1)
        self._worker_numbers = itertools.count(1)
        self._closing: bool = False
        self._timer: asyncio.TimerHandle | None = None
        self._encoded: dict[TrialKey, EncodedTrial] = {}
        self._dictionary: bytes = b""
        self.places: int = size.concurrency
        self.failure: str | None = None
        """Why no more trials can be run; None while they can."""

    async def open(self) -> None:
        """Wait for all workers, or for the first if their number is elastic; the others join when they are ready.

        If one cannot start, `close` must still be called. Raises `SetupError`.
        """
        tasks = [self._begin(self._start(next(self._worker_numbers))) for _ in range(self._size.workers)]
        when = asyncio.FIRST_COMPLETED if self._size.elastic else asyncio.ALL_COMPLETED
        done, _ = await asyncio.wait(tasks, return_when=when, timeout=_PATIENCE_S)
        if not done:
            self._note("no worker is ready yet; if the cluster has no room for one, it has to grow first")
            done, _ = await asyncio.wait(tasks, return_when=when)
        for task in done:
            task.result()
        self._keep_looking()

    def _begin(self, starting: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(starting)
        self._starting.add(task)
        task.add_done_callback(self._begun)
        return task

    def _begun(self, task: asyncio.Task[None]) -> None:
        """A worker is ready, or failed to start, which matters if no other worker is left."""
        self._starting.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is None or self._closing:
            return
        if self._workers or self._starting:
            self._note(f"a worker could not be started; the run continues with the others: {error}")
            return
        self.failure = f"no workers are left, and none could be started: {error}"
        for jobs in (self._suspects, self._waiting):
            for job in jobs:
                if not job.done.done():
                    job.done.set_exception(TrialError(self.failure))
            jobs.clear()

    @property
    def lag_ms(self) -> float:
        """The worst recent state of any worker."""
        return max((worker.lag_ms for worker in list(self._workers.values())), default=0.0)

    async def perform(self, planned: PlannedTrial) -> TrialRecord:
        if self.failure is not None:
            raise TrialError(self.failure)
        job = _Job(next(self._numbers), planned, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        self._deal_soon()
        return self._decoded(planned, await job.done)

    def _decoded(self, planned: PlannedTrial, done: FinishedTrial) -> TrialRecord:
        """Its brief, or the whole record from a worker that sends none. Decoded when it is about to be kept: a record
        that is used and freed at once costs half as much as one that waits among hundreds of others."""
        try:
            record = decode(done.brief or done.data)
        except StoreError as error:
            raise TrialError(f"the worker's message cannot be read: {error}") from error
        if record.key != planned.key:
            raise TrialError(f"the worker sent the record of {record.key} for {planned.key}")
        if self._trusted:
            self._encoded[record.key] = EncodedTrial(done.data, done.dictionary)
        return record

    def share(self, dictionary: bytes) -> None:
        """Tell the workers what the file's records are compressed with. The first call counts."""
        if not self._dictionary and self._trusted:
            self._dictionary = dictionary
            for worker in self._workers.values():
                worker.share(dictionary)

    def encoded(self, key: TrialKey) -> EncodedTrial | None:
        """The worker's encoded record of a trial, available once, after `perform` has returned."""
        return self._encoded.pop(key, None)

    async def close(self) -> None:
        """Stop all workers and whatever they are still doing. Safe to call twice."""
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._starting):
            task.cancel()
        links = [worker.link for worker in self._workers.values() if worker.link is not None]
        async with asyncio.TaskGroup() as group:
            for link in links:
                group.create_task(link.close(_ENDING_S))
        if self._ending:
            await asyncio.wait(self._ending)
        for worker in self._workers.values():
            worker.desk.close()
        self._workers.clear()

    async def _start(self, number: int) -> None:
        worker = _Worker(number, self._share, self._gate, self._now)
        gone = False

        def lost(reason: str) -> None:
            nonlocal gone
            gone = True
            if worker.link is not None:
                self._worker_lost(worker, reason, worker.link.name)

        link = await self._launched(number, lambda report: self._hear(worker, report), lost)
        if self._closing or gone:
            await link.close(0.0)
            return
        worker.link = link
        worker.share(self._dictionary)
        self._workers[number] = worker
        self._deal_soon()

    async def _launched(self, number: int, hear: Callable[[Report], None], lost: Callable[[str], None]) -> Link:
        for _ in range(MOST_LOSSES - 1):
            try:
                return await self._launch(number, self._share, hear, lost)
            except StartFailed as error:
                self._note(f"{error}; starting it again")
        return await self._launch(number, self._share, hear, lost)

    def look(self) -> None:
        """Replace the workers that have been silent for long, stopped or stuck; a healthy one reports every second."""
        for worker in self._workers.values():
            worker.silent_looks += 1
            if worker.silent_looks >= SILENT_LOOKS and worker.link is not None:
                link, worker.link = worker.link, None
                task = asyncio.get_running_loop().create_task(self._replace(worker, link))
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)

    async def _replace(self, worker: _Worker, link: Link) -> None:
        """It is killed first: if it went on after its trials were given to others, they would run twice."""
        try:
            await link.close(0.0)
        finally:
            self._worker_lost(worker, f"it was silent for {SILENT_LOOKS * _LOOK_S:.0f} s, and was killed", link.name)

    def _keep_looking(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look_again)

    def _look_again(self) -> None:
        self.look()
        self._keep_looking()

    def _deal_soon(self) -> None:
        """Hand out everything that is requested in one iteration of the event loop together: looking for room costs as
        much for one trial as for many."""
        if not self._dealing:
            self._dealing = True
            asyncio.get_running_loop().call_soon(self._deal)

    def _deal(self) -> None:
        self._dealing = False
        self._deal_out(self._suspects, lambda worker: worker.room_for_suspects)
        self._deal_out(self._waiting, lambda worker: worker.room)

    def _deal_out(self, jobs: deque[_Job], room: Callable[[_Worker], int]) -> None:
        """Each trial goes to the worker with the most room."""
        if not jobs:
            return
        most_first = [(-free, worker.number) for worker in self._workers.values() if (free := room(worker)) > 0]
        heapq.heapify(most_first)
        while jobs and most_first:
            job = jobs.popleft()
            if job.done.done():
                continue
            worker = self._workers[most_first[0][1]]
            worker.order(job)
            if (free := room(worker)) > 0:
                heapq.heapreplace(most_first, (-free, worker.number))
            else:
                heapq.heappop(most_first)

    def _hear(self, worker: _Worker, report: Report) -> None:
        """A record counts only if it comes from the worker that the trial is assigned to, so no trial counts twice."""
        worker.silent_looks = 0
        if report.lag_ms is not None:
            worker.lag_ms = report.lag_ms
        for note in report.notes:
            self._note(note)
        for event in report.spent:
            self._spent(_event.decode(event))
        for ask in report.asks:
            worker.desk.ask(ask)
        for end in report.ends:
            worker.desk.end(end)
        for wait in report.back_offs:
            worker.desk.back_off(wait)
        ended: list[_Job] = []
        for done in report.finished:
            job = worker.take_back(done.number)
            if job is not None and not job.done.done():
                job.done.set_result(done)
                ended.append(job)
        if ended:
            if self._size.ahead:
                worker.set_prefetch(ended)
                self._count_places()
            self._deal_soon()

    def _worker_lost(self, worker: _Worker, reason: str, name: str) -> None:
        if self._workers.pop(worker.number, None) is None or self._closing:
            return
        worker.desk.close()
        again = [job for job in worker.jobs.values() if not job.done.done()]
        worker.jobs.clear()
        worker.link = None
        lost = f"{name} was lost: {reason}"
        self._note(f"{lost}; {len(again)} trials will be rerun by other workers" if again else lost)
        for job in reversed(again):
            job.losses += 1
            if job.losses >= MOST_LOSSES:
                job.done.set_exception(
                    TrialError(f"{MOST_LOSSES} workers were lost while running this trial, most recently: {lost}")
                )
            else:
                (self._suspects if job.suspected else self._waiting).appendleft(job)
        self._count_places()
        self._begin(self._start(next(self._worker_numbers)))
        self._deal_soon()

    def _count_places(self) -> None:
        self.places = self._size.concurrency + sum(worker.ahead for worker in self._workers.values())
