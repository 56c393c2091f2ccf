"""An aiohttp session that notes when bytes leave and arrive.

Stamps are taken in the protocol itself: the request's in the payload that is being written, the response's in
`data_received`, before the bytes are parsed and before the task that waits for them can run. aiohttp's `TraceConfig`
cannot do that: it tells of a body once, when the waiting task has read the whole of it, so there are no chunks and the
loop's own queue is in the figure. Measured with 64 calls in flight against the server's own log, the median error is
0.3 ms here, 0.55 ms traced and 0.65 ms around a bare call; a stamp costs a list entry, a trace a coroutine.

Every arrival is kept with the number of body bytes there were by then. A reader that comes late, and finds several
packets in one block, can still tell when each of its bytes came in.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from bisect import bisect_left
from collections.abc import Callable
from time import perf_counter
from typing import Any, cast

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_proto import ResponseHandler
from aiohttp.payload import Payload

_WRITE_SIZE = 64 * 1024


class Stamps:
    """The moments of one request, in seconds of `time.perf_counter()`; None until reached.

    `sent` is read just before the last piece of the request is handed to the kernel, so that neither a slow send nor
    being scheduled out right after it can make a model look faster than it was. `when_sent` is called right after it.
    """

    __slots__ = ("connected", "reused", "sent", "started", "status", "times", "totals", "when_sent")

    def __init__(self) -> None:
        self.started: float = perf_counter()
        self.connected: float | None = None
        self.sent: float | None = None
        self.reused: bool = False
        self.status: int | None = None
        self.times: list[float] = []
        self.totals: list[int] = []
        self.when_sent: Callable[[], None] | None = None

    @property
    def first_byte(self) -> float | None:
        return self.times[0] if self.times else None

    @property
    def last_byte(self) -> float | None:
        return self.times[-1] if self.times else None

    def arrival(self, count: int) -> float:
        """When the first `count` bytes of the body had all come in."""
        return self.times[min(bisect_left(self.totals, count), len(self.times) - 1)]

    def chunks(self, pieces: list[tuple[int, int]]) -> tuple[tuple[float, int], ...]:
        """(milliseconds after `sent`, characters) for (bytes of the body, characters); one packet makes one chunk."""
        sent = self.sent if self.sent is not None else self.started
        totals = self.totals
        chunks: list[tuple[float, int]] = []
        packet = -1
        reach = characters = 0
        for count, length in pieces:
            if packet < 0 or count > reach:
                if packet >= 0:
                    chunks.append((round((self.times[packet] - sent) * 1000, 3), characters))
                packet = min(bisect_left(totals, count), len(totals) - 1)
                reach = max(totals[packet], count)
                characters = 0
            characters += length
        if packet >= 0:
            chunks.append((round((self.times[packet] - sent) * 1000, 3), characters))
        return tuple(chunks)


class StampingHandler(ResponseHandler):
    """aiohttp's client protocol, with a note of when data came in."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self.stamps: Stamps | None = None
        self.acquired: float = 0.0
        self.uses: int = 0

    def set_response_params(self, **params: Any) -> None:
        """Called by aiohttp when the connection is there, new or from the pool."""
        self.acquired = perf_counter()
        self.uses += 1
        self.stamps = None
        self._payload = None  # else the bytes of the previous response would be counted until new headers are in
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        stamps = self.stamps
        if stamps is None or not data:
            super().data_received(data)
            return
        now = perf_counter()
        super().data_received(data)
        payload = self._payload
        stamps.times.append(now)
        if payload is not None:
            stamps.totals.append(payload.total_bytes)
        else:
            # No headers yet, or the body has ended and aiohttp has already closed the connection.
            stamps.totals.append(sys.maxsize if self.transport is None else 0)


class StampedBody(Payload):
    """A JSON request body that notes when it goes out, and over which connection."""

    _autoclose = True

    def __init__(self, body: bytes, stamps: Stamps) -> None:
        super().__init__(body, content_type="application/json")
        self._size = len(body)
        self._stamps = stamps

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._value.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        stamps = self._stamps
        protocol = getattr(writer, "protocol", None)
        if isinstance(protocol, StampingHandler):
            protocol.stamps = stamps
            stamps.connected = protocol.acquired
            stamps.reused = protocol.uses > 1
        body: bytes = self._value
        at = 0
        while len(body) - at > _WRITE_SIZE:
            await writer.write(body[at : at + _WRITE_SIZE])
            at += _WRITE_SIZE
        stamps.sent = perf_counter()
        await writer.write(body[at:] if at else body)
        if stamps.when_sent is not None:
            stamps.when_sent()


def open_session(headers: dict[str, str]) -> aiohttp.ClientSession:
    """A session of its own pool, without limits, cookies or timeouts: whoever asks sets the time they have."""
    loop = asyncio.get_running_loop()
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30)
    # aiohttp has no public way to name the protocol class.
    cast("Any", connector)._factory = functools.partial(StampingHandler, loop=loop)  # noqa: SLF001
    return aiohttp.ClientSession(
        connector=connector,
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        auto_decompress=True,
    )
