"""An agent that is a user's function, coroutine function, async generator or class, and how it is called.

A child process imports this, so it imports neither the shapes of options nor what validates them.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import inspect
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterable
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import msgspec

from steadyhand.builtin.agents.addresses import limit_of, workspace_of
from steadyhand.builtin.agents.python_call import CallArguments, FunctionThread, Guarded
from steadyhand.builtin.agents.python_target import AgentCalls, Callee, PythonTarget, file_of, find_target, shape_of
from steadyhand.builtin.agents.return_value import read_returned
from steadyhand.builtin.agents.trajectory import TrajectoryReporter
from steadyhand.errors import AgentError, TrialError
from steadyhand.ports.agent import Reply, TrialContext, Turn
from steadyhand.records.base import Record, UnreadableValue, plain_text
from steadyhand.records.chat import Attempt, ChatRequest, ChatResponse, FinishReason
from steadyhand.user_file import fault

_PIECES_AT_A_STRETCH = 64
_FLUSH_MS = 5000


class StreamingCall:
    """A `ports.model.ChatModel` for one turn, so that the pieces of the reply are recorded with their arrival times."""

    def __init__(
        self,
        name: str,
        begin: Callable[[], AsyncIterator[Any]],
        guard: Callable[[Awaitable[Any]], Awaitable[Any]],
        blame: Callable[[BaseException, str], AgentError],
    ) -> None:
        self.name: str = name
        self._begin = begin
        self._guard = guard
        self._blame = blame

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        """Raises `AgentError` for what the agent raises, and for a piece that is not text."""
        try:
            return await self._stream(zero)
        except TrialError:
            raise
        except Exception as error:
            raise self._blame(error, "raised") from error

    async def _stream(self, zero: float) -> ChatResponse:
        sent = perf_counter()
        pieces: list[str] = []
        chunks: list[tuple[float, int]] = []
        first: float | None = None
        source = self._begin()
        try:
            while True:
                try:
                    piece = await self._guard(source.__anext__())
                except StopAsyncIteration:
                    break
                now = perf_counter()
                if not isinstance(piece, str):
                    raise AgentError(f"it yielded a {type(piece).__name__}; expected text; or return a list of them")
                if piece:
                    first = now if first is None else first
                    pieces.append(piece)
                    chunks.append((round((now - sent) * 1000.0, 3), len(piece)))
                    if len(pieces) % _PIECES_AT_A_STRETCH == 0:
                        # Without this, a generator that never awaits would escape its time limit.
                        await asyncio.sleep(0)
        finally:
            if isinstance(source, AsyncGenerator):
                await source.aclose()
        ended = perf_counter()
        attempt = Attempt(
            started_ms=_after(zero, sent),
            sent_ms=_after(zero, sent),
            first_token_ms=None if first is None else _after(zero, first),
            last_byte_ms=_after(zero, ended),
            streamed=True,
        )
        return ChatResponse(
            text="".join(pieces), attempt=attempt, chunks=tuple(chunks), finish_reason=FinishReason.STOP
        )

    async def close(self) -> None:
        pass


def _after(zero: float, moment: float) -> float:
    return round((moment - zero) * 1000.0, 3)


class CallLimits(Record):
    """`turn_s` is the time limit of a turn if the scenario sets none; `block_s`, how long a coroutine may block the
    event loop."""

    turn_s: float
    block_s: float


class CallableAgent:
    """Calls the object named by `package.module:name`, with arguments by parameter name."""

    def __init__(self, target: str, folder: Path, limits: CallLimits, *, found: Any = None) -> None:
        """`found` is the object itself, if it is already at hand.

        Raises `SetupError` if the target cannot be imported, or has a required parameter that we do not provide.
        """
        self.name: str = f"python:{target}"
        self._limits: CallLimits = limits
        self._target: PythonTarget = (
            find_target(target, folder) if found is None else PythonTarget(found=found, file=file_of(found))
        )
        self._shape: AgentCalls = shape_of(self._target.found, f"agent {self.name}")
        self.reports_actions: bool = False
        """Whether the last returned value included its actions."""
        self._instance: Any = None
        self._trial: TrialContext | None = None
        self._reporter: TrajectoryReporter | None = None
        self._workspace: Path | None = None
        self._calls: list[CallArguments] = []
        self._turns: int = 0

    @property
    def names(self) -> frozenset[str]:
        """Its parameters."""
        return self._shape.names

    async def open(self, trial: TrialContext) -> None:
        self._trial = trial
        self._reporter = TrajectoryReporter(trial)
        if "workspace" in self._shape.names:
            try:
                self._workspace = await workspace_of(trial, f"{self.name} asks for `workspace`")
            except AgentError as error:
                raise AgentError(f"{error}; ask for `environment` instead") from error
        if self._shape.made is not None:
            make = Callee(wanted=self._shape.made, on_loop=self._shape.respond.on_loop)
            self._instance = await self._lifecycle("__init__", make, self._target.found)
            if self._shape.open is not None:
                await self._lifecycle("open", self._shape.open, self._instance.open)

    async def respond(self, turn: Turn) -> Reply:
        assert self._reporter is not None, "respond before open"
        callee = self._shape.respond
        function = self._instance.respond if self._shape.made is not None else self._target.found
        offer = self._arguments(turn, in_thread=not callee.on_loop)
        self._turns += 1
        traceparent = self._opened().addresses.traceparent(self._turns)
        try:
            with _current_trace(traceparent):
                value = await self._limited(
                    offer.bind(function, callee.wanted), callee, limit_of(turn, self._limits.turn_s), turn
                )
            if traceparent is not None:
                await _flush_spans()
            returned = read_returned(value, turn)
            self.reports_actions = returned.tells
            self._reporter.taken(returned.steps)
            for note in returned.notes:
                self._reporter.note(f"{self.name}: {note}")
            for warning in returned.warnings:
                self._reporter.note(f"{self.name}: {warning}", level="warning")
            for each in (offer, *self._calls):
                each.check()
        except (AgentError, UnreadableValue) as error:
            raise AgentError(f"{self.name}: {error}") from error
        else:
            reply = returned.reply
            text = plain_text(reply.text)
            return reply if text is reply.text else msgspec.structs.replace(reply, text=text)
        finally:
            offer.end()

    async def close(self) -> None:
        instance, self._instance = self._instance, None
        try:
            if instance is not None and self._shape.close is not None:
                await self._lifecycle("close", self._shape.close, instance.close)
            for offer in self._calls:
                offer.check()
        finally:
            for offer in self._calls:
                offer.end()
            self._calls.clear()
            self._trial = self._reporter = None

    async def _lifecycle(self, name: str, callee: Callee, function: Callable[..., Any]) -> Any:
        """Call `__init__`, `open` or `close`. The agent may keep its arguments, which work until it is closed."""
        offer = self._arguments(None, in_thread=not callee.on_loop)
        self._calls.append(offer)
        bound = offer.bind(function, callee.wanted)

        async def on_loop() -> Any:
            value = bound()
            return await value if inspect.isawaitable(value) else value

        try:
            return await self._limited(on_loop if callee.on_loop else bound, callee, self._limits.turn_s, None)
        except AgentError as error:
            raise AgentError(f"{self.name}, {name}: {error}") from error

    async def _limited(self, call: Callable[[], Any], callee: Callee, limit_s: float | None, turn: Turn | None) -> Any:
        """The result of the call. Raises `AgentError`, or a `TrialError` that passed through the agent's code."""
        thread = None if callee.on_loop else FunctionThread(lambda: _text_of_pieces(call()), f"steadyhand {self.name}")
        limit = asyncio.timeout(limit_s)
        try:
            async with limit:
                return await self._outcome(call, callee, thread, turn)
        except TimeoutError as error:
            if not limit.expired():
                raise self._blame(error, "raised") from error
            raise AgentError(f"it did not answer within {limit_s:g} s{self._stuck(thread)}") from None
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and not task.cancelling():
                raise self._blame(error, "raised") from error
            if thread is not None and self._reporter is not None and (stuck := self._stuck(thread)):
                self._reporter.note(f"{self.name} ran out of time{stuck}", level="warning")
            raise
        except TrialError:
            raise
        except (Exception, SystemExit, KeyboardInterrupt, GeneratorExit) as error:
            raise self._blame(error, "raised") from error

    async def _outcome(
        self, call: Callable[[], Any], callee: Callee, thread: FunctionThread | None, turn: Turn | None
    ) -> Any:
        value: Any = None
        if thread is not None:
            value = await thread.run()
        elif not callee.streams:
            value = call()
        if inspect.isawaitable(value):
            value = await self._guard(value)
        if turn is not None and (callee.streams or hasattr(value, "__aiter__")):
            trial = self._opened()
            begin = call if callee.streams else value.__aiter__
            stream = StreamingCall(self.name, begin, self._guard, self._blame)
            response = await trial.call(stream, ChatRequest(messages=turn.messages, seed=trial.seed, purpose="agent"))
            return response.text
        return value

    def _guard(self, work: Awaitable[Any]) -> Awaitable[Any]:
        return Guarded(work, limit_s=self._limits.block_s, file=self._target.file)

    def _stuck(self, thread: FunctionThread | None) -> str:
        place = thread.place(self._target.file) if thread is not None else None
        return "" if place is None else f"; it was at {place}, and its thread is still running"

    def _blame(self, error: BaseException, what: str) -> AgentError:
        return AgentError(f"{what} {fault(error, self._target.file)}")

    def _arguments(self, turn: Turn | None, *, in_thread: bool) -> CallArguments:
        assert self._reporter is not None, "used before open"
        return CallArguments(self._opened(), self._reporter, workspace=self._workspace, turn=turn, in_thread=in_thread)

    def _opened(self) -> TrialContext:
        assert self._trial is not None, "used before open"
        return self._trial


def _text_of_pieces(value: Any) -> Any:
    """The reply that a generator yields piece by piece, read to its end; any other value as it is."""
    if not inspect.isgenerator(value):
        return value
    pieces = list(cast("Iterable[Any]", value))
    return "".join(pieces) if all(isinstance(piece, str) for piece in pieces) else pieces


@contextlib.contextmanager
def _current_trace(traceparent: str | None) -> Generator[None]:
    """OpenTelemetry spans that the agent starts meanwhile become children of the turn's span.

    Does nothing if OpenTelemetry is not installed.
    """
    if traceparent is None or importlib.util.find_spec("opentelemetry") is None:
        yield
        return
    try:
        from opentelemetry import context as otel_context
        from opentelemetry import trace as otel_trace
    except ImportError:
        yield
        return
    context: Any = otel_context
    trace: Any = otel_trace
    _, trace_id, span_id, _ = traceparent.split("-")
    span = trace.NonRecordingSpan(
        trace.SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=trace.TraceFlags(1))
    )
    token = context.attach(trace.set_span_in_context(span))
    try:
        yield
    finally:
        context.detach(token)


async def _flush_spans() -> None:
    """Have the agent's exporter send what it has collected, if it has one: the turn is over."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return
    flush = getattr(trace.get_tracer_provider(), "force_flush", None)
    if callable(flush):
        with contextlib.suppress(Exception):  # the trace is then incomplete, which is detected when it is read
            await asyncio.to_thread(flush, _FLUSH_MS)
