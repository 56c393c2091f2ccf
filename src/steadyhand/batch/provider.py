"""The state of a provider during a run: its limits, pauses and outages, and the calls that wait for it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from steadyhand.batch.limits import DOWN, SPACING_S, Breaker, Pace, Spend, Window
from steadyhand.engine.model_call import WAIT_LIMIT_S
from steadyhand.errors import ModelError
from steadyhand.ports.model import Clock
from steadyhand.records.base import Record
from steadyhand.records.chat import ChatRequest, ChatResponse
from steadyhand.records.run import CallWait

LONGEST_HOLD_S = 90.0
_LOOK_S = 1.0
_BLAMED = DOWN | {"rate_limit"}


class Obstacle(NamedTuple):
    """How long a call must wait, and why: nothing if it may start. `down` is whether the provider is down, `ours`
    whether this is a limit of the configuration."""

    wait_s: float = 0.0
    why: str = ""
    down: bool = False
    ours: bool = False


_NO_OBSTACLE = Obstacle()


class ProviderLimits(Record):
    """A provider's limits; None for no limit. `spacing_s` is the minimum time between two starts."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    concurrency: int | None = None
    spacing_s: float = SPACING_S


class Provider:
    """Shared by all of a run's calls to the provider. Nobody waits longer than `wait_s` if it does not answer."""

    def __init__(self, name: str, limits: ProviderLimits, clock: Clock, wait_s: float) -> None:
        self.name: str = name
        self.clock: Clock = clock
        self.breaker: Breaker = Breaker(wait_s)
        self.pace: Pace = Pace(limits.spacing_s)
        self.requests: Window | None = _window(limits.requests_per_minute)
        self.tokens: Window | None = _window(limits.tokens_per_minute)
        self.slots: asyncio.Semaphore | None = asyncio.Semaphore(limits.concurrency) if limits.concurrency else None
        self.queued: int = 0
        self._wait_limit_s: float = wait_s
        self._refused_since: float | None = None
        self.last_refusal: str = ""
        self._turn: asyncio.Lock = asyncio.Lock()
        self._held_until: float = 0.0
        self._active: int = 0
        self._most: int = 0
        self._waiting: dict[object, tuple[Obstacle, float]] = {}

    def obstacle(self, amount: float) -> Obstacle:
        """Raises `ModelError` if the provider has been down for too long."""
        now = self.clock.now()
        if self.breaker.open:
            if self.breaker.given_up(now):
                raise ModelError(
                    f"{self.name} has been down for {self.breaker.down_s(now):.0f} s, giving up; resume the run "
                    f"when it is back. Last error: {self.breaker.last_error}",
                    kind="connect",
                )
            wait_s = self.breaker.wait_s(now)
            if wait_s > 0:
                return Obstacle(wait_s, f"{self.name} is down", down=True)
        if self.requests is None and self.tokens is None and self._held_until <= now:
            return _NO_OBSTACLE
        waits = [Obstacle(self._held_until - now, self._limited)]
        if self.requests is not None:
            why = f"{self.name}'s limit on requests per minute"
            waits.append(Obstacle(self.requests.wait_s(now, 1.0), why, ours=True))
        if self.tokens is not None:
            why = f"{self.name}'s limit on tokens per minute"
            waits.append(Obstacle(self.tokens.wait_s(now, amount), why, ours=True))
        longest = max(waits)
        return longest if longest.wait_s > 0 else _NO_OBSTACLE

    async def leave(self, amount: float) -> str:
        """Wait until a call may start. Returns the reason for the wait, unless it was just the usual spacing."""
        reason = ""
        while True:
            obstacle = self.obstacle(amount)
            if obstacle.why:
                reason = await self._queue(amount, obstacle)
            opening = self._active >= self._most
            wait_s = self.pace.wait_s(self.clock.now(), opening=opening, in_flight=max(1, self._most))
            if wait_s > 0 and self.pace.slowed:
                reason = reason or self._limited
                await self._wait(wait_s, self._limited)
            elif wait_s > 0:
                await self.clock.sleep(wait_s)
            if wait_s <= 0 or not self.obstacle(amount).why:
                return reason

    def started(self, now: float) -> None:
        self.pace.started(now)
        self._active += 1
        self._most = max(self._most, self._active)

    def ended(self) -> None:
        self._active -= 1

    def succeeded(self) -> None:
        self._refused_since = None

    def refused(self, error: ModelError) -> None:
        """The provider failed or limits our rate."""
        if self._refused_since is None:
            self._refused_since = self.clock.now()
        self.last_refusal = str(error)

    def blamed_s(self, since: float) -> float:
        """For how much of the time since then the provider is to blame if a call waits: it has refused or failed, and
        answered nobody since. While it answers others, a call waits for its turn."""
        return 0.0 if self._refused_since is None else max(0.0, self.clock.now() - max(since, self._refused_since))

    def out_of_patience(self, waited_s: float) -> ModelError:
        return ModelError(
            f"{self.name} has answered nobody for {waited_s:.0f} s; given up: a trial may wait "
            f"{self._wait_limit_s:g} s for servers (--wait-limit). Last error: {self.last_refusal}",
            kind="connect",
        )

    def makes_wait(self, amount: float) -> bool:
        """Whether a call cannot start now, apart from the spacing of starts. Raises `ModelError` as `obstacle`."""
        full = self.slots is not None and self.slots.locked()
        return full or self.pace.slowed or bool(self.obstacle(amount).why)

    def hold(self, seconds: float) -> None:
        """The provider asked for a pause, which applies to all calls, unless it is longer than anybody waits."""
        if seconds > self._wait_limit_s:
            return
        self._held_until = max(self._held_until, self.clock.now() + min(seconds, LONGEST_HOLD_S))

    def begin_wait(self, obstacle: Obstacle) -> object:
        """Register a waiting call, for display, until `end_wait` is called with what this returns."""
        mark = object()
        self._waiting[mark] = (obstacle, self.clock.now() + obstacle.wait_s)
        return mark

    def end_wait(self, mark: object) -> None:
        self._waiting.pop(mark, None)

    def waits(self) -> list[CallWait]:
        """The waiting calls, by reason. May be called from another thread.

        Only the first in the queue knows how long; the reasons of the others may be out of date.
        """
        now = self.clock.now()
        by_reason: dict[tuple[str, bool], list[float]] = {}
        for obstacle, until in list(self._waiting.copy().values()):
            by_reason.setdefault((obstacle.why, obstacle.down), []).append(max(0.0, until - now))
        return [
            CallWait(
                reason=reason,
                calls=len(left),
                left_s=min((each for each in left if each > 0), default=0.0),
                down=self.name if down else None,
            )
            for (reason, down), left in by_reason.items()
        ]

    async def _queue(self, amount: float, obstacle: Obstacle) -> str:
        """Wait, in order of arrival, until the call may start. Returns the reason for the wait."""
        mark = self.begin_wait(obstacle)
        reason = obstacle.why
        try:
            async with self._turn:
                while True:
                    obstacle = self.obstacle(amount)
                    if not obstacle.why:
                        return reason
                    reason = obstacle.why
                    self._waiting[mark] = (obstacle, self.clock.now() + obstacle.wait_s)
                    await self.clock.sleep(obstacle.wait_s)
                    if obstacle.ours and self._refused_since is not None:
                        self._refused_since += obstacle.wait_s  # nobody asked it meanwhile
        finally:
            self.end_wait(mark)

    async def _wait(self, seconds: float, reason: str) -> None:
        mark = self.begin_wait(Obstacle(seconds, reason))
        try:
            await self.clock.sleep(seconds)
        finally:
            self.end_wait(mark)

    @property
    def _limited(self) -> str:
        return f"{self.name} is rate limiting us (429)"


def _window(limit: float | None) -> Window | None:
    return None if limit is None else Window(limit)


_CHARACTERS_PER_TOKEN = 4
_EXPECTED_ANSWER = 256


class ProviderGate:
    """Implements `ports.gate.Gate` for all providers of a run. `note` is called when one goes down or comes back."""

    def __init__(
        self,
        *,
        clock: Clock,
        limits: Mapping[str, ProviderLimits] | None = None,
        note: Callable[[str], None] = lambda message: None,
        wait_s: float = WAIT_LIMIT_S,
    ) -> None:
        self._clock = clock
        self._wait_s = wait_s
        self._limits = limits or {}
        self.note = note
        self._providers: dict[str, Provider] = {}
        self._of_model: dict[str, Provider] = {}
        self._failing_since: float | None = None

    def admit(self, model: str, request: ChatRequest, *, patience_s: float = math.inf) -> ProviderAdmission:
        provider = self._of_model.get(model) or self._provider(model)
        amount = 0.0 if provider.tokens is None else expected_tokens(request)
        return ProviderAdmission(provider, amount, self, patience_s)

    def admit_amount(self, model: str, amount: float, patience_s: float = math.inf) -> ProviderAdmission:
        """For a call made elsewhere that is expected to use that many tokens."""
        return ProviderAdmission(self._of_model.get(model) or self._provider(model), amount, self, patience_s)

    @contextmanager
    def backing_off(self, model: str, error: ModelError, seconds: float) -> Generator[None]:
        provider = self._provider(model)
        mark = provider.begin_wait(Obstacle(seconds, f"{provider.name} {_short(error)}"))
        provider.queued += 1
        try:
            yield
        finally:
            provider.queued -= 1
            provider.end_wait(mark)

    def progressed(self) -> None:
        """A call was answered, or a trial was completed."""
        self._failing_since = None

    def failed(self) -> None:
        if self._failing_since is None:
            self._failing_since = self._clock.now()

    def failing_s(self) -> float:
        """For how long providers have been failing without any progress of the run."""
        return 0.0 if self._failing_since is None else self._clock.now() - self._failing_since

    def last_refusal(self) -> str:
        return next((each.last_refusal for each in self._providers.values() if each.last_refusal), "")

    def waiting_calls(self) -> int:
        """How many calls cannot be made now, or wait to be retried."""
        return sum(provider.queued for provider in self._providers.values())

    def waits(self) -> tuple[CallWait, ...]:
        """The calls that are waiting now, and what for. May be called from another thread."""
        return tuple(each for provider in list(self._providers.copy().values()) for each in provider.waits())

    def _provider(self, model: str) -> Provider:
        name = provider_of(model)
        if name not in self._providers:
            limits = self._limits.get(name) or ProviderLimits()
            self._providers[name] = Provider(name, limits, self._clock, self._wait_s)
        provider = self._of_model[model] = self._providers[name]
        return provider


class ProviderAdmission:
    """Implements `ports.gate.Admission`. A hand-written context manager, for speed: it is entered for every call of a
    run."""

    __slots__ = (
        *("_amount", "_gate", "_patience_s", "_probe", "_provider", "_spent", "_started", "_told"),
        *("blamed_s", "reason"),
    )

    def __init__(self, provider: Provider, amount: float, gate: ProviderGate, patience_s: float) -> None:
        self._provider: Provider = provider
        self._gate: ProviderGate = gate
        self._amount: float = amount
        self._patience_s: float = patience_s
        self.blamed_s: float = 0.0
        self._spent: Spend | None = None
        self._started: float = 0.0
        self._probe: bool = False
        self._told: bool = False
        self.reason: str = ""

    async def __aenter__(self) -> Self:
        provider = self._provider
        if provider.makes_wait(self._amount):
            began = provider.clock.now()
            async with _Patience(provider, began, self._patience_s):
                await self._wait()
            self.blamed_s = provider.blamed_s(began)
        else:
            await self._wait()
        self._begin()
        return self

    async def _wait(self) -> None:
        provider = self._provider
        if provider.slots is not None:
            if provider.slots.locked():
                self.reason = f"{provider.name}'s limit on concurrent calls"
            await provider.slots.acquire()
        try:
            self.reason = await provider.leave(self._amount) or self.reason
        except BaseException:
            self._release()
            raise

    def at_once(self) -> bool:
        """Enter without waiting, if possible. Raises the same errors as entering."""
        provider = self._provider
        if provider.slots is not None or provider.pace.slowed or provider.obstacle(self._amount).why:
            return False
        self._begin()
        return True

    def _begin(self) -> None:
        provider = self._provider
        now = self._started = provider.clock.now()
        provider.started(now)
        if provider.requests is not None:
            provider.requests.spend(now, 1.0)
        if provider.tokens is not None:
            self._spent = provider.tokens.spend(now, self._amount)
        self._probe = provider.breaker.starts()

    async def __aexit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        if self._probe and not self._told:
            self._provider.breaker.abandoned()
        self._provider.ended()
        self._release()

    def succeeded(self, response: ChatResponse) -> None:
        usage = response.usage
        used = None if usage is None else usage.input_tokens + usage.output_tokens
        self.answered(used, response.attempt.latency_ms)

    def answered(self, used: int | None, latency_ms: float | None = None) -> None:
        """The call is over, and used that many tokens, if they were counted."""
        self._told = True
        provider = self._provider
        provider.pace.answered(latency_ms)
        provider.succeeded()
        self._gate.progressed()
        if provider.breaker.succeeded():
            self._gate.note(f"{provider.name} is back")
        if self._spent is not None and provider.tokens is not None and used is not None:
            provider.tokens.correct(self._spent, used)

    def failed(self, error: ModelError) -> None:
        self._told = True
        provider = self._provider
        now = provider.clock.now()
        if error.kind in _BLAMED:
            provider.refused(error)
            self._gate.failed()
        if provider.breaker.failed(now, error, probe=self._probe):
            self._gate.note(f"{provider.name} seems to be down; holding new calls: {error}")
        if error.kind == "rate_limit":
            provider.pace.limited(now, started=self._started)
            if error.retry_after_s:
                provider.hold(error.retry_after_s)

    def _release(self) -> None:
        if self._provider.slots is not None:
            self._provider.slots.release()


class _Patience:
    """Around the wait of a call: ends it with a `ModelError` once the provider is to blame for too much of it."""

    def __init__(self, provider: Provider, began: float, patience_s: float) -> None:
        self._provider = provider
        self._began = began
        self._patience_s = patience_s
        self._timeout: asyncio.Timeout = asyncio.timeout(None)
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._provider.queued += 1
        self._look()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._provider.queued -= 1
        if self._timer is not None:
            self._timer.cancel()
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise self._provider.out_of_patience(self._provider.blamed_s(self._began)) from None

    def _look(self) -> None:
        """End the wait now, or look again when that may be due; the provider may also answer somebody until then."""
        loop = asyncio.get_running_loop()
        left_s = self._patience_s - self._provider.blamed_s(self._began)
        if left_s <= 0:
            self._timeout.reschedule(loop.time())
        else:
            self._timer = loop.call_later(min(left_s, _LOOK_S), self._look)


def provider_of(model: str) -> str:
    """The part before the `/` of a model's name; if its name is a URL, as for an agent behind one, the host."""
    before, _, address = model.partition("://")
    if address and "/" not in before:
        return urlsplit(f"//{address}").netloc or model
    return model.partition("/")[0]


def _short(error: ModelError) -> str:
    """A short description: the status, else the kind of failure."""
    return str(error.status) if error.status not in (None, 200) else error.kind.replace("_", " ")


def expected_tokens(request: ChatRequest) -> float:
    """An estimate that keeps us below a limit until the server has counted; it is never reported."""
    characters = sum(len(message.content or "") for message in request.messages)
    return characters / _CHARACTERS_PER_TOKEN + (request.max_tokens or _EXPECTED_ANSWER)
