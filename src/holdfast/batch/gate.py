"""Who may call which provider when: spaced starts, limits a minute, `Retry-After`, and leave during an outage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Self

from holdfast.batch.breaker import Breaker
from holdfast.batch.window import Spend, Window
from holdfast.errors import ModelError
from holdfast.ports.clock import Clock
from holdfast.records.base import Record
from holdfast.records.model import ChatRequest, ChatResponse

SPACING_S = 0.00025
LONGEST_HOLD_S = 90.0
_CHARACTERS_PER_TOKEN = 4
_EXPECTED_ANSWER = 256
_NO_OBSTACLE = (0.0, "")


class ProviderLimits(Record):
    """What a provider allows; None for no limit. `spacing_s` is between any two starts."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    concurrency: int | None = None
    spacing_s: float = SPACING_S


class ProviderGate:
    """Implements `ports.gate.Gate` for all providers of a run, which are what stands before the `/` of a model's name.

    Starts are spaced by a quarter of a millisecond: 64 calls fired together are all stamped late by the work of
    starting the others. `note` is told when a provider goes down and when it is back.
    """

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
        self._providers: dict[str, _Provider] = {}

    def admit(self, model: str, request: ChatRequest) -> _Admission:
        name = model.partition("/")[0]
        provider = self._providers.get(name)
        if provider is None:
            limits = self._limits.get(name) or ProviderLimits()
            provider = self._providers[name] = _Provider(name, limits, self._clock, self._note)
        return _Admission(provider, request)


class _Provider:
    def __init__(self, name: str, limits: ProviderLimits, clock: Clock, note: Callable[[str], None]) -> None:
        self.name: str = name
        self.clock: Clock = clock
        self.breaker: Breaker = Breaker()
        self.requests: Window | None = _window(limits.requests_per_minute)
        self.tokens: Window | None = _window(limits.tokens_per_minute)
        self.slots: asyncio.Semaphore | None = asyncio.Semaphore(limits.concurrency) if limits.concurrency else None
        self.note: Callable[[str], None] = note
        self._spacing_s: float = limits.spacing_s
        self._turn: asyncio.Lock = asyncio.Lock()
        self._next_start: float = 0.0
        self._held_until: float = 0.0

    async def space(self) -> None:
        """Wait for a start of one's own."""
        if not self._spacing_s:
            return
        now = self.clock.now()
        due = max(now, self._next_start)
        self._next_start = due + self._spacing_s
        if due > now:
            await self.clock.sleep(due - now)

    def obstacle(self, amount: float) -> tuple[float, str]:
        """How long nobody may start, and why; nothing when somebody may."""
        now = self.clock.now()
        if self.breaker.open:
            if self.breaker.given_up(now):
                raise ModelError(
                    f"{self.name} has been down for {self.breaker.down_s(now):.0f} s and is given up; resume the run "
                    f"when it is back. Last: {self.breaker.last_error}",
                    kind="connect",
                )
            wait_s = self.breaker.wait_s(now)
            if wait_s > 0:
                return wait_s, f"{self.name} is down"
        if self.requests is None and self.tokens is None and self._held_until <= now:
            return _NO_OBSTACLE
        waits = [(self._held_until - now, f"{self.name} asked to wait")]
        if self.requests is not None:
            waits.append((self.requests.wait_s(now, 1.0), f"the limit of {self.name} on requests a minute"))
        if self.tokens is not None:
            waits.append((self.tokens.wait_s(now, amount), f"the limit of {self.name} on tokens a minute"))
        longest = max(waits)
        return longest if longest[0] > 0 else _NO_OBSTACLE

    async def queue(self, amount: float) -> str:
        """Wait, in order of arrival, until nothing is in the way; what was."""
        reason = ""
        async with self._turn:
            while True:
                wait_s, why = self.obstacle(amount)
                if not why:
                    return reason
                reason = why
                await self.clock.sleep(wait_s)

    def hold(self, seconds: float) -> None:
        """The provider asked for a pause: nobody else need run into the same wall."""
        self._held_until = max(self._held_until, self.clock.now() + min(seconds, LONGEST_HOLD_S))


class _Admission:
    """Implements `ports.gate.Admission`. A context manager by hand: it is entered for every call of a run."""

    __slots__ = ("_amount", "_probe", "_provider", "_spent", "_told", "reason")

    def __init__(self, provider: _Provider, request: ChatRequest) -> None:
        self._provider: _Provider = provider
        self._amount: float = 0.0 if provider.tokens is None else _expected_tokens(request)
        self._spent: Spend | None = None
        self._probe: bool = False
        self._told: bool = False
        self.reason: str = ""

    async def __aenter__(self) -> Self:
        provider = self._provider
        if provider.slots is not None:
            if provider.slots.locked():
                self.reason = f"the limit of {provider.name} on calls at a time"
            await provider.slots.acquire()
        try:
            while True:
                if provider.obstacle(self._amount)[1]:
                    self.reason = await provider.queue(self._amount) or self.reason
                await provider.space()
                if not provider.obstacle(self._amount)[1]:
                    break
        except BaseException:
            self._release()
            raise
        now = provider.clock.now()
        if provider.requests is not None:
            provider.requests.spend(now, 1.0)
        if provider.tokens is not None:
            self._spent = provider.tokens.spend(now, self._amount)
        self._probe = provider.breaker.starts()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._probe and not self._told:
            self._provider.breaker.abandoned()
        self._release()

    def succeeded(self, response: ChatResponse) -> None:
        self._told = True
        provider = self._provider
        if provider.breaker.succeeded():
            provider.note(f"{provider.name} is back")
        if self._spent is not None and provider.tokens is not None and response.usage is not None:
            used = response.usage.input_tokens + response.usage.output_tokens
            provider.tokens.correct(self._spent, used)

    def failed(self, error: ModelError) -> None:
        self._told = True
        provider = self._provider
        if provider.breaker.failed(provider.clock.now(), error, probe=self._probe):
            provider.note(f"{provider.name} seems to be down, new calls wait: {error}")
        if error.kind == "rate_limit" and error.retry_after_s:
            provider.hold(error.retry_after_s)

    def _release(self) -> None:
        if self._provider.slots is not None:
            self._provider.slots.release()


def _window(limit: float | None) -> Window | None:
    return None if limit is None else Window(limit)


def _expected_tokens(request: ChatRequest) -> float:
    """A guess that keeps us under a limit until the server has counted; it is never reported."""
    characters = sum(len(message.content or "") for message in request.messages)
    return characters / _CHARACTERS_PER_TOKEN + (request.max_tokens or _EXPECTED_ANSWER)
