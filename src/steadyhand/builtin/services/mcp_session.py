"""A client's session with an MCP server: requests, answers, and the tools that it has.

The part of the protocol that uses tools is written here rather than taken from the SDK: its majors have different
interfaces, and a user's own programs may need either of them beside us.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

import msgspec

from steadyhand.errors import ServiceError
from steadyhand.ports.agent import TrialContext
from steadyhand.records.base import shorten
from steadyhand.version import __version__

LARGEST_ANSWER = 16 * 1024 * 1024
STATELESS = "2026-07-28"
"""The version of the protocol in which each request names its version."""
_AGREED = "2025-11-25"
"""The version of the protocol that we propose with `initialize`; a server may choose an older one."""
_OTHER_VERSION, _NO_SUCH_METHOD = -32022, -32601
_META = "io.modelcontextprotocol/"
_ABOUT_US = {"name": "steadyhand", "version": __version__}
TOO_LARGE = f"sent an answer of more than {LARGEST_ANSWER // 2**20} MiB"
NOT_A_MESSAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for something that is not a message."""
_PAGES = 100
_SHOWN = 500
R = TypeVar("R", bound=msgspec.Struct)


class McpMessage(msgspec.Struct):
    """A JSON-RPC message: a request, or without `id` a notification, or without `method` an answer."""

    method: str | None = None
    id: str | int | None = None
    params: dict[str, Any] = {}
    result: dict[str, Any] | None = None
    error: McpFailure | None = None


class McpFailure(msgspec.Struct):
    code: int
    message: str = ""


def read_message(raw: bytes) -> McpMessage:
    """Raises one of `NOT_A_MESSAGE`."""
    message = msgspec.json.decode(raw, type=McpMessage)
    if message.method is None and message.result is None and message.error is None:
        raise msgspec.DecodeError("neither a request nor an answer")
    return message


class McpLine(Protocol):
    """An open connection. `version` is the version of the protocol that client and server agreed on."""

    version: str

    async def send(self, message: dict[str, Any]) -> None: ...


class McpEnds(Protocol):
    """Who listens to a connection."""

    def received(self, message: McpMessage) -> None: ...

    def failed(self, reason: str) -> None:
        """The server is lost."""
        ...


class McpConnection(Protocol):
    """A connection to an MCP server. `name` is used in messages and contains no keys."""

    @property
    def name(self) -> str: ...

    def open(self, trial: TrialContext, ends: McpEnds) -> AbstractAsyncContextManager[McpLine]:
        """Raises `ServiceError`."""
        ...


class McpRefused(Exception):
    """The server answered with an error of the protocol."""

    def __init__(self, failure: McpFailure) -> None:
        super().__init__(f"answered with error {failure.code}: {shorten(failure.message, _SHOWN)}")
        self.failure: McpFailure = failure


class ListedTool(msgspec.Struct, rename="camel"):
    name: str
    input_schema: dict[str, Any]
    title: str | None = None
    description: str | None = None
    output_schema: dict[str, Any] | None = None


class _ToolPage(msgspec.Struct, rename="camel"):
    tools: list[ListedTool]
    next_cursor: str | None = None


class ToolResult(msgspec.Struct, rename="camel"):
    content: list[dict[str, Any]]
    structured_content: dict[str, Any] | None = None
    is_error: bool = False


class _Agreement(msgspec.Struct, rename="camel"):
    protocol_version: str


class McpSession:
    """Requests and their answers. `changed` is called when the server says that its tools did."""

    def __init__(self, line: McpLine, changed: Callable[[], None]) -> None:
        self._line = line
        self._changed = changed
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._replies: set[asyncio.Task[None]] = set()

    async def begin(self) -> None:
        """Raises `McpRefused` and `msgspec.ValidationError`."""
        proposed = {"protocolVersion": _AGREED, "capabilities": {}, "clientInfo": _ABOUT_US}
        try:
            answer = await self.request("initialize", proposed, _Agreement)
        except McpRefused as refused:
            if refused.failure.code not in (_OTHER_VERSION, _NO_SUCH_METHOD):
                raise
            self._line.version = STATELESS
        else:
            self._line.version = answer.protocol_version
            await self._line.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def request(self, method: str, params: dict[str, Any], shape: type[R]) -> R:
        """Raises `McpRefused` and `msgspec.ValidationError`."""
        number = next(self._numbers)
        if self._line.version == STATELESS:
            about = {"protocolVersion": STATELESS, "clientInfo": _ABOUT_US, "clientCapabilities": {}}
            params = {**params, "_meta": {f"{_META}{name}": value for name, value in about.items()}}
        self._waiting[number] = answer = asyncio.get_running_loop().create_future()
        try:
            await self._line.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            return msgspec.convert(await answer, shape)
        finally:
            del self._waiting[number]

    def received(self, message: McpMessage) -> None:
        if message.method is not None:
            if message.id is not None:
                self._reply(message)
            elif message.method == "notifications/tools/list_changed":
                self._changed()
            return
        waiting = self._waiting.get(int(message.id)) if str(message.id).isdecimal() and message.id is not None else None
        if waiting is None or waiting.done():
            return
        if message.error is not None:
            waiting.set_exception(McpRefused(message.error))
        else:
            waiting.set_result(message.result or {})

    def _reply(self, asked: McpMessage) -> None:
        """We declare nothing that a server could ask for; it may only look whether we are there."""
        missing = {"code": _NO_SUCH_METHOD, "message": f"this client has no method {asked.method!r}"}
        outcome: dict[str, Any] = {"result": {}} if asked.method == "ping" else {"error": missing}
        task = asyncio.create_task(self._line.send({"jsonrpc": "2.0", "id": asked.id, **outcome}))
        self._replies.add(task)
        task.add_done_callback(self._replies.discard)

    async def tools(self) -> dict[str, ListedTool]:
        found: dict[str, ListedTool] = {}
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await self.request("tools/list", {} if cursor is None else {"cursor": cursor}, _ToolPage)
            found.update((tool.name, tool) for tool in page.tools)
            cursor = page.next_cursor
            if cursor is None:
                return found
        raise ServiceError(f"lists its tools on more than {_PAGES} pages")
