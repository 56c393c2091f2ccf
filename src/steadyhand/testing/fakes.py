"""Test doubles: a scripted model and agent, a settable clock, and a recording sink."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from steadyhand.errors import AgentError, ModelError
from steadyhand.ports.agent import EVERYTHING_SEEN, Reply, Shows, TrialContext, Turn
from steadyhand.records.chat import Attempt, ChatRequest, ChatResponse, FinishReason
from steadyhand.records.event import AnyEvent, Event

ScriptedAnswer = str | ChatResponse | Exception
"""A text, a whole response, or what to raise."""
AnswerFunction = Callable[[ChatRequest], ScriptedAnswer | Awaitable[ScriptedAnswer]]
AgentScript = Sequence[str] | Callable[[Turn, TrialContext], Any]
E = TypeVar("E", bound=Event)


class ScriptedChatModel:
    """A `ports.model.ChatModel` that answers from a script, and keeps in `requests` what it was asked.

    The script has one answer per attempt, or is a function of the request, which may be async; an entry of the sequence
    may be such a function too. With `repeat` the last answer is given to every further attempt.

    The times of a text are measured: sent when the request came in, complete when the function returned. A
    `ChatResponse` keeps its own times.
    """

    def __init__(
        self,
        script: Sequence[ScriptedAnswer | AnswerFunction] | AnswerFunction,
        *,
        name: str = "test/model",
        repeat: bool = False,
    ) -> None:
        self._script = script
        self.name: str = name
        self._repeat = repeat
        self.requests: list[ChatRequest] = []
        self.closed: int = 0

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        """Raises `ModelError` when the script is used up, and the answer itself if it is an exception."""
        sent = _ms_after(zero)
        self.requests.append(request)
        answer = self._next()
        if callable(answer):
            made = answer(request)
            answer = await made if isinstance(made, Awaitable) else made
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, ChatResponse):
            return answer
        times = Attempt(started_ms=sent, sent_ms=sent, last_byte_ms=_ms_after(zero))
        return ChatResponse(text=answer, attempt=times, finish_reason=FinishReason.STOP)

    def _next(self) -> ScriptedAnswer | AnswerFunction:
        if callable(self._script):
            return self._script
        script = self._script
        asked = len(self.requests)
        if asked > len(script) and not self._repeat:
            raise ModelError(f"the script has {len(script)} answers, and this is attempt {asked}", kind="refused")
        return script[min(asked, len(script)) - 1]

    async def close(self) -> None:
        self.closed += 1


def _ms_after(zero: float) -> float:
    return (time.perf_counter() - zero) * 1000.0


class ScriptedAgent:
    """A `ports.agent.Agent`. The script has one reply per turn, or is a function of the turn and the trial, which may
    be async. `turns` has the turns it was asked. Everything it does is visible unless `shows` says otherwise."""

    def __init__(self, script: AgentScript, *, name: str = "scripted", shows: Shows = EVERYTHING_SEEN) -> None:
        self.shows: Shows = shows
        self._script = script
        self.name: str = name
        self._trial: TrialContext | None = None
        self.turns: list[Turn] = []
        self.opened: int = 0
        self.closed: int = 0

    async def open(self, trial: TrialContext) -> None:
        self.opened += 1
        self._trial = trial

    async def respond(self, turn: Turn) -> Reply:
        """Raises `AgentError` when the script is used up, and whatever the function raises."""
        assert self._trial is not None, "respond before open"
        self.turns.append(turn)
        if not callable(self._script):
            if len(self.turns) > len(self._script):
                raise AgentError(f"the script has {len(self._script)} replies, and this is turn {len(self.turns)}")
            return Reply(text=self._script[len(self.turns) - 1])
        answer = self._script(turn, self._trial)
        if hasattr(answer, "__await__"):
            answer = await answer
        return Reply(text=answer) if isinstance(answer, str) else answer

    async def close(self) -> None:
        self.closed += 1
        self._trial = None


class SettableClock:
    """A `ports.model.Clock` that starts at `start` seconds.

    With `auto_advance` (the default) `sleep` moves the clock forward and returns after letting other tasks run, so that
    code that waits an hour can be tested at once. Without it `sleep` waits until a test calls `advance` or `set`;
    sleepers wake in the order of their deadlines.
    """

    def __init__(self, start: float = 0.0, *, auto_advance: bool = True) -> None:
        self._now = start
        self._auto_advance = auto_advance
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self.slept: list[float] = []

    def now(self) -> float:
        return self._now

    @property
    def sleepers(self) -> int:
        """The number of tasks that are sleeping."""
        return sum(not waiting.done() for _, _, waiting in self._sleepers)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        deadline = self._now + max(0.0, seconds)
        if self._auto_advance or deadline <= self._now:
            if deadline > self._now:
                self.set(deadline)
            await asyncio.sleep(0)
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (deadline, next(self._order), waiting))
        await waiting

    def advance(self, seconds: float) -> None:
        """Move the clock forward and wake the tasks that are due."""
        self.set(self._now + seconds)

    def set(self, now: float) -> None:
        """Set the clock to `now`, which must not be earlier."""
        if now < self._now:
            raise ValueError(f"the clock stands at {self._now:g} and cannot go back to {now:g}")
        self._now = now
        while self._sleepers and self._sleepers[0][0] <= now:
            _, _, waiting = heapq.heappop(self._sleepers)
            if not waiting.done():
                waiting.set_result(None)


class RecordingSink:
    """A `ports.observer.EventSink` that keeps every event in `events`, in order."""

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []

    def emit(self, event: AnyEvent) -> None:
        self.events.append(event)

    def of(self, kind: type[E]) -> list[E]:
        """The events of one type, in order."""
        return [event for event in self.events if isinstance(event, kind)]
