"""Requests to one address of one server, over connections that are kept."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Mapping
from time import perf_counter
from urllib.parse import quote, urlsplit

from steadyhand.builtin.models.http.connection import Connection, Response
from steadyhand.builtin.models.stamps import Stamps

_IDLE_S = 30.0


class CannotConnect(Exception):
    """There is no connection to the server; the text says why."""


class _Turns:
    """Wakes who waits for an answer one by one, with a look at the sockets in between.

    Answers come in clusters. Whoever has one goes on to check and record it, and if all of a cluster did so in the same
    round of the event loop, what arrives meanwhile would be stamped late by the work of all of them.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._taken: bool = False

    def wake(self, waiter: asyncio.Future[None]) -> None:
        self._waiting.append(waiter)
        if not self._taken:
            self._taken = True
            self._next()

    def _next(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                waiter.get_loop().call_soon(self._next)
                return
        self._taken = False


class HttpClient:
    """Posts JSON. Makes as many connections as there are requests at a time. Must be used on one event loop."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        self._host: str = parts.hostname or ""
        secure = parts.scheme == "https"
        self._port: int = parts.port or (443 if secure else 80)
        self._context: ssl.SSLContext | None = _context() if secure else None
        target = quote(parts.path or "/", safe="/%:=&~+!$,;'@()*") + (f"?{parts.query}" if parts.query else "")
        self._head: bytes = _head(target, _authority(self._host, parts.port), headers)
        self._idle: list[Connection] = []
        self._connections: set[Connection] = set()
        self._closed: bool = False
        self._turns = _Turns()

    async def post(self, body: bytes, stamps: Stamps, *, deadline: float) -> tuple[Connection, Response]:
        """Send the body and wait for the head of the answer. `connection.release` or `close` has to follow.

        Raises `CannotConnect`, `Broken` or `NotHttp`, and `TimeoutError` when it is not over by `deadline`, a time of
        the event loop; so does the rest of the answer.
        """
        connection = self._kept()
        if connection is None:
            async with asyncio.timeout_at(deadline):
                connection = await self._connect()
        stamps.connected = perf_counter()
        connection.expire_at(deadline)
        try:
            response = await connection.send(self._head % len(body) + body, stamps)
            if response.status is None:
                await response.head()
        except BaseException:
            connection.close()
            raise
        return connection, response

    async def close(self) -> None:
        """Close every connection, also those in use."""
        self._closed = True
        for connection in tuple(self._connections):
            connection.close()
        self._idle.clear()
        await asyncio.sleep(0)

    def _kept(self) -> Connection | None:
        now = perf_counter()
        while self._idle:
            connection = self._idle.pop()
            if connection.open and now - connection.idle_since < _IDLE_S and not connection.hung_up:
                return connection
            connection.close()
        return None

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(
                lambda: Connection(freed=self._freed, lost=self._connections.discard, wake=self._turns.wake),
                self._host,
                self._port,
                ssl=self._context,
            )
        except (OSError, ssl.SSLError) as error:
            raise CannotConnect(str(error) or type(error).__name__) from error
        self._connections.add(connection)
        return connection

    def _freed(self, connection: Connection) -> None:
        if self._closed:
            connection.close()
            return
        connection.idle_since = perf_counter()
        self._idle.append(connection)


def _context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _authority(host: str, port: int | None) -> str:
    shown = f"[{host}]" if ":" in host else host.encode("idna").decode("ascii")
    return shown if port is None else f"{shown}:{port}"


def _head(target: str, authority: str, headers: Mapping[str, str]) -> bytes:
    """Everything before the body, with a place for its length."""
    named = {"host": ("Host", authority), "content-type": ("Content-Type", "application/json")}
    named.update((name.lower(), (name, value)) for name, value in headers.items())
    lines = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in named.values())]
    text = "\r\n".join(lines).encode().replace(b"%", b"%%")
    return text + b"\r\nContent-Length: %d\r\n\r\n"
