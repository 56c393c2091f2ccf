"""The state of a provider during a run: its limits, pauses and outages, and the calls that wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from steadyhand.batch.limits import SPACING_S, Pace, Spend, Window
from steadyhand.errors import ModelError
from steadyhand.ports.model import Clock
from steadyhand.records.base import Record
from steadyhand.records.chat import ChatRequest, ChatResponse
from steadyhand.records.run import CallWait

TOLERATED = 10
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
GIVE_UP_S = 120.0
_DOWN = frozenset(("connect", "server", "timeout"))
_UP = frozenset(("rate_limit", "auth", "refused"))


class Breaker:
    """A circuit breaker that counts consecutive failures. Closed: all calls may start. Open: no call may start until a
    pause is over; then a single call probes the provider.

    If the probe succeeds, the breaker closes; if it fails, the next pause is twice as long. After `GIVE_UP_S` without a
    success, calls no longer wait: the rest of the run ends in error, and a resume repeats it.
    """

    def __init__(self) -> None:
        self._failures: int = 0
        self._pause_s: float = FIRST_PAUSE_S
        self._down_since: float | None = None
        self._closed_until: float = 0.0
        self._probing: bool = False
        self.last_error: str = ""

    @property
    def open(self) -> bool:
        return self._down_since is not None

    def wait_s(self, now: float) -> float:
        """0 if an attempt may start now. While a probe is running, the others poll."""
        if self._down_since is None:
            return 0.0
        if self._probing:
            return min(self._pause_s, 1.0)
        return max(0.0, self._closed_until - now)

    def given_up(self, now: float) -> bool:
        return self._down_since is not None and now - self._down_since >= GIVE_UP_S

    def down_s(self, now: float) -> float:
        return 0.0 if self._down_since is None else now - self._down_since

    def starts(self) -> bool:
        """An attempt starts now. True if it is the probe."""
        self._probing = self._down_since is not None
        return self._probing

    def succeeded(self) -> bool:
        """True if the provider is back."""
        self._failures = 0
        self._probing = False
        back = self._down_since is not None
        self._down_since = None
        self._pause_s = FIRST_PAUSE_S
        return back

    def abandoned(self) -> None:
        """The probe was cancelled: another call may probe."""
        self._probing = False

    def failed(self, now: float, error: ModelError, *, probe: bool) -> bool:
        """True if this failure opened the breaker. A deliberate refusal shows that the provider is up."""
        if probe:
            self._probing = False
        if error.kind in _UP:
            self.succeeded()
        if error.kind not in _DOWN:
            return False
        self.last_error = str(error)
        self._failures += 1
        if self._down_since is not None:
            if probe:
                self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
                self._closed_until = now + self._pause_s
            return False
        if self._failures < TOLERATED:
            return False
        self._down_since = now
        self._closed_until = now + self._pause_s
        return True


LONGEST_HOLD_S = 90.0


class Obstacle(NamedTuple):
    """How long a call must wait, and why: nothing if it may start. `down` is whether the provider is down."""

    wait_s: float = 0.0
    why: str = ""
    down: bool = False


_NO_OBSTACLE = Obstacle()


class ProviderLimits(Record):
    """A provider's limits; None for no limit. `spacing_s` is the minimum time between two starts."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    concurrency: int | None = None
    spacing_s: float = SPACING_S


class Provider:
    """Shared by all of a run's calls to the provider."""

    def __init__(self, name: str, limits: ProviderLimits, clock: Clock) -> None:
        self.name: str = name
        self.clock: Clock = clock
        self.breaker: Breaker = Breaker()
        self.pace: Pace = Pace(limits.spacing_s)
        self.requests: Window | None = _window(limits.requests_per_minute)
        self.tokens: Window | None = _window(limits.tokens_per_minute)
        self.slots: asyncio.Semaphore | None = asyncio.Semaphore(limits.concurrency) if limits.concurrency else None
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
            waits.append(Obstacle(self.requests.wait_s(now, 1.0), f"{self.name}'s limit on requests per minute"))
        if self.tokens is not None:
            waits.append(Obstacle(self.tokens.wait_s(now, amount), f"{self.name}'s limit on tokens per minute"))
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

    def hold(self, seconds: float) -> None:
        """The provider asked for a pause, which applies to all calls."""
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
    ) -> None:
        self._clock = clock
        self._limits = limits or {}
        self._note = note
        self._providers: dict[str, Provider] = {}
        self._of_model: dict[str, Provider] = {}

    def admit(self, model: str, request: ChatRequest) -> ProviderAdmission:
        provider = self._of_model.get(model) or self._provider(model)
        amount = 0.0 if provider.tokens is None else expected_tokens(request)
        return ProviderAdmission(provider, amount, self._note)

    def admit_amount(self, model: str, amount: float) -> ProviderAdmission:
        """For a call made elsewhere that is expected to use that many tokens."""
        return ProviderAdmission(self._of_model.get(model) or self._provider(model), amount, self._note)

    @contextmanager
    def backing_off(self, model: str, error: ModelError, seconds: float) -> Generator[None]:
        provider = self._provider(model)
        mark = provider.begin_wait(Obstacle(seconds, f"{provider.name} {_short(error)}"))
        try:
            yield
        finally:
            provider.end_wait(mark)

    def waits(self) -> tuple[CallWait, ...]:
        """The calls that are waiting now, and what for. May be called from another thread."""
        return tuple(each for provider in list(self._providers.copy().values()) for each in provider.waits())

    def _provider(self, model: str) -> Provider:
        name = provider_of(model)
        if name not in self._providers:
            self._providers[name] = Provider(name, self._limits.get(name) or ProviderLimits(), self._clock)
        provider = self._of_model[model] = self._providers[name]
        return provider


class ProviderAdmission:
    """Implements `ports.gate.Admission`. A hand-written context manager, for speed: it is entered for every call of a
    run."""

    __slots__ = ("_amount", "_note", "_probe", "_provider", "_spent", "_started", "_told", "reason")

    def __init__(self, provider: Provider, amount: float, note: Callable[[str], None]) -> None:
        self._provider: Provider = provider
        self._note: Callable[[str], None] = note
        self._amount: float = amount
        self._spent: Spend | None = None
        self._started: float = 0.0
        self._probe: bool = False
        self._told: bool = False
        self.reason: str = ""

    async def __aenter__(self) -> Self:
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
        self._begin()
        return self

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
        if provider.breaker.succeeded():
            self._note(f"{provider.name} is back")
        if self._spent is not None and provider.tokens is not None and used is not None:
            provider.tokens.correct(self._spent, used)

    def failed(self, error: ModelError) -> None:
        self._told = True
        provider = self._provider
        now = provider.clock.now()
        if provider.breaker.failed(now, error, probe=self._probe):
            self._note(f"{provider.name} seems to be down; holding new calls: {error}")
        if error.kind == "rate_limit":
            provider.pace.limited(now, started=self._started)
            if error.retry_after_s:
                provider.hold(error.retry_after_s)

    def _release(self) -> None:
        if self._provider.slots is not None:
            self._provider.slots.release()


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
