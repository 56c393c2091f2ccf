"""Permits for the model calls of workers: a provider's limits, pauses and outages apply to the whole run, not to a
process.

A worker requests permits in batches, and the driver grants in batches. Nothing is granted in advance, so no limit is
exceeded by a permit that is used later. Each worker spaces its own starts, because the spacing protects its own event
loop.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable, Collection, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from typing import Protocol, Self

from steadyhand.batch.limits import OPENING_S, SPACING_S, Pace
from steadyhand.batch.messages import BackOff, CallEnd, LeaveRequest
from steadyhand.batch.provider import ProviderAdmission, ProviderGate, expected_tokens, provider_of
from steadyhand.children.channel import RemoteError, raised, remote_error
from steadyhand.errors import ModelError
from steadyhand.ports.model import Admission, Clock, Gate
from steadyhand.records.chat import ChatRequest, ChatResponse


class Applicant(Protocol):
    """A worker, as seen by the driver."""

    def grant(self, number: int, reason: str, blamed_s: float) -> None: ...

    def refuse(self, number: int, error: RemoteError) -> None: ...


class PermitDesk:
    """The driver's side of the permits for one worker."""

    def __init__(self, gate: ProviderGate, applicant: Applicant) -> None:
        self._gate = gate
        self._applicant = applicant
        self._held: dict[int, ProviderAdmission] = {}
        self._queued: dict[int, asyncio.Task[None]] = {}
        self._waits: dict[int, AbstractContextManager[None]] = {}

    def ask(self, ask: LeaveRequest) -> None:
        admission = self._gate.admit_amount(ask.model, ask.amount, ask.patience_s)
        try:
            if admission.at_once():
                self._held[ask.number] = admission
                self._applicant.grant(ask.number, "", 0.0)
                return
        except ModelError as error:
            self._applicant.refuse(ask.number, remote_error(error))
            return
        task = asyncio.get_running_loop().create_task(self._queue(ask.number, admission))
        self._queued[ask.number] = task
        task.add_done_callback(lambda _: self._queued.pop(ask.number, None))

    async def _queue(self, number: int, admission: ProviderAdmission) -> None:
        try:
            await admission.__aenter__()
        except ModelError as error:
            self._applicant.refuse(number, remote_error(error))
            return
        self._held[number] = admission
        self._applicant.grant(number, admission.reason, admission.blamed_s)

    def end(self, end: CallEnd) -> None:
        if (task := self._queued.get(end.number)) is not None:
            task.cancel()
        admission = self._held.pop(end.number, None)
        if admission is None:
            return
        if end.error is not None:
            error = raised(end.error)
            if isinstance(error, ModelError):
                admission.failed(error)
        elif end.answered:
            admission.answered(end.used)
        admission.leave()

    def back_off(self, wait: BackOff) -> None:
        if wait.error is None:
            waiting = self._waits.pop(wait.number, None)
            if waiting is not None:
                waiting.__exit__(None, None, None)
            return
        error = raised(wait.error)
        if isinstance(error, ModelError):
            waiting = self._waits[wait.number] = self._gate.backing_off(wait.model, error, wait.seconds)
            waiting.__enter__()

    def close(self) -> None:
        """The worker is gone; release the permits of its calls."""
        for task in list(self._queued.values()):
            task.cancel()
        for admission in self._held.values():
            admission.leave()
        for waiting in self._waits.values():
            waiting.__exit__(None, None, None)
        self._held.clear()
        self._waits.clear()


class _Starts:
    """When the calls of this process to one provider start: some time apart, and longer while connections are opened,
    so that the first are timed as well as the rest and all workers together open no more than one process would.

    That longer wait comes before a permit is requested. A permit that is used long after it was granted would let more
    calls into a minute than its limit.
    """

    def __init__(self, clock: Clock, opening_s: float) -> None:
        self._clock = clock
        self._opening: Pace = Pace(opening_s)
        self._pace: Pace = Pace(SPACING_S)
        self._active: int = 0
        self._most: int = 0

    async def before_leave(self) -> None:
        if self._active >= self._most:
            await self._wait(self._opening, 1)

    async def after_leave(self) -> None:
        await self._wait(self._pace, max(1, self._most))
        self._active += 1
        self._most = max(self._most, self._active)

    def answered(self, latency_ms: float | None) -> None:
        self._pace.answered(latency_ms)

    def ended(self) -> None:
        self._active -= 1

    async def _wait(self, pace: Pace, in_flight: int) -> None:
        wait_s = pace.wait_s(self._clock.now(), in_flight=in_flight)
        if wait_s > 0:
            await self._clock.sleep(wait_s)


class RemoteGate:
    """Implements `Gate` in a worker. `free` are the providers that `own` handles without the driver; `share` is the
    worker's part of the run's trials, and so of the connections that are opened per second."""

    def __init__(
        self,
        own: Gate,
        clock: Clock,
        *,
        free: Collection[str],
        ask: Callable[[LeaveRequest], None],
        end: Callable[[CallEnd], None],
        wait: Callable[[BackOff], None],
        share: float = 1.0,
    ) -> None:
        self._own = own
        self._free = frozenset(free)
        self._is_free: dict[str, bool] = {}
        self._starts: dict[str, _Starts] = {}
        self._numbers = itertools.count(1)
        self._wait = wait
        self._opening_s: float = OPENING_S / share
        self.clock: Clock = clock
        self.send_ask = ask
        self.send_end = end
        self.asked: dict[int, asyncio.Future[tuple[str, float]]] = {}

    def admit(
        self, model: str, request: ChatRequest, *, patience_s: float = math.inf
    ) -> AbstractAsyncContextManager[Admission]:
        if self._leaves_alone(model):
            return self._own.admit(model, request, patience_s=patience_s)
        starts = self._starts.setdefault(provider_of(model), _Starts(self.clock, self._opening_s))
        amount = expected_tokens(request)
        ask = LeaveRequest(number=next(self._numbers), model=model, amount=amount, patience_s=patience_s)
        return _RemoteAdmission(self, ask, starts)

    @contextmanager
    def backing_off(self, model: str, error: ModelError, seconds: float) -> Generator[None]:
        if self._leaves_alone(model):
            yield
            return
        number = next(self._numbers)
        self._wait(BackOff(number=number, model=model, seconds=seconds, error=remote_error(error)))
        try:
            yield
        finally:
            self._wait(BackOff(number=number))

    def granted(self, number: int, reason: str, blamed_s: float) -> None:
        if (waiting := self.asked.get(number)) is not None and not waiting.done():
            waiting.set_result((reason, blamed_s))

    def refused(self, number: int, error: RemoteError) -> None:
        if (waiting := self.asked.get(number)) is not None and not waiting.done():
            waiting.set_exception(raised(error))

    def _leaves_alone(self, model: str) -> bool:
        known = self._is_free.get(model)
        if known is None:
            known = self._is_free[model] = provider_of(model) in self._free
        return known


class _RemoteAdmission:
    """Implements `Admission` with a permit from the driver."""

    __slots__ = ("_ask", "_end", "_gate", "_starts", "blamed_s", "reason")

    def __init__(self, gate: RemoteGate, ask: LeaveRequest, starts: _Starts) -> None:
        self._gate = gate
        self._ask = ask
        self._starts = starts
        self._end: CallEnd = CallEnd(number=ask.number)
        self.blamed_s: float = 0.0
        self.reason: str = ""

    async def __aenter__(self) -> Self:
        gate, number = self._gate, self._ask.number
        await self._starts.before_leave()
        waiting = gate.asked[number] = asyncio.get_running_loop().create_future()
        gate.send_ask(self._ask)
        try:
            self.reason, self.blamed_s = await waiting
            await self._starts.after_leave()
        except BaseException:
            gate.send_end(self._end)
            raise
        finally:
            del gate.asked[number]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._starts.ended()
        self._gate.send_end(self._end)

    def succeeded(self, response: ChatResponse) -> None:
        usage = response.usage
        used = None if usage is None else usage.input_tokens + usage.output_tokens
        self._end = CallEnd(number=self._ask.number, answered=True, used=used)
        self._starts.answered(response.attempt.latency_ms)

    def failed(self, error: ModelError) -> None:
        self._end = CallEnd(number=self._ask.number, error=remote_error(error))
