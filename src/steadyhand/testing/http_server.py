"""The least of HTTP/1.1 that a model server needs, on an asyncio protocol: light, because benchmarks run against it."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Collection
from typing import cast

from steadyhand.records.base import Record

_perf_counter = time.perf_counter


class Request(Record):
    """A request, whole. `received` is when its last byte came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    received: float
    connection: int


class Connection(asyncio.Protocol):
    """One connection: requests one after another, each answered by `handle` before the next is read."""

    def __init__(self, number: int, handle: Callable[[Request, Connection], Awaitable[None]]) -> None:
        self.number: int = number
        self.first_write: float | None = None
        self.last_write: float | None = None
        self.lost: asyncio.Event = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()
        self._handle = handle
        self._transport: asyncio.Transport | None = None
        self._buffer: bytes = b""
        self._arrived: float = 0.0
        self._writable: asyncio.Event = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        self._arrived = _perf_counter()
        self._buffer += data
        if not self.tasks:
            self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.lost.set()
        self._writable.set()
        for task in self.tasks:
            task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def write(self, data: bytes) -> None:
        """Hand bytes to the kernel, noting when. Bytes for a client that has gone are dropped."""
        if self._transport is None:
            return
        self.last_write = _perf_counter()
        if self.first_write is None:
            self.first_write = self.last_write
        self._transport.write(data)

    async def drain(self) -> float:
        """Wait until the transport holds nothing more; when that was."""
        await self._writable.wait()
        return _perf_counter()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        """Break the connection with a TCP reset."""
        if self._transport is not None:
            found = cast("socket.socket | None", self._transport.get_extra_info("socket"))
            if found is not None:
                found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _next(self) -> None:
        request = self._parse()
        if request is None:
            return
        self.first_write = self.last_write = None
        task = asyncio.get_running_loop().create_task(self._serve(request))
        self.tasks.add(task)
        task.add_done_callback(self._served)

    async def _serve(self, request: Request) -> None:
        await self._handle(request, self)

    def _served(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() is None and self._transport is not None:
            self._next()

    def _parse(self) -> Request | None:
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0:
            if self._buffer and not self._buffer[:1].isalpha():
                self.close()  # not HTTP, most likely TLS: as a real server would, end it
            return None
        first, *lines = self._buffer[:head_end].decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        end = head_end + 4 + int(headers.get("content-length", "0"))
        if len(self._buffer) < end:
            return None
        body, self._buffer = self._buffer[head_end + 4 : end], self._buffer[end:]
        method, path, _ = first.split(" ", 2)
        return Request(
            method=method, path=path, headers=headers, body=body, received=self._arrived, connection=self.number
        )


async def hang_up(connections: Collection[Connection]) -> None:
    """Break every connection off, stop what is being answered, and wait until all of it is over."""
    tasks = [task for connection in connections for task in connection.tasks]
    for connection in connections:
        connection.abort()
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
    for connection in tuple(connections):
        await connection.lost.wait()
