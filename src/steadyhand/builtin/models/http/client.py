"""Requests to one endpoint over kept-alive connections, and their errors.

An error becomes a `ModelError` that says whether a retry may help.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import math
import os
import re
import ssl
from collections import deque
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from time import perf_counter
from urllib.parse import quote, urlsplit

from steadyhand.builtin.models.http.connection import Broken, Connection, Response
from steadyhand.builtin.models.http.proxy import Proxy, proxy_for
from steadyhand.builtin.models.http.stamped_socket import KERNEL_STAMPS, StampedSocket
from steadyhand.builtin.models.http.stamps import Stamps
from steadyhand.errors import ModelError
from steadyhand.records.base import Record, shorten
from steadyhand.redaction import maskable

_IDLE_S = 30.0
_STALE_S = 1.0
"""A stale connection fails within one round trip. If it fails later, it broke while the server was working."""
_TOGETHER = 16
"""Enough to keep the code in the processor's cache, few enough to be done in a millisecond or two."""
_ROUNDS = 4
"""About as many as the engine needs for one trial after its answer (`engine.trial.keep_step`)."""
_MESSAGE_CHARS = 300
_NO_HEADERS: dict[str, str] = {}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_LONGEST_DURATION = 64
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


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
        authority = _authority(self._host, parts.port)
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
        connection = self._kept()
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

    def _kept(self) -> Connection | None:
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
            raise CannotConnect(str(error) or type(error).__name__) from error
        self._connections.add(connection)
        return connection

    def _made(self) -> Connection:
        return Connection(freed=self._freed, lost=self._connections.discard, wake=self._wakes.wake)

    async def _connect_straight(self) -> Connection:
        if self._context is None:
            return await self._connect_plain(self._host, self._port)
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(self._made, self._host, self._port, ssl=self._context))[1]

    async def _connect_plain(self, host: str, port: int) -> Connection:
        if not KERNEL_STAMPS:
            return (await asyncio.get_running_loop().create_connection(self._made, host, port))[1]
        connection = self._made()
        connection.attach(await StampedSocket.connect(host, port, connection))
        return connection

    async def _connect_through(self, proxy: Proxy) -> Connection:
        if self._context is None:
            return await self._connect_plain(proxy.host, proxy.port)
        loop = asyncio.get_running_loop()
        tunnel = await proxy.tunnel(self._host, self._port)
        try:
            made = await loop.create_connection(self._made, sock=tunnel, ssl=self._context, server_hostname=self._host)
        except BaseException:
            tunnel.close()
            raise
        return made[1]

    def _freed(self, connection: Connection) -> None:
        if self._closed:
            connection.close()
            return
        connection.idle_since = perf_counter()
        self._idle.append(connection)


def _was_stale(stamps: Stamps) -> bool:
    return not stamps.times and (stamps.sent is None or perf_counter() - stamps.sent < _STALE_S)


def _context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _authority(host: str, port: int | None) -> str:
    shown = f"[{host}]" if ":" in host else host.encode("idna").decode("ascii")
    return shown if port is None else f"{shown}:{port}"


def _head(request: str, authority: str, headers: Mapping[str, str], own: Mapping[str, str] = _NO_HEADERS) -> bytes:
    """Everything before the body, with a placeholder for its length. `own` headers are sent byte for byte."""
    lines = {"host": f"Host: {authority}".encode(), "content-type": b"Content-Type: application/json"}
    lines.update((name.lower(), f"{name}: {value}".encode()) for name, value in headers.items())
    lines.update((name.lower(), f"{name}: {value}".encode("latin-1")) for name, value in own.items())
    text = b"\r\n".join([f"{request} HTTP/1.1".encode(), *lines.values()]).replace(b"%", b"%%")
    return text + b"\r\nContent-Length: %d\r\n\r\n"


class Endpoint(Record):
    """The server as messages may show it: its host, the name of the key's variable, and the key to mask."""

    host: str
    key_variable: str
    key: str = ""

    def shown(self, text: str) -> str:
        """Text from the server, shortened and without the key."""
        if maskable(self.key):
            text = text.replace(self.key, "***")
        return shorten(text, _MESSAGE_CHARS)


def status_error(
    endpoint: Endpoint, status: int, message: str, *, code: str | None, headers: Mapping[str, str]
) -> ModelError:
    """The error for a response with a status other than 200."""
    said = endpoint.shown(message) or "no message"
    host = endpoint.host
    if status == 429:
        return ModelError(
            f"{host} is rate limiting us (429): {said}",
            kind="rate_limit",
            retryable=code != "insufficient_quota",
            status=status,
            retry_after_s=retry_after_s(headers),
        )
    if status in (401, 403):
        return ModelError(
            f"{host} did not accept the key ({status}); check {endpoint.key_variable}: {said}",
            kind="auth",
            status=status,
        )
    if status in (408, 409) or status >= 500:
        return ModelError(
            f"{host} failed ({status}): {said}",
            kind="server",
            retryable=True,
            status=status,
            retry_after_s=retry_after_s(headers),
        )
    hint = "; check the base URL and the model's name" if status == 404 or 300 <= status < 400 else ""
    if "temperature" in message:
        hint = "; if this model takes no temperature, set the provider's option send_temperature = false"
    return ModelError(f"{host} refused the request ({status}){hint}: {said}", kind="refused", status=status)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """How long the server asks us to wait, or None. `headers` ignores case.

    What says nothing about when to come back (0, a negative number, a time in the past, no number at all) counts as
    None, so that our own back-off applies: a server that refuses and says "at once" would be asked for ever.
    """
    asked_s = _asked_s(headers)
    return asked_s if asked_s is not None and asked_s > 0 else None


def _asked_s(headers: Mapping[str, str]) -> float | None:
    millis = _number(headers.get("retry-after-ms"))
    if millis is not None:
        return millis / 1000
    given = headers.get("retry-after")
    if given is not None:
        seconds = _number(given)
        return seconds if seconds is not None else _until(given, headers.get("date"))
    waits = [
        wait
        for what in ("requests", "tokens")
        if headers.get(f"x-ratelimit-remaining-{what}") == "0"
        and (wait := _duration(headers.get(f"x-ratelimit-reset-{what}"))) is not None
    ]
    waits += [
        wait
        for what in ("requests", "tokens", "input-tokens", "output-tokens")
        if headers.get(f"anthropic-ratelimit-{what}-remaining") == "0"
        and (wait := _until_time(headers.get(f"anthropic-ratelimit-{what}-reset"), headers.get("date"))) is not None
    ]
    return max(waits, default=None)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return max(0.0, value) if math.isfinite(value) else None


def _until(date: str, server_now: str | None) -> float | None:
    """Seconds until an HTTP date, by the server's clock if it sent one."""
    try:
        then = parsedate_to_datetime(date)
        now = parsedate_to_datetime(server_now) if server_now else dt.datetime.now(dt.UTC)
        return max(0.0, (then - now).total_seconds())
    except (ValueError, TypeError):
        return None


def _until_time(time: str | None, server_now: str | None) -> float | None:
    """Seconds until an RFC 3339 time, by the server's clock if it sent one."""
    try:
        then = dt.datetime.fromisoformat(time or "")
        now = parsedate_to_datetime(server_now) if server_now else dt.datetime.now(dt.UTC)
        return max(0.0, (then - now).total_seconds())
    except (ValueError, TypeError):
        return None


def _duration(text: str | None) -> float | None:
    """`6m0s`, `20ms`, `1.5s` or plain seconds."""
    if not text or len(text) > _LONGEST_DURATION:
        return None
    parts = _DURATION.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text.strip():
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    return _number(text)
