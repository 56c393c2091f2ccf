"""A connection to an MCP server over streamable HTTP: messages are posted, and answers arrive as JSON or as events."""

from __future__ import annotations

import asyncio
import contextlib
from base64 import b64encode
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from steadyhand.builtin.services.mcp_session import (
    LARGEST_ANSWER,
    NOT_A_MESSAGE,
    STATELESS,
    TOO_LARGE,
    McpEnds,
    read_message,
)
from steadyhand.http.client import CannotConnect, HttpClient
from steadyhand.http.connection import Broken, Connection, NotHttp, Response
from steadyhand.http.stamps import Stamps
from steadyhand.ports.agent import TrialContext
from steadyhand.records.base import shorten
from steadyhand.wire.stream import EventStream

_OPEN_S = 30.0
_NEVER_S = 7 * 24 * 3600.0
"""The service has a time limit of its own for every answer."""
_GOODBYE_S = 2.0
_SHOWN = 200
_LOST = (Broken, NotHttp, TimeoutError)


class HttpConnection:
    """A server at a URL. It is sent only the headers that the user configured for it; redirects are not followed."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        own = {} if login == ":" else {"Authorization": f"Basic {b64encode(login.encode()).decode()}"}
        self._url = url
        self._headers = {**own, "Accept": "application/json, text/event-stream", **headers}
        shown = parts.netloc.rpartition("@")[2]
        self.name: str = f"at {parts._replace(netloc=shown, query='', fragment='').geturl()}"

    @contextlib.asynccontextmanager
    async def open(self, trial: TrialContext, ends: McpEnds) -> AsyncGenerator[_HttpLine]:
        line = _HttpLine(self._url, self._headers, ends)
        try:
            yield line
        finally:
            await line.close()


class _HttpLine:
    """An `McpLine`."""

    def __init__(self, url: str, headers: Mapping[str, str], ends: McpEnds) -> None:
        self.version: str = ""
        self._clients: dict[str, HttpClient] = {
            method: HttpClient(url, headers, method=method) for method in ("POST", "GET", "DELETE")
        }
        self._ends = ends
        self._session: str = ""
        self._tasks: set[asyncio.Task[None]] = set()

    async def send(self, message: dict[str, Any]) -> None:
        """A request is posted by a task of its own: others can be sent before it is answered."""
        if "id" in message and "method" in message:
            self._start(self._request(message))
            return
        with contextlib.suppress(CannotConnect, *_LOST):  # the next request will say so
            connection, response = await self._post("POST", msgspec.json.encode(message), self._headers(message))
            await response.body(limit=LARGEST_ANSWER)
            connection.close()
        if message.get("method") == "notifications/initialized":
            self._start(self._listen())

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._session:
            with contextlib.suppress(CannotConnect, *_LOST):
                async with asyncio.timeout(_GOODBYE_S):
                    await self._post("DELETE", b"", self._headers({}))
        for client in self._clients.values():
            await client.close()

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _request(self, message: dict[str, Any]) -> None:
        """Post a request and hand over what comes back: the server may send other messages before its answer."""
        try:
            connection, response = await self._post("POST", msgspec.json.encode(message), self._headers(message))
        except CannotConnect as error:
            self._ends.failed(f"cannot be reached: {error}")
            return
        except _LOST as error:
            self._ends.failed(f"did not answer: {error}")
            return
        try:
            if (reason := await self._answered(message["id"], response)) is not None:
                self._ends.failed(reason)
            self._session = response.headers.get("mcp-session-id", self._session)
        except _LOST as error:
            self._ends.failed(f"did not finish its answer: {error}")
        finally:
            await self._read_to_end(connection, response)

    async def _answered(self, number: int, response: Response) -> str | None:
        """What is wrong with the answer, or None. Raises as `Response.body` does."""
        if response.streamed and response.status == 200:
            return await self._events(response, number)
        body = await response.body(limit=LARGEST_ANSWER)
        if response.received > LARGEST_ANSWER:
            return TOO_LARGE
        try:
            message = read_message(body)
        except NOT_A_MESSAGE as error:
            return f"answered with status {response.status}" if response.status != 200 else _unreadable(error, body)
        if response.status != 200 and message.error is None:
            return f"answered with status {response.status}"
        message.id = number  # a server that could not read the request does not know it
        self._ends.received(message)
        return None

    async def _events(self, response: Response, number: int | None) -> str | None:
        """Hand over each event's message, up to the answer to request `number`. As `_answered`."""
        events = EventStream()
        while block := await response.arrival():
            if response.received > LARGEST_ANSWER:
                return TOO_LARGE
            for data in events.feed(block)[0]:
                if not data:
                    continue
                try:
                    message = read_message(data)
                except NOT_A_MESSAGE as error:
                    return _unreadable(error, data)
                self._ends.received(message)
                if message.method is None and number is not None and str(message.id) == str(number):
                    return None
        return None if number is None else "did not finish its answer: the stream ended without it"

    async def _listen(self) -> None:
        """What the server says without being asked. Few servers say anything, and none has to."""
        if self.version == STATELESS:
            return
        with contextlib.suppress(CannotConnect, *_LOST):
            connection, response = await self._post("GET", b"", self._headers({}))
            if response.streamed and response.status == 200:
                await self._events(response, None)
            connection.close()

    async def _post(self, method: str, body: bytes, headers: Mapping[str, str]) -> tuple[Connection, Response]:
        deadline = asyncio.get_running_loop().time() + _NEVER_S
        return await self._clients[method].post(body, Stamps(), deadline=deadline, headers=headers)

    def _headers(self, message: Mapping[str, Any]) -> dict[str, str]:
        found = {"Mcp-Session-Id": self._session} if self._session else {}
        if self.version:
            found["MCP-Protocol-Version"] = self.version
        if self.version == STATELESS:
            found["Mcp-Method"] = message["method"]
            if (name := message["params"].get("name")) is not None:
                found["Mcp-Name"] = name
        return found

    @staticmethod
    async def _read_to_end(connection: Connection, response: Response) -> None:
        await response.end(0.05)
        connection.release() if response.complete else connection.close()


def _unreadable(error: Exception, data: bytes) -> str:
    shown = shorten(data.decode("utf-8", "replace"), _SHOWN)
    return f"sent a message that cannot be read: {type(error).__name__}: {error}: {shown!r}"
