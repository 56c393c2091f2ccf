"""A real MCP server behind the mocks: a user's program, one process per trial, or a server at a URL.

Its tools are the methods of the service. Errors returned by a tool are for the agent to handle; a server that is
unreachable, dies, hangs or sends something unreadable is an error of the trial.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec

from steadyhand.builtin.services.mcp_session import (
    ListedTool,
    McpConnection,
    McpMessage,
    McpRefused,
    McpSession,
    ToolResult,
)
from steadyhand.errors import ServiceError, SetupError
from steadyhand.ports.agent import TrialContext
from steadyhand.ports.services import ServiceAnswer, ServiceFault, ServiceMethod
from steadyhand.records.base import plain, shorten

_GRACE_S = 5.0
_SHOWN = 500
_SAID_WRONG = frozenset({-32602, -32002, -32042})
"""Protocol codes for mistakes of the caller: parameters, a missing resource, missing consent."""
T = TypeVar("T")


class McpService:
    """A `ToolServer`. Its session has its own task, because it must end in the task that started it."""

    def __init__(self, service: str, connection: McpConnection, *, timeout_s: float, start_timeout_s: float) -> None:
        self._service = service
        self._connection = connection
        self._timeout_s = timeout_s
        self._start_timeout_s = start_timeout_s
        self._session: McpSession | None = None
        self._owner: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._down: asyncio.Future[ServiceError] | None = None
        self._calls: set[asyncio.Task[Any]] = set()
        self._tools: dict[str, ListedTool] = {}
        self._stale = False

    async def start(self, trial: TrialContext) -> None:
        """Raises `ServiceError`."""
        self._down = asyncio.get_running_loop().create_future()
        ready = asyncio.Event()
        self._owner = asyncio.create_task(self._hold(trial, ready))
        await self._within(self._start_timeout_s, ready.wait(), "did not start")

    async def tools(self) -> Sequence[ServiceMethod]:
        await self._refreshed()
        return [
            ServiceMethod(
                service=self._service,
                method=name,
                description=tool.description or tool.title or "",
                parameters=plain(tool.input_schema),
            )
            for name, tool in self._tools.items()
        ]

    async def call_tool(self, method: str, args: list[Any], named: dict[str, Any]) -> ServiceAnswer:
        await self._refreshed()
        tool = self._tools.get(method)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            message = f"the service {self._service!r} has no method {method!r} (it has: {known})"
            raise ServiceFault(message, code="METHOD_NOT_FOUND")
        arguments = _arguments(tool, f"{self._service}.{method}", args, named)
        # It continues if its caller is cancelled: an agent that gives up on a hanging server must not hide the hang.
        task = asyncio.create_task(self._call(tool, arguments))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        task.add_done_callback(_looked_at)
        return await asyncio.shield(task)

    async def settle(self) -> Exception | None:
        if self._calls:
            await asyncio.wait(tuple(self._calls))
        return self._failure

    async def stop(self) -> None:
        if self._owner is None:
            return
        if await self.settle() is None and self._session is not None:
            self._stopping.set()
            await asyncio.wait([self._owner], timeout=_GRACE_S)
        self._owner.cancel()
        await asyncio.wait([self._owner])

    @property
    def _failure(self) -> ServiceError | None:
        return self._down.result() if self._down is not None and self._down.done() else None

    async def _hold(self, trial: TrialContext, ready: asyncio.Event) -> None:
        """Keep the session open until it is stopped or lost."""
        try:
            async with self._connection.open(trial, self) as line:
                self._session = McpSession(line, self._changed)
                await self._session.begin()
                self._tools = await self._session.tools()
                ready.set()
                await self._stopping.wait()
        except Exception as error:  # noqa: BLE001 - whatever it is, the service is lost by it
            self.failed(_reason(error))

    def received(self, message: McpMessage) -> None:
        self._opened().received(message)

    def _changed(self) -> None:
        self._stale = True

    def failed(self, reason: str) -> None:
        """Only the first reason counts; later ones are consequences."""
        if self._down is not None and not self._down.done() and not self._stopping.is_set():
            self._down.set_result(self._error(reason))

    def _error(self, reason: str) -> ServiceError:
        return ServiceError(f"service {self._service!r}: the MCP server {self._connection.name} {reason}")

    async def _refreshed(self) -> None:
        if self._stale:
            self._stale = False
            self._tools = await self._within(self._timeout_s, self._opened().tools(), "did not list its tools")

    async def _call(self, tool: ListedTool, arguments: dict[str, Any]) -> ServiceAnswer:
        asked = self._opened().request("tools/call", {"name": tool.name, "arguments": arguments}, ToolResult)
        result = await self._within(self._timeout_s, asked, f"did not answer {tool.name!r}")
        answer = answer_of(tool, result)
        if result.is_error:
            raise ServiceFault(_text(answer.content or ()) or f"{tool.name} failed", code="TOOL_ERROR")
        return answer

    async def _within(self, limit_s: float, work: Coroutine[Any, Any, T], else_it: str) -> T:
        """The result. If the call times out or the server is lost first, the service has failed."""
        assert self._down is not None, "used before start"
        task = asyncio.create_task(work)
        try:
            done, _ = await asyncio.wait((task, self._down), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            if task not in done:
                self.failed(f"{else_it} within {limit_s:g} s")
                raise self._failure or self._error("was stopped")
            return await _answered(task, self._fail_with)
        finally:
            task.cancel()

    def _fail_with(self, reason: str) -> ServiceError:
        self.failed(reason)
        return self._failure or self._error(reason)

    def _opened(self) -> McpSession:
        assert self._session is not None, "used before start"
        return self._session


async def _answered(task: Awaitable[T], fail_with: Callable[[str], ServiceError]) -> T:
    try:
        return await task
    except McpRefused as refused:
        code = refused.failure.code
        if code in _SAID_WRONG or not -32768 <= code <= -32000:
            raise ServiceFault(refused.failure.message, code=str(code)) from refused
        raise fail_with(str(refused)) from refused
    except Exception as error:
        raise fail_with(_reason(error)) from error


def _arguments(tool: ListedTool, name: str, args: list[Any], named: dict[str, Any]) -> dict[str, Any]:
    """The named parameters. Positional ones are a single object, or the tool has a parameter called `args`."""
    schema: Mapping[str, Any] = tool.input_schema
    if "args" in (schema.get("properties") or ()) and "args" not in named:
        return {**named, "args": args} if args or "args" in (schema.get("required") or ()) else named
    if not args:
        return named
    if len(args) == 1 and isinstance(args[0], dict) and not named:
        return cast("dict[str, Any]", args[0])
    raise ServiceFault(f"{name} takes named parameters only", code="BAD_ARGUMENTS")


def answer_of(tool: ListedTool, result: ToolResult) -> ServiceAnswer:
    """What a tool returned, as a service's answer."""
    content = tuple(cast("dict[str, Any]", plain(block)) for block in result.content)
    structured = cast("dict[str, Any] | None", plain(result.structured_content))
    return ServiceAnswer(value=_value(tool, structured, content), content=content, structured=structured)


def _value(tool: ListedTool, structured: dict[str, Any] | None, content: Sequence[dict[str, Any]]) -> Any:
    """The result for a caller that does not use MCP: the structured answer, else the text, else the content blocks.

    Servers wrap a value that is not an object as `result`, as declared in the tool's output schema.
    """
    if structured is not None:
        schema: dict[str, Any] = tool.output_schema or {}
        wrapped = list(structured) == ["result"] == list(schema.get("properties") or ())
        return structured["result"] if wrapped else structured
    return _text(content) if all(block.get("type") == "text" for block in content) else {"content": list(content)}


def _text(content: Sequence[dict[str, Any]]) -> str:
    return "\n".join(str(block.get("text", "")) for block in content if block.get("type") == "text")


def _looked_at(task: asyncio.Task[Any]) -> None:
    """The service keeps the failure; nothing may be waiting for the task."""
    if not task.cancelled():
        task.exception()


def _reason(error: BaseException) -> str:
    """The problem with the server, as a phrase to follow its name."""
    match error:
        case ServiceError() | SetupError() | McpRefused():
            return str(error)
        case msgspec.ValidationError():
            return f"sent an invalid MCP response: {shorten(str(error), _SHOWN)}"
        case _:
            return f"sent a message that cannot be read: {type(error).__name__}: {shorten(str(error), _SHOWN)}"
