"""A real HTTP server on loopback that speaks three vendor APIs and behaves as instructed.

The path decides: `/chat/completions`, `/responses` and `/embeddings` as OpenAI documents them, `/messages` as Anthropic
does.

In a test, on the test's own event loop:

    async with ModelServer(Answer(text="Stop.")) as server:
        ... server.base_url ... server.log

In its own process, so that a measurement shares nothing with it but the machine's clock:

    python -m steadyhand.testing.model_server --port 0 --delay-ms 50

which prints one JSON line with `port` and `base_url`, answers `GET /log` with the times of every request so far and
forgets them on `DELETE /log`.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import struct
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Self, cast

import msgspec

from steadyhand.records.base import Record
from steadyhand.testing import anthropic_wire, embeddings_wire, openai_wire, responses_wire
from steadyhand.testing.wire import Answer, Behaviour, Served, Times, WireReply, answer_for, plain_response

_Wire = Callable[[Mapping[str, Any], Answer], WireReply]
_WIRES: dict[str, _Wire] = {
    "/chat/completions": openai_wire.reply_to,
    "/responses": responses_wire.reply_to,
    "/messages": anthropic_wire.reply_to,
    "/embeddings": embeddings_wire.reply_to,
}
_NO_BODY: dict[str, Any] = {}
_perf_counter = time.perf_counter


class Request(Record):
    """A complete request. `received` is when its last byte arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    received: float
    connection: int


class ServerConnection(asyncio.Protocol):
    """One connection. Requests are handled one after another by `handle`."""

    def __init__(self, number: int, handle: Callable[[Request, ServerConnection], Awaitable[None]]) -> None:
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
        """Write bytes to the kernel and note when. Bytes for a disconnected client are dropped."""
        if self._transport is None:
            return
        self.last_write = _perf_counter()
        if self.first_write is None:
            self.first_write = self.last_write
        self._transport.write(data)

    async def drain(self) -> float:
        """Wait until the transport's buffer is empty, and return when that was."""
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
                self.close()  # not HTTP, probably TLS: close it, as a real server would
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


async def hang_up(connections: Collection[ServerConnection]) -> None:
    """Close all connections, cancel running handlers, and wait for them to end."""
    tasks = [task for connection in connections for task in connection.tasks]
    for connection in connections:
        connection.abort()
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
    for connection in tuple(connections):
        await connection.lost.wait()


class ModelServer:
    """Serves while the context is open. If a `behaviour` function raises, the client gets a 500 and the exception is
    raised on exit."""

    def __init__(self, behaviour: Behaviour | None = None, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.behaviour: Behaviour = Answer(text="Hello.") if behaviour is None else behaviour
        self.log: list[Served] = []
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._connections: set[ServerConnection] = set()
        self._connected: int = 0
        self._received: int = 0
        self._failure: Exception | None = None
        self._arrived: asyncio.Event = asyncio.Event()

    @property
    def port(self) -> int:
        return self._port

    @property
    def base_url(self) -> str:
        return f"http://{self._host}:{self._port}/v1"

    @property
    def received(self) -> int:
        """The number of requests received, answered or not."""
        return self._received

    @property
    def connected(self) -> int:
        """The number of connections opened so far."""
        return self._connected

    @property
    def open_connections(self) -> int:
        return sum(not connection.lost.is_set() for connection in self._connections)

    async def until_received(self, count: int) -> None:
        """Wait until that many requests have been received."""
        while self._received < count:
            self._arrived.clear()
            await self._arrived.wait()

    async def until_disconnected(self) -> None:
        """Wait until every connection is closed."""
        for connection in list(self._connections):
            await connection.lost.wait()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.get_running_loop().create_server(
            self._connect, self._host, self._port, backlog=4096
        )
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._server is not None
        self._server.close()
        await hang_up(self._connections)
        if self._failure is not None:
            raise self._failure

    async def serve_forever(self) -> None:
        assert self._server is not None
        await self._server.serve_forever()

    def _connect(self) -> ServerConnection:
        self._connected += 1
        connection = ServerConnection(self._connected, self._handle)
        self._connections = {known for known in self._connections if not known.lost.is_set()}
        self._connections.add(connection)
        return connection

    async def _handle(self, request: Request, connection: ServerConnection) -> None:
        if request.path == "/log":
            self._show_log(request, connection)
        elif request.method != "POST" or _wire_at(request.path) is None:
            message = f"no such endpoint: {request.method} {request.path}"
            connection.write(plain_response(404, openai_wire.error_body(404, message), "application/json"))
        else:
            await self._complete(request, connection)

    def _show_log(self, request: Request, connection: ServerConnection) -> None:
        if request.method == "DELETE":
            self.log.clear()
        shown = [
            {"number": served.number, "prompt": served.prompt, "seed": served.body.get("seed"), "times": served.times}
            for served in self.log
        ]
        connection.write(plain_response(200, msgspec.json.encode(shown), "application/json"))

    async def _complete(self, request: Request, connection: ServerConnection) -> None:
        self._received += 1
        self._arrived.set()
        body = _decode(request.body)
        served = Served(
            number=self._received,
            path=request.path,
            headers=request.headers,
            body=body,
            connection=connection.number,
            prompt=_prompt(body),
            times=Times(received=request.received),
        )
        try:
            answer = answer_for(self.behaviour, served)
        except Exception as error:  # noqa: BLE001 - the test's own function; raised on exit
            self._failure = error
            connection.write(plain_response(500, openai_wire.error_body(500, str(error)), "application/json"))
            return
        try:
            await self._play(answer, served, connection)
        finally:
            times = Times(
                received=request.received, first_write=connection.first_write, last_write=connection.last_write
            )
            if connection.last_write is not None and not connection.lost.is_set():
                times = msgspec.structs.replace(times, drained=await connection.drain())
            self.log.append(msgspec.structs.replace(served, times=times))

    async def _play(self, answer: Answer, served: Served, connection: ServerConnection) -> None:
        if answer.delay_s:
            await asyncio.sleep(answer.delay_s)
        if answer.fault == "reset":
            connection.reset()
            return
        if answer.fault == "hang":
            await connection.lost.wait()
            return
        wire = _wire_at(served.path)
        assert wire is not None, "unknown path"
        reply = wire(served.body, answer)
        await _write(reply, answer.write_size, connection)
        if reply.close:
            await connection.drain()
            connection.close()


async def _write(reply: WireReply, write_size: int | None, connection: ServerConnection) -> None:
    """Write the pieces. Those without a wait between them are sent together, as a busy server would."""
    ready: list[bytes] = []
    for piece in reply.pieces:
        if piece.delay_s:
            await _flush(ready, write_size, connection)
            await asyncio.sleep(piece.delay_s)
        ready.append(piece.data)
    await _flush(ready, write_size, connection)


async def _flush(ready: list[bytes], write_size: int | None, connection: ServerConnection) -> None:
    data = b"".join(ready)
    ready.clear()
    if write_size is None:
        if data:
            connection.write(data)
        return
    for at in range(0, len(data), write_size):
        connection.write(data[at : at + write_size])
        await asyncio.sleep(0)


def _decode(raw: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.DecodeError:
        return _NO_BODY


def _wire_at(path: str) -> _Wire | None:
    where = path.partition("?")[0]
    return next((wire for end, wire in _WIRES.items() if where.endswith(end)), None)


def _prompt(body: dict[str, Any]) -> str:
    given: Any = body.get("messages") or body.get("input") or []
    if isinstance(given, str):
        return given
    last = cast("list[dict[str, Any] | str]", given)[-1] if given else {}
    content = last if isinstance(last, str) else last.get("content")
    if isinstance(content, list):
        blocks = cast("list[dict[str, Any]]", content)
        content = "".join(str(block.get("text", "")) for block in blocks)
    return content if isinstance(content, str) else ""


async def _serve(answer: Answer, host: str, port: int) -> None:
    async with ModelServer(answer, host=host, port=port) as server:
        sys.stdout.write(msgspec.json.encode({"port": server.port, "base_url": server.base_url}).decode() + "\n")
        sys.stdout.flush()
        await server.serve_forever()


def main(arguments: list[str] | None = None) -> None:
    """Serve one answer until stopped."""
    parser = argparse.ArgumentParser(prog="python -m steadyhand.testing.model_server", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--text", default="Stop the pump and call the duty officer now. " * 4)
    parser.add_argument("--piece-chars", type=int, default=12)
    parser.add_argument("--status", type=int, default=200)
    parser.add_argument("--delay-ms", type=float, default=0.0, help="before the headers")
    parser.add_argument("--first-token-ms", type=float, default=0.0, help="between headers and first piece")
    parser.add_argument("--piece-ms", type=float, default=0.0, help="between pieces")
    chosen = parser.parse_args(arguments)
    answer = Answer(
        text=chosen.text,
        piece_chars=chosen.piece_chars,
        status=chosen.status,
        delay_s=chosen.delay_ms / 1000,
        first_token_s=chosen.first_token_ms / 1000,
        piece_s=chosen.piece_ms / 1000,
    )
    try:
        _runner()(_serve(answer, chosen.host, chosen.port))
    except KeyboardInterrupt:
        sys.exit(0)


def _runner() -> Any:
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    return uvloop.run


if __name__ == "__main__":
    main()
