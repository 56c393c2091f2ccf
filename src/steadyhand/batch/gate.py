"""Who may call which provider when: spaced starts, limits a minute, `Retry-After`, and leave during an outage."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Self
from urllib.parse import urlsplit

from steadyhand.batch.limits import Spend
from steadyhand.batch.provider import Provider, ProviderLimits
from steadyhand.errors import ModelError
from steadyhand.ports.model import Clock
from steadyhand.records.chat import ChatRequest, ChatResponse
from steadyhand.records.run import HeldUp

_CHARACTERS_PER_TOKEN = 4
_EXPECTED_ANSWER = 256
_AGENT = "http:"


class ProviderGate:
    """Implements `ports.gate.Gate` for all providers of a run. `note` is told when one goes down or is back."""

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

    def admit(self, model: str, request: ChatRequest) -> _Admission:
        return _Admission(self._of_model.get(model) or self._provider(model), request, self._note)

    @contextmanager
    def backing_off(self, model: str, error: ModelError, seconds: float) -> Generator[None]:
        provider = self._provider(model)
        mark = provider.begin_wait(f"{provider.name} {_short(error)}", seconds)
        try:
            yield
        finally:
            provider.end_wait(mark)

    def held_up(self) -> tuple[HeldUp, ...]:
        """Who waits right now, and for what. May be asked from another thread."""
        return tuple(each for provider in list(self._providers.copy().values()) for each in provider.held_up())

    def _provider(self, model: str) -> Provider:
        name = provider_of(model)
        if name not in self._providers:
            self._providers[name] = Provider(name, self._limits.get(name) or ProviderLimits(), self._clock)
        provider = self._of_model[model] = self._providers[name]
        return provider


class _Admission:
    """Implements `ports.gate.Admission`. A context manager by hand: it is entered for every call of a run."""

    __slots__ = ("_amount", "_note", "_probe", "_provider", "_spent", "_started", "_told", "reason")

    def __init__(self, provider: Provider, request: ChatRequest, note: Callable[[str], None]) -> None:
        self._provider: Provider = provider
        self._note: Callable[[str], None] = note
        self._amount: float = 0.0 if provider.tokens is None else _expected_tokens(request)
        self._spent: Spend | None = None
        self._started: float = 0.0
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
            self.reason = await provider.leave(self._amount) or self.reason
        except BaseException:
            self._release()
            raise
        now = self._started = provider.clock.now()
        provider.started(now)
        if provider.requests is not None:
            provider.requests.spend(now, 1.0)
        if provider.tokens is not None:
            self._spent = provider.tokens.spend(now, self._amount)
        self._probe = provider.breaker.starts()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._probe and not self._told:
            self._provider.breaker.abandoned()
        self._provider.ended()
        self._release()

    def succeeded(self, response: ChatResponse) -> None:
        self._told = True
        provider = self._provider
        provider.pace.answered()
        if provider.breaker.succeeded():
            self._note(f"{provider.name} is back")
        if self._spent is not None and provider.tokens is not None and response.usage is not None:
            used = response.usage.input_tokens + response.usage.output_tokens
            provider.tokens.correct(self._spent, used)

    def failed(self, error: ModelError) -> None:
        self._told = True
        provider = self._provider
        now = provider.clock.now()
        if provider.breaker.failed(now, error, probe=self._probe):
            self._note(f"{provider.name} seems to be down, new calls wait: {error}")
        if error.kind == "rate_limit":
            provider.pace.limited(now, started=self._started)
            if error.retry_after_s:
                provider.hold(error.retry_after_s)

    def _release(self) -> None:
        if self._provider.slots is not None:
            self._provider.slots.release()


def provider_of(model: str) -> str:
    """What stands before the `/` of a model's name; of an agent behind a URL, its host."""
    if model.startswith(_AGENT):
        return urlsplit(model.removeprefix(_AGENT)).netloc or model
    return model.partition("/")[0]


def _short(error: ModelError) -> str:
    """Enough to know it by: the status that was answered, else the kind of failure."""
    return str(error.status) if error.status not in (None, 200) else error.kind.replace("_", " ")


def _expected_tokens(request: ChatRequest) -> float:
    """A guess that keeps us under a limit until the server has counted; it is never reported."""
    characters = sum(len(message.content or "") for message in request.messages)
    return characters / _CHARACTERS_PER_TOKEN + (request.max_tokens or _EXPECTED_ANSWER)
