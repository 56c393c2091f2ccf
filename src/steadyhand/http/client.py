"""Requests to one endpoint over kept-alive connections."""

from __future__ import annotations

import asyncio
import functools
import os
import socket
import ssl
from collections import deque
from collections.abc import Mapping
from time import perf_counter
from urllib.parse import quote, urlsplit

from steadyhand.http.connection import Broken, Connection, Response
from steadyhand.http.name_lookup import connected_socket
from steadyhand.http.proxy import Proxy, proxy_for
from steadyhand.http.stamped_socket import KERNEL_STAMPS, StampedSocket
from steadyhand.http.stamps import Stamps

_IDLE_S = 30.0
_STALE_S = 1.0
"""A stale connection fails within one round trip. If it fails later, it broke while the server was working."""
_TOGETHER = 16
"""Enough to keep the code in the processor's cache, few enough to be done in a millisecond or two."""
_ROUNDS = 4
"""About as many as the engine needs for one trial after its answer (`engine.trial.keep_step`)."""
_NO_HEADERS: dict[str, str] = {}


class CannotConnect(Exception):
    """Could not connect to the server; the message says why."""


class WakeQueue:
    """Wakes the tasks that wait for an answer: `at_once` of them, then more after `rounds` of the event loop, so that
    the sockets are polled in between.

    Answers arrive in clusters, and each task then checks and records its own. Where we stamp arrivals by our own clock,
    tasks are woken one by one: if a whole cluster continued in the same round, all of that work would delay the stamps
    of whatever arrives meanwhile. Where the kernel stamps them, several tasks continue together, which is cheaper.
    """

    def __init__(self, *, at_once: int, rounds: int) -> None:
        self._at_once: int = at_once
        self._rounds: int = rounds
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._rounds_left: int = 0
        self._scheduled: bool = False

    def wake(self, waiter: asyncio.Future[None]) -> None:
        self._waiting.append(waiter)
        if not self._scheduled:
            self._scheduled = True
            loop = waiter.get_loop()
            loop.call_soon(self._next, loop)

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._rounds_left:
            self._rounds_left -= 1
        elif self._wake_some():
            self._rounds_left = self._rounds - 1
        else:
            self._scheduled = False
            return
        loop.call_soon(self._next, loop)

    def _wake_some(self) -> int:
        woken = 0
        while self._waiting and woken < self._at_once:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                woken += 1
        return woken


class HttpClient:
    """Posts JSON. Opens as many connections as there are concurrent requests. Must be used on one event loop.

    Uses the proxy set in the environment. Raises `SetupError` if that is not possible.
    """

    def __init__(self, url: str, headers: Mapping[str, str], *, method: str = "POST") -> None:
        parts = urlsplit(url)
        self.proxy: Proxy | None = proxy_for(url, os.environ)
        self._host: str = parts.hostname or ""
        secure = parts.scheme == "https"
        self._port: int = parts.port or (443 if secure else 80)
        self._context: ssl.SSLContext | None = _context() if secure else None
        target = quote(parts.path or "/", safe="/%:=&~+!$,;'@()*") + (f"?{parts.query}" if parts.query else "")
        shown = f"[{self._host}]" if ":" in self._host else self._host.encode("idna").decode("ascii")
        authority = shown if parts.port is None else f"{shown}:{parts.port}"
        if self.proxy is not None and not secure:  # no tunnel: the proxy forwards each request
            target = f"http://{authority}{target}"
            if self.proxy.authorization:
                headers = {**headers, "Proxy-Authorization": self.proxy.authorization}
        self._line: str = f"{method} {target}"
        self._host_header: str = authority
        self._headers: dict[str, str] = dict(headers)
        self._head: bytes = _head(self._line, authority, headers)
        self._idle: list[Connection] = []
        self._connections: set[Connection] = set()
        self._closed: bool = False
        stamped = KERNEL_STAMPS and self._context is None
        self._wakes = WakeQueue(at_once=_TOGETHER, rounds=_ROUNDS) if stamped else WakeQueue(at_once=1, rounds=1)

    async def post(
        self, body: bytes, stamps: Stamps, *, deadline: float, headers: Mapping[str, str] = _NO_HEADERS
    ) -> tuple[Connection, Response]:
        """Send the body and wait for the head of the answer. Call `connection.release` or `close` afterwards.

        `headers` are for this request only, and replace those of the same name.

        Raises `CannotConnect`, `Broken` or `NotHttp`, and `TimeoutError` if it is not done by `deadline`, a time of the
        event loop. Reading the rest of the answer raises the same errors.

        A server may close a kept connection just as we reuse it. A request that fails at once, before any byte of an
        answer, was not read: it is sent again on a new connection, and timed from then on.
        """
        head = self._head
        if headers:
            head = _head(self._line, self._host_header, self._headers, headers)
        request = head % len(body) + body
        connection = self._idle_connection()
        if connection is not None:
            try:
                return await self._exchange(connection, request, stamps, deadline)
            except Broken:
                if not _was_stale(stamps):
                    raise
                stamps.sent = None
        async with asyncio.timeout_at(deadline):
            connection = await self._connect()
        return await self._exchange(connection, request, stamps, deadline)

    async def _exchange(
        self, connection: Connection, request: bytes, stamps: Stamps, deadline: float
    ) -> tuple[Connection, Response]:
        stamps.connected = perf_counter()
        connection.expire_at(deadline)
        try:
            response = await connection.send(request, stamps)
            if response.status is None:
                await response.head()
        except BaseException:
            connection.close()
            raise
        return connection, response

    async def close(self) -> None:
        """Close every connection, including those in use."""
        self._closed = True
        for connection in tuple(self._connections):
            connection.close()
        self._idle.clear()
        await asyncio.sleep(0)

    def _idle_connection(self) -> Connection | None:
        now = perf_counter()
        while self._idle:
            connection = self._idle.pop()
            if connection.open and now - connection.idle_since < _IDLE_S and not connection.hung_up:
                return connection
            connection.close()
        return None

    async def _connect(self) -> Connection:
        try:
            connection = await (self._connect_straight() if self.proxy is None else self._connect_through(self.proxy))
        except (OSError, ssl.SSLError) as error:
            raise CannotConnect(self._reason(error)) from error
        self._connections.add(connection)
        return connection

    def _reason(self, error: OSError) -> str:
        where = f"{self._host}:{self._port}" if self.proxy is None else f"the proxy {self.proxy.host}:{self.proxy.port}"
        return why_not_connected(error, where, tls=self._context is not None)

    def _new_connection(self) -> Connection:
        return Connection(freed=self._freed, lost=self._connections.discard, wake=self._wakes.wake)

    async def _connect_straight(self) -> Connection:
        if self._context is None:
            return await self._connect_plain(self._host, self._port)
        return await self._over_tls(await connected_socket(self._host, self._port))

    async def _connect_plain(self, host: str, port: int) -> Connection:
        if not KERNEL_STAMPS:
            loop = asyncio.get_running_loop()
            return (await loop.create_connection(self._new_connection, sock=await connected_socket(host, port)))[1]
        connection = self._new_connection()
        connection.attach(await StampedSocket.connect(host, port, connection))
        return connection

    async def _connect_through(self, proxy: Proxy) -> Connection:
        if self._context is None:
            return await self._connect_plain(proxy.host, proxy.port)
        return await self._over_tls(await proxy.tunnel(self._host, self._port))

    async def _over_tls(self, connected: socket.socket) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            made = await loop.create_connection(
                self._new_connection, sock=connected, ssl=self._context, server_hostname=self._host
            )
        except BaseException:
            connected.close()
            raise
        return made[1]

    def _freed(self, connection: Connection) -> None:
        if self._closed:
            connection.close()
            return
        connection.idle_since = perf_counter()
        self._idle.append(connection)


def why_not_connected(error: OSError, where: str, *, tls: bool) -> str:
    """Why there is no connection to `HOST:PORT`, and what to look at."""
    match error:
        case ConnectionRefusedError():
            return f"nothing listens at {where} (connection refused); is it running there?"
        case socket.gaierror():
            return f"the address of {where.rpartition(':')[0]} was not found ({error.strerror}); check its name"
        case ConnectionResetError() | ssl.SSLError(reason="WRONG_VERSION_NUMBER" | "RECORD_LAYER_FAILURE"):
            hint = "; does it speak TLS, or is its address http://?" if tls else ""
            return f"{where} does not accept the connection{hint}"
        case _:
            return str(error) or type(error).__name__


def _was_stale(stamps: Stamps) -> bool:
    return not stamps.times and (stamps.sent is None or perf_counter() - stamps.sent < _STALE_S)


def _context() -> ssl.SSLContext:
    return _made_context(*(os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")))


@functools.cache
def _made_context(*_certificates: str | None) -> ssl.SSLContext:
    """Made once for each place of certificates: reading them takes longer than most calls."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _head(request: str, authority: str, headers: Mapping[str, str], own: Mapping[str, str] = _NO_HEADERS) -> bytes:
    """Everything before the body, with a placeholder for its length. `own` headers are sent byte for byte."""
    lines = {"host": f"Host: {authority}".encode(), "content-type": b"Content-Type: application/json"}
    lines.update((name.lower(), f"{name}: {value}".encode()) for name, value in headers.items())
    lines.update((name.lower(), f"{name}: {value}".encode("latin-1")) for name, value in own.items())
    text = b"\r\n".join([f"{request} HTTP/1.1".encode(), *lines.values()]).replace(b"%", b"%%")
    return text + b"\r\nContent-Length: %d\r\n\r\n"
