"""One connection to a model's server, timed in the protocol itself.

Written by hand, on top of a parser in C, because this is where the clock is read. A request goes to the kernel at once,
not in the next round of the event loop, and every arrival is stamped before it is processed: by the kernel where
possible (`stamped_socket.py`), otherwise here. A waiting task is woken only at the end of an answer: parsing 64 answers
piece by piece would delay the stamps of everything that arrives meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import zlib
from collections.abc import Callable
from time import perf_counter
from typing import cast

import httptools

from steadyhand.http.stamped_socket import StampedSocket
from steadyhand.http.stamps import Stamps
from steadyhand.records.chat import ArrivalClock

_PIECE = 64 * 1024
_ENCODINGS = {b"gzip": 47, b"x-gzip": 47, b"deflate": zlib.MAX_WBITS}


class NotHttp(Exception):
    """The answer is not HTTP; the message says why."""


class Broken(Exception):
    """The connection ended before the response did; the message says how."""


class _Decompressor:
    """Decodes a content encoding. A gzip stream may have several members."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._member = zlib.decompressobj(window)

    def __call__(self, data: bytes) -> bytes:
        """Raises `zlib.error`."""
        plain = self._member.decompress(data)
        while rest := self._member.unused_data:
            self._member = zlib.decompressobj(self._window)
            plain += self._member.decompress(rest)
        return plain


class Response:
    """An answer as it arrives. `status` is set once its head is there, `complete` once all of it is."""

    __slots__ = (
        "_limit",
        "_marked",
        "_markers",
        "_tail",
        "_waiter",
        "_wake",
        "blocks",
        "complete",
        "decompress",
        "failure",
        "fields",
        "received",
        "stamps",
        "status",
    )

    def __init__(self, stamps: Stamps, wake: Callable[[asyncio.Future[None]], None]) -> None:
        self.stamps: Stamps = stamps
        self._wake = wake
        self.status: int | None = None
        self.fields: dict[bytes, bytes] = {}
        self.blocks: list[bytes] = []
        self.received: int = 0
        self.complete: bool = False
        self.failure: Exception | None = None
        self.decompress: Callable[[bytes], bytes] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._markers: tuple[bytes, ...] | None = None
        self._marked: bool = False
        self._limit: int = 0
        self._tail: bytes = b""

    @property
    def headers(self) -> dict[str, str]:
        """Headers by lower-case name."""
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in self.fields.items()}

    @property
    def streamed(self) -> bool:
        return self.fields.get(b"content-type", b"").lower().startswith(b"text/event-stream")

    @property
    def framed(self) -> bool:
        """Whether the end of the body can be told without closing the connection."""
        return b"content-length" in self.fields or b"transfer-encoding" in self.fields

    def take(self) -> bytes:
        """The part of the body that arrived since the last call."""
        blocks, self.blocks = self.blocks, []
        return blocks[0] if len(blocks) == 1 else b"".join(blocks)

    async def head(self) -> None:
        """Wait for the status and the headers. Raises `NotHttp`, `Broken` and `TimeoutError`."""
        while self.status is None:
            await self._wait()

    async def body(self, markers: tuple[bytes, ...] = (), *, limit: int) -> bytes:
        """Wait until there is something to read, and take it.

        That is when the answer is complete, is longer than `limit`, or contains one of the `markers`; from then on, at
        every arrival. Raises `NotHttp`, `Broken` and `TimeoutError`.
        """
        self._markers, self._limit = markers, limit
        if self.blocks and not self.complete:
            self._look(0)
        while not (self.complete or self.received > limit or (self._marked and self.blocks)):
            await self._wait()
        return self.take()

    async def arrival(self) -> bytes:
        """Wait for bytes of the body and take them; empty when it is complete. Raises as `body` does."""
        self._markers = None
        while not (self.blocks or self.complete):
            await self._wait()
        return self.take()

    async def end(self, wait_s: float) -> None:
        """Wait up to `wait_s` for the end of a body that has been read. It has usually arrived already."""
        self._markers = ()
        with contextlib.suppress(TimeoutError, NotHttp, Broken):
            async with asyncio.timeout(wait_s):
                while not self.complete:
                    await self._wait()

    def begin_body(self, status: int) -> None:
        self.status = status
        encoding = self.fields.get(b"content-encoding", b"").strip().lower()
        if encoding in _ENCODINGS:
            self.decompress = _Decompressor(_ENCODINGS[encoding])
        elif encoding not in (b"identity", b""):
            raise NotHttp(f"it is encoded as {encoding.decode('latin-1')}, which we did not request")

    def arrived(self, mark: int) -> None:
        """Bytes arrived; the blocks from index `mark` on are new. Wake the waiting task if it has something to read."""
        if self._markers and not self._marked and not self.complete:
            self._look(mark)
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        if (
            self._marked
            or self._markers is None
            or self.complete
            or self.failure is not None
            or self.received > self._limit
        ):
            self._waiter = None
            self._wake(waiter)

    def _look(self, mark: int) -> None:
        """Look for a marker in the new blocks, even one split between two of them."""
        text = self._tail + b"".join(self.blocks[mark:])
        self._tail = text[-32:]
        for marker in self._markers or ():
            if marker in text:
                self._marked = True
                return

    async def _wait(self) -> None:
        if self.failure is None:
            waiter = self._waiter = asyncio.get_running_loop().create_future()
            try:
                await waiter
            finally:
                self._waiter = None
        if self.failure is not None and not self.complete:
            raise self.failure


class Connection(asyncio.Protocol):
    """Handles one request at a time. `freed` is called when it is ready for the next, `lost` when it is closed.

    `wake` is called with the future of a task that can continue.
    """

    def __init__(
        self,
        *,
        freed: Callable[[Connection], None],
        lost: Callable[[Connection], None],
        wake: Callable[[asyncio.Future[None]], None],
    ) -> None:
        self._freed = freed
        self._wake = wake
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append  # what the parser calls for every piece of a body
        self._parser = httptools.HttpResponseParser(self)
        self._poll: select.poll | None = None
        self._transport: asyncio.Transport | StampedSocket | None = None
        self._file: int | None = None
        self._response: Response | None = None
        self._interim: bool = False
        self._keep: bool = False
        self._half_sent: bool = False
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float = 0.0
        self._drained: asyncio.Future[None] | None = None
        self._paused: bool = False
        self.idle_since: float = 0.0
        self.used: bool = False

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def hung_up(self) -> bool:
        """Whether the server closed an idle connection or sent unsolicited bytes, and the loop has not noticed yet.

        Some servers (such as llama.cpp's) promise keep-alive but close the connection after a stream.
        """
        if self._file is None:
            return False
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(self._file, select.POLLIN)
        return bool(self._poll.poll(0))

    async def send(self, request: bytes, stamps: Stamps) -> Response:
        """Send a request. Raises `Broken`. Wait for the answer on the returned object."""
        response = self._response = Response(stamps, self._wake)
        self._keep = self._half_sent = False
        stamps.reused, self.used = self.used, True
        transport = self._transport
        if transport is None or transport.is_closing():
            raise Broken("the server closed it")
        if isinstance(transport, StampedSocket):
            transport.expect(stamps.started)
        stamps.sent = perf_counter()
        done = self._write_now(request)
        while done < len(request):
            piece = request[done : done + _PIECE]
            stamps.sent = perf_counter()
            transport.write(piece)
            done += len(piece)
            if self._paused:
                self._drained = self._loop.create_future()
                await self._drained
            if response.failure is not None:
                raise response.failure
            if response.status is not None and done < len(request):
                self._half_sent = True  # the server has already refused and may have stopped reading
                break
        if stamps.when_sent is not None:
            stamps.when_sent()
        return response

    def expire_at(self, deadline: float) -> None:
        """Make the current operation fail with `TimeoutError` at this time of the event loop.

        This has its own timer, because `asyncio.timeout` around every call costs three times as much. The timer is left
        running from call to call, and looks at the deadline only when it fires.
        """
        self._deadline = deadline
        if self._timer is None or self._timer_at > deadline:
            self._set_timer(deadline)

    def release(self) -> None:
        """The answer has been read. Keep the connection if it is complete, otherwise close it."""
        response, self._response = self._response, None
        self._deadline = None
        if response is not None and response.complete and self._keep and not self._half_sent and self.open:
            self._freed(self)
        else:
            self.close()

    def close(self) -> None:
        self._keep = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        """Stop reading from the socket until `resume`, so that the server has to wait."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def _write_now(self, request: bytes) -> int:
        """Write to the kernel directly, bypassing the event loop; returns the number of bytes taken.

        uvloop would write only at the end of its round, after everything else that is ready to run.
        """
        if self._file is None or self._transport is None or self._transport.get_write_buffer_size():
            return 0
        try:
            return os.write(self._file, request)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise Broken(str(error)) from error

    def _set_timer(self, moment: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = moment
        self._timer = self._loop.call_at(moment, self._expire)

    def _expire(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        if self._loop.time() < self._deadline:
            self._set_timer(self._deadline)
            return
        response = self._response
        if response is not None and not response.complete and response.failure is None:
            response.failure = TimeoutError()
            response.arrived(len(response.blocks))
        self._go_on()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        # Not 0: a TLS transport would then consider itself full when it is empty.
        self._transport.set_write_buffer_limits(high=1, low=0)
        if transport.get_extra_info("sslcontext") is None:
            self._file = transport.get_extra_info("socket").fileno()

    def attach(self, socket: StampedSocket) -> None:
        """Use a socket that the kernel stamps instead of a transport of the event loop."""
        self._transport = socket
        self._file = socket.fileno

    def data_received(self, data: bytes) -> None:
        self.arrived(data, perf_counter(), ArrivalClock.OWN)

    def arrived(self, data: bytes, moment: float, clock: ArrivalClock) -> None:
        """Bytes that had arrived at `moment`, according to `clock`."""
        response = self._response
        if response is None:
            self.close()  # unsolicited bytes
            return
        mark = len(response.blocks)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            cause = error.__context__ if isinstance(error.__context__, NotHttp) else error
            if not response.complete:
                response.failure = cause if isinstance(cause, NotHttp) else NotHttp(str(cause) or "an upgrade")
            self.close()
        if self._pieces:
            self._take_body(response)
        response.stamps.note(moment, response.received, clock)
        response.arrived(mark)
        if self._paused and response.status is not None:
            self._go_on()

    def _take_body(self, response: Response) -> None:
        """Add what the parser found of the body in these bytes."""
        body = b"".join(self._pieces)
        self._pieces.clear()
        if response.decompress is not None:
            try:
                body = response.decompress(body)
            except zlib.error as error:
                response.complete = False
                response.failure = NotHttp(f"it cannot be decompressed: {error}")
                self.close()
                return
        response.blocks.append(body)
        response.received += len(body)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = self._file = self._poll = None
        response = self._response
        if response is not None and not response.complete and response.failure is None:
            if exc is None and response.status is not None and not response.framed:
                response.complete = True  # a body without a length ends with its connection
            else:
                response.failure = Broken(str(exc or "the server closed the connection"))
        if response is not None:
            response.arrived(len(response.blocks))
        self.resume_writing()
        self._lost(self)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._go_on()

    def _go_on(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self._response is not None and self._response.complete:
            raise NotHttp("more data than expected")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._response is not None:
            self._response.fields[name.lower()] = value

    def on_headers_complete(self) -> None:
        response = self._response
        if response is None:
            return
        status = self._parser.get_status_code()
        self._interim = 100 <= status < 200 and status != 101
        if self._interim:
            response.fields.clear()
            return
        response.begin_body(status)
        response.stamps.status = status

    def on_message_complete(self) -> None:
        response = self._response
        if response is None or self._interim:
            return
        response.complete = True
        self._keep = self._parser.should_keep_alive()
