"""A model call as a trial makes it: queued, tried, retried, timed, recorded.

The provider stamps one attempt at the socket; this module combines the attempts into a `CallTiming` and decides
whether the latency may be graded.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from inspect import isawaitable
from typing import TypeVar

import msgspec

from steadyhand.engine.limits import LagMonitor, WaitLedger
from steadyhand.errors import ModelError, PluginError, SteadyhandError
from steadyhand.ports.model import ChatModel, Clock, Gate
from steadyhand.records.base import Record, plain_fields, rounded_ms
from steadyhand.records.chat import (
    ArrivalClock,
    Attempt,
    CallTiming,
    ChatRequest,
    ChatResponse,
    Spoiled,
    SpoiledBy,
    ToolCall,
    Usage,
)
from steadyhand.records.config import default_of
from steadyhand.records.event import Lagged, ModelCalled, Noted, Retried, Waited
from steadyhand.user_file import raised

_NOTED_WAIT_MS = 1000.0
WAIT_LIMIT_S: float = default_of("wait_limit_s")
"""How long a trial waits for servers, unless configured."""
ODD_USAGE = "odd_usage"
"""The topic of the note that a server reported a number of tokens that nobody can have counted."""
T = TypeVar("T")


class RetryPolicy(Record):
    """Exponential back-off with jitter; a server's `Retry-After` takes precedence.

    A rate limit is not a failure: we wait it out, and it does not count towards `retries` unless that is 0.
    `patience_s` limits all waiting of a trial that servers cause. More lag than `lag_limit_ms` makes a latency
    ungradable.
    """

    retries: int = 2
    first_wait_s: float = 0.5
    longest_wait_s: float = 30.0
    patience_s: float = WAIT_LIMIT_S
    lag_limit_ms: float = 25.0

    def wait_s(self, retry: int, error: ModelError, generator: random.Random) -> float:
        if error.retry_after_s is not None:
            # Limits the rate if a server keeps saying "retry at once".
            return max(error.retry_after_s, min(0.01 * 2**retry, self.longest_wait_s))
        full = min(self.longest_wait_s, self.first_wait_s * 2**retry)
        return full * (0.5 + 0.5 * generator.random())

    def gives_up(self, error: ModelError, *, failures: int) -> bool:
        """Whether to stop, after `failures` that were not rate limits."""
        if not error.retryable or self.retries == 0:
            return True
        return error.kind != "rate_limit" and failures > self.retries


class OpenGate:
    """Lets every call through at once."""

    @asynccontextmanager
    async def admit(
        self, model: str, request: ChatRequest, *, patience_s: float = math.inf
    ) -> AsyncGenerator[OpenAdmission]:
        yield OpenAdmission()

    def backing_off(self, model: str, error: ModelError, seconds: float) -> AbstractContextManager[None]:
        return nullcontext()


class OpenAdmission:
    reason: str = ""
    blamed_s: float = 0.0

    def succeeded(self, response: ChatResponse) -> None: ...

    def failed(self, error: ModelError) -> None: ...


class _Queued:
    """How long a call has waited in the queue so far."""

    __slots__ = ("ms",)

    def __init__(self) -> None:
        self.ms: float = 0.0


class Caller:
    """Makes calls for one trial. `now_ms` gives the trial's time for events."""

    def __init__(
        self,
        *,
        policy: RetryPolicy,
        gate: Gate,
        clock: Clock,
        lag: LagMonitor | None,
        seed: int = 0,
        now_ms: Callable[[], float],
        emit: Callable[[ModelCalled | Retried | Waited | Lagged | Noted], None],
    ) -> None:
        self._policy = policy
        self._gate = gate
        self._clock = clock
        self._lag = lag
        self._seed = seed
        self._random: random.Random | None = None
        self._now_ms = now_ms
        self._emit = emit
        self._blamed_s: float = 0.0
        self._odd_usage: bool = False
        self.waits = WaitLedger()

    def detach(self) -> None:
        """Break the reference cycle with the trial, so that it is freed at once."""
        self._now_ms = float
        self._emit = _ignore

    async def call(self, model: ChatModel, request: ChatRequest) -> ChatResponse:
        """Raises the last `ModelError` if no attempt succeeded. The call is recorded as an event either way."""
        at_ms = self._now_ms()
        zero = time.perf_counter()
        attempts: list[Attempt] = []
        queued = _Queued()
        failures = 0
        while True:
            try:
                response = await self._try_once(model, request, zero, queued)
            except ModelError as error:
                attempts.append(error.attempt or _unsent(zero, error))
                failures += error.kind != "rate_limit"
                wait_s = self._wait_before_retry(error, len(attempts), failures)
                if wait_s is None:
                    spoiled = (Spoiled(kind=SpoiledBy.FAILED, detail="the call failed"),)
                    timing = CallTiming(queued_ms=round(queued.ms, 3), attempts=tuple(attempts), spoiled=spoiled)
                    self._emit(_event(model, request, at_ms, timing, error=str(error)))
                    raise
                await self._back_off(model, request, error, len(attempts), wait_s)
                attempts[-1] = msgspec.structs.replace(attempts[-1], backoff_ms=round(wait_s * 1000.0, 1))
                continue
            attempts.append(response.attempt)
            if response.tool_calls:
                calls = tuple([plain_fields(call) for call in response.tool_calls])
                response = msgspec.structs.replace(response, tool_calls=calls)
            timing = self._timing(response, tuple(attempts), queued.ms, zero)
            if timing.spoiled and any(each.kind is SpoiledBy.LAGGED for each in timing.spoiled):
                self._note_lag(model, request, timing.loop_lag_ms)
            self._emit(_event(model, request, at_ms, timing, response=response))
            return response

    async def _try_once(self, model: ChatModel, request: ChatRequest, zero: float, queued: _Queued) -> ChatResponse:
        asked = time.perf_counter()
        self.waits.wait_begins()
        waiting = True
        try:
            left_s = self._policy.patience_s - self._blamed_s
            async with self._gate.admit(model.name, request, patience_s=left_s) as admission:
                queued_ms = (time.perf_counter() - asked) * 1000.0
                self.waits.attempt_begins()
                waiting = False
                queued.ms += queued_ms
                self._blamed_s += admission.blamed_s
                if admission.reason or queued_ms >= _NOTED_WAIT_MS:
                    self._note_wait(model, request, queued_ms, admission.reason or "starts are spaced")
                try:
                    response = await awaited(model.attempt(request, zero=zero), "attempt")
                except ModelError as error:
                    if error.kind == "rate_limit":
                        self._blamed_s += time.perf_counter() - asked - queued_ms / 1000.0
                    admission.failed(error)
                    raise
                except SteadyhandError:
                    raise
                except Exception as error:  # the agent is not to blame
                    raise PluginError(f"the model {model.name} raised {raised(error)}") from error
                finally:
                    self.waits.attempt_ends()
                _check_response(response, model.name)
                if response.usage is not None and not response.usage.countable:
                    response = self._without_usage(response, model)
                admission.succeeded(response)
                return response
        except BaseException as error:
            if waiting:
                queued_ms = (time.perf_counter() - asked) * 1000.0
                queued.ms += queued_ms
                if isinstance(error, ModelError):  # the gate did not let it wait any longer
                    self._blamed_s = self._policy.patience_s
                if queued_ms >= _NOTED_WAIT_MS:
                    self._note_wait(model, request, queued_ms, str(error) or "given up before it was sent")
            raise
        finally:
            if waiting:
                self.waits.wait_ends()

    def _note_wait(self, model: ChatModel, request: ChatRequest, queued_ms: float, reason: str) -> None:
        event = Waited(
            at_ms=self._now_ms(),
            model=model.name,
            purpose=request.purpose,
            reason=reason,
            wait_ms=round(queued_ms, 1),
        )
        self._emit(event)

    def _note_lag(self, model: ChatModel, request: ChatRequest, lag_ms: float) -> None:
        limit_ms = self._policy.lag_limit_ms
        event = Lagged(
            at_ms=self._now_ms(), model=model.name, purpose=request.purpose, lag_ms=lag_ms, limit_ms=limit_ms
        )
        self._emit(event)

    def _without_usage(self, response: ChatResponse, model: ChatModel) -> ChatResponse:
        """A count that nobody can have made is not counted."""
        if not self._odd_usage:
            self._odd_usage = True
            message = f"{model.name} reports an impossible number of tokens, which is not counted"
            self._emit(Noted(at_ms=self._now_ms(), message=message, level="warning", topic=ODD_USAGE))
        return msgspec.structs.replace(response, usage=None)

    def _wait_before_retry(self, error: ModelError, attempt: int, failures: int) -> float | None:
        """How long to wait before the call is tried again; None if it is not, which the error then explains.

        All waits of a trial share one limit. A server that asks for more than what is left of it is not waited for.
        """
        policy = self._policy
        if policy.gives_up(error, failures=failures):
            return None
        if self._random is None:
            # A separate generator, so that jitter does not shift the trial's draws. Created late: few calls fail.
            self._random = random.Random(self._seed ^ 0x5EED)  # noqa: S311
        wait_s = policy.wait_s(attempt - 1, error, self._random)
        if self._blamed_s + wait_s <= policy.patience_s:
            return wait_s
        spent = f"after waiting {self._blamed_s:.0f} s for servers" if self._blamed_s >= 1 else "without waiting"
        asked = f"; it asks us to wait {wait_s:.0f} s" if error.retry_after_s else ""
        error.args = (f"{error}{asked}; given up {spent}: a trial may wait {policy.patience_s:g} s (--wait-limit)",)
        return None

    async def _back_off(
        self, model: ChatModel, request: ChatRequest, error: ModelError, attempt: int, wait_s: float
    ) -> None:
        self._blamed_s += wait_s
        self._emit(
            Retried(
                at_ms=self._now_ms(),
                model=model.name,
                purpose=request.purpose,
                reason=str(error),
                wait_ms=round(wait_s * 1000.0, 1),
                attempt=attempt,
            )
        )
        self.waits.wait_begins()
        try:
            with self._gate.backing_off(model.name, error, wait_s):
                await self._clock.sleep(wait_s)
        finally:
            self.waits.wait_ends()

    def _timing(
        self, response: ChatResponse, attempts: tuple[Attempt, ...], queued_ms: float, zero: float
    ) -> CallTiming:
        last = attempts[-1]
        lag_ms = pieces_late_ms = 0.0
        late_ms: float | None = None
        end_ms = last.last_byte_ms if last.cut_ms is None else last.cut_ms
        if self._lag is not None and last.sent_ms is not None and end_ms is not None:
            sent, end = zero + last.sent_ms / 1000.0, zero + end_ms / 1000.0
            lag_ms = self._lag.worst_ms(sent, end)
            limit_ms = self._policy.lag_limit_ms
            if lag_ms > limit_ms:
                late_ms = lag_ms
                if last.clock is ArrivalClock.KERNEL:
                    pieces_late_ms = _pieces_late_ms(self._lag, sent, response)
                    late_ms = _last_byte_late_ms(self._lag, end, last, lag_ms)
                    late_ms = late_ms if late_ms > limit_ms else None
        return CallTiming(
            queued_ms=rounded_ms(queued_ms),
            attempts=attempts,
            loop_lag_ms=rounded_ms(lag_ms),
            chunks=response.chunks,
            spoiled=_spoiled(response, attempts, late_ms),
            pieces_late_ms=round(pieces_late_ms, 3) if pieces_late_ms else 0.0,
        )


def awaited(answer: Awaitable[T], method: str) -> Awaitable[T]:
    """What a third party's method returned. Raises `TypeError` for a plain function."""
    if not isawaitable(answer):
        raise TypeError(f"`{method}` is a plain function; define it with `async def`")
    return answer


def _check_response(response: object, model: str) -> None:
    """Raises `PluginError` for what a third party's model should not answer: nobody could read it from the record."""
    if not isinstance(response, ChatResponse):
        raise PluginError(f"the model {model} returned {type(response).__name__}; expected a ChatResponse")
    _check_type("text", response.text, str, model)
    _check_type("attempt", response.attempt, Attempt, model)
    if response.usage is not None:
        _check_type("usage", response.usage, Usage, model)
    for call in response.tool_calls:
        _check_type("tool_calls", call, ToolCall, model)


def _check_type(name: str, value: object, kind: type, model: str) -> None:
    if not isinstance(value, kind):
        found = type(value).__name__
        raise PluginError(f"`{name}` of {model}'s ChatResponse has type {found}; expected {kind.__name__}")


def _last_byte_late_ms(lag: LagMonitor, end: float, attempt: Attempt, lag_ms: float) -> float:
    """The most by which the kernel's stamp of the last byte can be late.

    It is not late at all unless it was read together with later bytes. Our own deadline fires on our event loop, so lag
    delays it.
    """
    if attempt.cut_ms is not None:
        return lag_ms
    return lag.stuck_ms(end) if attempt.last_byte_shared else 0.0


def _pieces_late_ms(lag: LagMonitor, sent: float, response: ChatResponse) -> float:
    """The most by which a piece can have arrived before its stamp: pieces read together share the stamp of the last."""
    if not response.attempt.streamed:
        return 0.0
    return max((min(lag.stuck_ms(sent + at_ms / 1000.0), at_ms) for at_ms, _ in response.chunks), default=0.0)


def _spoiled(response: ChatResponse, attempts: tuple[Attempt, ...], lag_ms: float | None) -> tuple[Spoiled, ...]:
    """What may have distorted the latency, and by how much. `lag_ms` is the most that lag can have added, if too much.

    A stall delays a stamp by no more than its own length. A retried call took at least as long as its last attempt and
    at most the time since its first.
    """
    found: list[Spoiled] = []
    ms = attempts[-1].latency_ms
    if response.source != "live":
        found.append(Spoiled(kind=SpoiledBy.NOT_LIVE, detail=f"the answer was {response.source}"))
    if response.timing_includes is not None:
        found.append(Spoiled(kind=SpoiledBy.INCLUDES, detail=f"the time includes {response.timing_includes}"))
    if len(attempts) > 1:
        detail = f"the call was retried ({len(attempts)} attempts)"
        found.append(Spoiled(kind=SpoiledBy.RETRIED, detail=detail, low_ms=ms, high_ms=_since_first_attempt(attempts)))
    if lag_ms is not None:
        detail = f"the event loop lagged {lag_ms:.0f} ms during the call"
        low_ms = None if ms is None else max(0.0, ms - lag_ms)
        found.append(Spoiled(kind=SpoiledBy.LAGGED, detail=detail, low_ms=low_ms, high_ms=ms))
    return tuple(found)


def _since_first_attempt(attempts: tuple[Attempt, ...]) -> float | None:
    first, last = attempts[0], attempts[-1]
    return None if last.last_byte_ms is None else last.last_byte_ms - first.started_ms


def _ignore(_: ModelCalled | Retried | Waited | Lagged | Noted) -> None: ...


def _unsent(zero: float, error: ModelError) -> Attempt:
    started_ms = round((time.perf_counter() - zero) * 1000.0, 3)
    return Attempt(started_ms=started_ms, status=error.status, error=str(error))


def _event(
    model: ChatModel,
    request: ChatRequest,
    at_ms: float,
    timing: CallTiming,
    *,
    response: ChatResponse | None = None,
    error: str | None = None,
) -> ModelCalled:
    relayed = request.client is not None
    finish = response.finish if response else None
    if relayed and finish is not None:  # a limit that the agent set is its own choice, not ours
        finish = msgspec.structs.replace(finish, token_limit=None)
    return ModelCalled(
        at_ms=at_ms,
        model=model.name,
        purpose=request.purpose,
        timing=timing,
        text=response.text if response else None,
        tool_calls=response.tool_calls if response else (),
        usage=response.usage if response else None,
        error=error,
        finish=finish,
        relayed=relayed,
    )
