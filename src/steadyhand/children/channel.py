"""The channel between us and a child process: calls in both directions, and errors as data.

A frame is its length in four bytes and a msgpack list: kind, number, name, and the arguments or the value. Either side
can call the other by name, post messages that need no answer, and cancel its own calls. Nothing that a child sends is
executed, and a malformed message closes the connection.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import enum
import os
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from steadyhand.errors import (
    AgentError,
    LimitExceeded,
    MockError,
    ModelError,
    PluginError,
    ServiceError,
    SetupError,
    TrialError,
    WorkspaceError,
)
from steadyhand.ports.agent import NoJudgement
from steadyhand.ports.services import ServiceFault
from steadyhand.records.base import Record, plain_text, shorten
from steadyhand.records.chat import Attempt
from steadyhand.records.evaluation import JudgeNote
from steadyhand.records.location import Place

LARGEST_FRAME = 64 * 2**20
_READ = 64 * 1024
"""From 128 KB on, the allocator maps the buffer again for every read, which takes four times as long as the read."""
_LENGTH = struct.Struct(">I")
_LONGEST_ERROR = 20_000


class Kind(enum.IntEnum):
    CALL = 0
    DONE = 1
    FAIL = 2
    POST = 3
    CANCEL = 4


class Frame(msgspec.Struct, array_like=True, gc=False):
    kind: Kind
    number: int
    name: str = ""
    payload: msgspec.Raw = msgspec.Raw(b"\xc0")


class RemoteError(Record):
    """An exception as it is sent to the other side."""

    type: str
    message: str
    fields: dict[str, Any] = {}


_FAULTS: dict[str, type[TrialError | SetupError]] = {
    each.__name__: each
    for each in (AgentError, WorkspaceError, MockError, ServiceError, PluginError, TrialError, SetupError)
}


def remote_error(error: BaseException) -> RemoteError:
    """Never raises: even the `__str__` of a foreign exception may fail."""
    try:
        message = shorten(plain_text(str(error)), _LONGEST_ERROR)
    except Exception:  # noqa: BLE001 - see above
        message = "(its message could not be read)"
    match error:
        case ModelError():
            fields: dict[str, Any] = {
                "kind": error.kind,
                "retryable": error.retryable,
                "status": error.status,
                "retry_after_s": error.retry_after_s,
                "attempt": error.attempt,
            }
        case LimitExceeded():
            fields = {"kind": error.kind, "used": error.used, "allowed": error.allowed, "unit": error.unit}
        case ServiceFault():
            fields = {"code": error.code, "status": error.status, "mock": error.mock}
        case NoJudgement():
            fields = {"note": error.note}
        case _:
            fields = {}
    name = next((each.__name__ for each in type(error).__mro__ if each.__name__ in _KNOWN), type(error).__name__)
    if name != type(error).__name__ and not isinstance(error, TrialError | SetupError | ServiceFault | NoJudgement):
        message = f"{type(error).__name__}: {message}"
    return RemoteError(type=name, message=message, fields=fields)


_KNOWN = {*_FAULTS, "ModelError", "LimitExceeded", "ServiceFault", "NoJudgement", *(
    name for name, found in vars(builtins).items() if isinstance(found, type) and issubclass(found, Exception)
)}  # fmt: skip


def raised(fault: RemoteError) -> Exception:
    """The exception that was sent, or a `RuntimeError` if its type is unknown on this side."""
    fields = fault.fields
    with contextlib.suppress(TypeError, ValueError, KeyError, msgspec.MsgspecError):
        if fault.type == "ModelError":
            attempt = fields.pop("attempt", None)
            failed = ModelError(fault.message, **fields)
            failed.attempt = None if attempt is None else msgspec.convert(attempt, Attempt)
            return failed
        if fault.type == "LimitExceeded":
            return LimitExceeded(fields["kind"], used=fields["used"], allowed=fields["allowed"], unit=fields["unit"])
        if fault.type == "ServiceFault":
            mock = None if fields.get("mock") is None else msgspec.convert(fields["mock"], Place)
            return ServiceFault(fault.message, code=fields.get("code"), status=fields.get("status"), mock=mock)
        if fault.type == "NoJudgement":
            note = None if fields.get("note") is None else msgspec.convert(fields["note"], JudgeNote)
            return NoJudgement(fault.message, note=note)
        if fault.type in _FAULTS:
            return _FAULTS[fault.type](fault.message)
        found = getattr(builtins, fault.type, None)
        if isinstance(found, type) and issubclass(found, Exception):
            return found(fault.message)
    return RuntimeError(f"{fault.type}: {fault.message}")


def packed(kind: Kind, number: int, name: str = "", payload: Any = None) -> bytes:
    """Raises `ValueError` if it is too large for a frame."""
    body = msgspec.msgpack.encode([kind, number, name, payload])
    if len(body) > LARGEST_FRAME:
        raise ValueError(f"a message of {len(body):,} bytes; the limit is {LARGEST_FRAME:,}")
    return _LENGTH.pack(len(body)) + body


def send_variables(connection: socket.socket, variables: Mapping[str, str]) -> None:
    """Send the child its environment as the first message, to keep it out of `/proc`. Raises `OSError`."""
    body = msgspec.msgpack.encode({os.fsencode(name): os.fsencode(value) for name, value in variables.items()})
    connection.sendall(_LENGTH.pack(len(body)) + body)


def receive_variables(connection: socket.socket) -> dict[str, str]:
    """What `send_variables` sent. Raises `EOFError` if the other side is gone."""
    (size,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    sent = msgspec.msgpack.decode(_exactly(connection, size), type=dict[bytes, bytes])
    return {os.fsdecode(name): os.fsdecode(value) for name, value in sent.items()}


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = connection.recv(size, socket.MSG_WAITALL)
    if len(data) < size:
        raise EOFError("the channel was closed")
    return data


class MalformedMessage(Exception):
    """The other side sent something that does not follow the protocol."""


class Frames:
    """Splits a stream of bytes into frames. Raises `MalformedMessage`."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._decode = msgspec.msgpack.Decoder(Frame).decode

    def feed(self, data: bytes) -> list[Frame]:
        held = self._held
        held += data
        found: list[Frame] = []
        at = 0
        while len(held) - at >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(held, at)
            if size > LARGEST_FRAME:
                raise MalformedMessage(f"a message of {size:,} bytes; the limit is {LARGEST_FRAME:,}")
            end = at + _LENGTH.size + size
            if len(held) < end:
                break
            try:
                found.append(self._decode(_copied(held, at + _LENGTH.size, end)))
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                raise MalformedMessage(f"a message that cannot be read: {error}") from error
            at = end
        del held[:at]
        return found


def _copied(held: bytearray, start: int, end: int) -> bytes:
    """One copy: a slice of the array would be another."""
    with memoryview(held) as view:
        return bytes(view[start:end])


def read(payload: msgspec.Raw, kind: Any = Any) -> Any:
    """The payload as a value of type `kind`. Raises `MalformedMessage`."""
    try:
        return msgspec.msgpack.decode(payload, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MalformedMessage(f"a message that cannot be read: {error}") from error


class Channel:
    """One end of the channel. While attached to an event loop it answers the calls of the other side.

    `serve` answers a call, given its name and payload; `hear` receives posts; `lost` is called once with the reason
    when the channel closes. Calls that are still waiting then raise `ConnectionError`.
    """

    def __init__(
        self,
        connection: socket.socket,
        *,
        serve: Callable[[str, msgspec.Raw], Awaitable[Any]],
        hear: Callable[[str, msgspec.Raw], None],
        lost: Callable[[str], None],
    ) -> None:
        self._socket = connection
        self._serve = serve
        self._hear = hear
        self._lost = lost
        self._loop: asyncio.AbstractEventLoop | None = None
        self._frames = Frames()
        self._unsent = bytearray()
        self._number = 0
        self._waiting: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._serving: dict[int, asyncio.Task[None]] = {}
        self._cancelled: set[int] = set()
        self._home: int = threading.get_ident()
        self.gone: str | None = None

    def attach(self) -> None:
        self._socket.setblocking(False)
        self._home = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket.fileno(), self._readable)

    def detach(self) -> None:
        """Cancel the calls being served. The channel can be attached again, to any loop."""
        if self._loop is not None and self.gone is None:
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
        self._loop = None
        self._cancel_serving()

    def begin(self, name: str, payload: Any) -> tuple[int, asyncio.Future[msgspec.Raw]]:
        """Start a call: the number to cancel it by, and a future for the answer. Raises `ConnectionError` if closed."""
        if self.gone is not None:
            raise ConnectionError(self.gone)
        assert self._loop is not None, "called while detached"
        self._number += 1
        number = self._number
        future: asyncio.Future[msgspec.Raw] = self._loop.create_future()
        self._waiting[number] = future
        future.add_done_callback(lambda _: self._waiting.pop(number, None))
        self._send(packed(Kind.CALL, number, name, payload))
        return number, future

    def cancel(self, number: int) -> None:
        """Ask the other side to stop. It still answers the call once it has stopped."""
        if self.gone is None:
            self._send(packed(Kind.CANCEL, number))

    async def call(self, name: str, payload: Any) -> msgspec.Raw:
        """Raises what the other side raises, or `ConnectionError`. Cancelling the caller cancels the call."""
        number, future = self.begin(name, payload)
        try:
            return await future
        except asyncio.CancelledError:
            self.cancel(number)
            raise

    def post(self, name: str, payload: Any) -> None:
        if self.gone is None:
            self._send(packed(Kind.POST, 0, name, payload))

    def close(self, reason: str) -> None:
        """Close the channel permanently, and notify everything that waits for it."""
        if self.gone is not None:
            return
        loop, fd = self._loop, self._socket.fileno()
        if loop is not None and fd >= 0:
            loop.remove_reader(fd)
            loop.remove_writer(fd)
        self.gone = reason
        self._socket.close()
        for future in list(self._waiting.values()):
            if not future.done():
                future.set_exception(ConnectionError(reason))
        self._cancel_serving()
        self._lost(reason)

    def _cancel_serving(self) -> None:
        for task in list(self._serving.values()):
            task.cancel()

    def _readable(self) -> None:
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(str(error))
            return
        if not data:
            self.close("")
            return
        try:
            for frame in self._frames.feed(data):
                self._take(frame)
                if self.gone is not None:
                    return
        except MalformedMessage as error:
            self.close(str(error))

    def _take(self, frame: Frame) -> None:
        match frame.kind:
            case Kind.POST:
                self._hear(frame.name, frame.payload)
            case Kind.CALL:
                assert self._loop is not None
                task = self._loop.create_task(self._answer(frame))
                self._serving[frame.number] = task
                task.add_done_callback(lambda _: self._serving.pop(frame.number, None))
            case Kind.CANCEL:
                if (task := self._serving.get(frame.number)) is not None:
                    self._cancelled.add(frame.number)
                    task.cancel()
            case Kind.DONE | Kind.FAIL:
                future = self._waiting.get(frame.number)
                if future is None or future.done():
                    return
                if frame.kind is Kind.DONE:
                    future.set_result(frame.payload)
                else:
                    fault: RemoteError = read(frame.payload, RemoteError)
                    future.set_exception(raised(fault))

    async def _answer(self, frame: Frame) -> None:
        try:
            reply = packed(Kind.DONE, frame.number, "", await self._serve(frame.name, frame.payload))
        except asyncio.CancelledError:
            why = "it was cancelled" if frame.number in self._cancelled else "the agent cancelled its own task"
            reply = packed(Kind.FAIL, frame.number, "", RemoteError(type="AgentError", message=why))
        except MalformedMessage as error:
            self.close(str(error))
            return
        except BaseException as error:  # noqa: BLE001 - the other side raises it
            reply = packed(Kind.FAIL, frame.number, "", remote_error(error))
        finally:
            self._cancelled.discard(frame.number)
        if self.gone is None and self._loop is not None:
            self._send(reply)

    def _send(self, data: bytes) -> None:
        if threading.get_ident() != self._home:
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._send, data)
            return
        if self.gone is not None:
            return
        sent = 0
        if not self._unsent:
            try:
                sent = self._socket.send(data)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                self.close(str(error))
                return
        if sent < len(data):
            assert self._loop is not None
            if not self._unsent:
                self._loop.add_writer(self._socket.fileno(), self._writable)
            self._unsent += data[sent:]

    def _writable(self) -> None:
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(str(error))
            return
        del self._unsent[:sent]
        if not self._unsent and self._loop is not None:
            self._loop.remove_writer(self._socket.fileno())
