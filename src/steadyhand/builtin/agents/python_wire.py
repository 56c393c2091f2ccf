"""The line between us and the process of a `python:` agent: calls both ways, and errors as data.

A frame is its length in four bytes and a msgpack list: what it is, a number, a name, the arguments or the value. Either
side calls the other by name, posts what needs no answer, and takes a call back with `cancel`. Nothing that a child
sends is executed, and what cannot be read ends the connection.
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
    SetupError,
    TrialError,
    WorkspaceError,
)
from steadyhand.ports.agent import Addresses, NoJudgement, ServiceFault
from steadyhand.records.base import Record, plain, plain_text
from steadyhand.records.chat import Attempt
from steadyhand.records.evaluation import JudgeNote
from steadyhand.records.event import Shows
from steadyhand.records.location import Place

LARGEST_FRAME = 64 * 2**20
_READ = 256 * 1024
_LENGTH = struct.Struct(">I")
_TOLD = 20_000
CALLED_OFF = "it was called off"


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


class Moment(Record, array_like=True):
    """One moment on three clocks, so that the child can tell the time of the trial by its own `perf_counter`."""

    elapsed_ms: float
    now: float
    stamp: float


class ActionCard(Record, array_like=True):
    """A plugin's action without its code, which stays with us."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}
    plugin: str = ""


class Opening(Record):
    """What a trial is made of, as its agent sees it. `scenario` is pickled: it comes from us. `variables` are set in
    the environment while the trial runs."""

    scenario: bytes
    trial_id: str
    seed: int
    live: bool
    environment: str
    sandboxed: bool
    on_this_machine: bool
    services: bool
    actions: tuple[ActionCard, ...] = ()
    database: bool = False
    judge: tuple[str, bool] | None = None
    addresses: Addresses = Addresses()
    variables: dict[str, str] = {}


class Present(Record, array_like=True):
    """What changes from turn to turn."""

    moment: Moment
    shows: Shows
    variables: dict[str, Any]


class Told(Record):
    """An exception on its way to the other side."""

    type: str
    message: str
    fields: dict[str, Any] = {}


_FAULTS: dict[str, type[TrialError | SetupError]] = {
    each.__name__: each for each in (AgentError, WorkspaceError, MockError, PluginError, TrialError, SetupError)
}


def told(error: BaseException) -> Told:
    """Never raises: somebody's exception may not even say what it is."""
    try:
        message = plain_text(str(error))[:_TOLD]
    except Exception:  # noqa: BLE001 - see above
        message = "(its message cannot be read)"
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
    return Told(type=name, message=message, fields=fields)


_KNOWN = {*_FAULTS, "ModelError", "LimitExceeded", "ServiceFault", "NoJudgement", *(
    name for name, found in vars(builtins).items() if isinstance(found, type) and issubclass(found, Exception)
)}  # fmt: skip


def raised(fault: Told) -> Exception:
    """The exception that was told of, as far as its type is known on this side."""
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


def portable(value: Any) -> Any:
    """A value as it goes over the line: plain, but bytes, infinity and NaN stay. Raises `UnreadableValue`."""
    return plain(value, keep=(bytes, float))


def packed(kind: Kind, number: int, name: str = "", payload: Any = None) -> bytes:
    """Raises `ValueError` for more than a frame may hold."""
    body = msgspec.msgpack.encode([kind, number, name, payload])
    if len(body) > LARGEST_FRAME:
        raise ValueError(f"a message of {len(body):,} bytes; the limit is {LARGEST_FRAME:,}")
    return _LENGTH.pack(len(body)) + body


def send_variables(connection: socket.socket, variables: Mapping[str, str]) -> None:
    """The first thing on a line: the environment of the child, which is kept out of `/proc`. Raises `OSError`."""
    body = msgspec.msgpack.encode({os.fsencode(name): os.fsencode(value) for name, value in variables.items()})
    connection.sendall(_LENGTH.pack(len(body)) + body)


def receive_variables(connection: socket.socket) -> dict[str, str]:
    """What `send_variables` sent. Raises `EOFError` when the other side is gone."""
    (size,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    sent = msgspec.msgpack.decode(_exactly(connection, size), type=dict[bytes, bytes])
    return {os.fsdecode(name): os.fsdecode(value) for name, value in sent.items()}


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = connection.recv(size, socket.MSG_WAITALL)
    if len(data) < size:
        raise EOFError("the line was closed")
    return data


class Unspoken(Exception):
    """The other side sent what is not a frame."""


class Frames:
    """Feed it bytes, get the frames they complete. Raises `Unspoken`."""

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
                raise Unspoken(f"a message of {size:,} bytes; the limit is {LARGEST_FRAME:,}")
            end = at + _LENGTH.size + size
            if len(held) < end:
                break
            try:
                found.append(self._decode(bytes(held[at + _LENGTH.size : end])))
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                raise Unspoken(f"a message that cannot be read: {error}") from error
            at = end
        del held[:at]
        return found


def read(payload: msgspec.Raw, kind: Any = Any) -> Any:
    """Raises `Unspoken` when it is something else."""
    try:
        return msgspec.msgpack.decode(payload, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Unspoken(f"a message that cannot be read: {error}") from error


class Line:
    """One end of the line. While attached to an event loop it answers what the other side calls.

    `serve` answers a call by its name and payload, `hear` takes what is posted, and `lost` is told once when the line
    is gone, with the reason. Whoever still waits for an answer gets `ConnectionError`.
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
        self._called_off: set[int] = set()
        self._home: int = threading.get_ident()
        self.gone: str | None = None

    def attach(self) -> None:
        self._socket.setblocking(False)
        self._home = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket.fileno(), self._readable)

    def detach(self) -> None:
        """What is still being served is cancelled; the line can be attached again, to any loop."""
        if self._loop is not None and self.gone is None:
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
        self._loop = None
        self._cancel_serving()

    def begin(self, name: str, payload: Any) -> tuple[int, asyncio.Future[msgspec.Raw]]:
        """Call without waiting: the number to call it off by, and what will hold the answer. Raises `ConnectionError`
        when the line is gone."""
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

    def call_off(self, number: int) -> None:
        """Ask the other side to stop. It answers the call all the same, when it has."""
        if self.gone is None:
            self._send(packed(Kind.CANCEL, number))

    async def call(self, name: str, payload: Any) -> msgspec.Raw:
        """Raises what the other side raises, and `ConnectionError`. A caller that is cancelled calls it off."""
        number, future = self.begin(name, payload)
        try:
            return await future
        except asyncio.CancelledError:
            self.call_off(number)
            raise

    def post(self, name: str, payload: Any) -> None:
        if self.gone is None:
            self._send(packed(Kind.POST, 0, name, payload))

    def close(self, reason: str) -> None:
        """The line is gone, for this reason."""
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
        except Unspoken as error:
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
                    self._called_off.add(frame.number)
                    task.cancel()
            case Kind.DONE | Kind.FAIL:
                future = self._waiting.get(frame.number)
                if future is None or future.done():
                    return
                if frame.kind is Kind.DONE:
                    future.set_result(frame.payload)
                else:
                    fault: Told = read(frame.payload, Told)
                    future.set_exception(raised(fault))

    async def _answer(self, frame: Frame) -> None:
        try:
            reply = packed(Kind.DONE, frame.number, "", await self._serve(frame.name, frame.payload))
        except asyncio.CancelledError:
            why = (
                CALLED_OFF if frame.number in self._called_off else "its task was cancelled from inside its own process"
            )
            reply = packed(Kind.FAIL, frame.number, "", Told(type="AgentError", message=why))
        except Unspoken as error:
            self.close(str(error))
            return
        except BaseException as error:  # noqa: BLE001 - the other side raises it
            reply = packed(Kind.FAIL, frame.number, "", told(error))
        finally:
            self._called_off.discard(frame.number)
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
