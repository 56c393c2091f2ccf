"""A plain TCP connection whose arrivals are stamped by the kernel.

Linux records when data arrived (`SO_TIMESTAMPNS`) and reports it to `recvmsg`, so a busy event loop does not make an
answer look late. The stamp is on the system clock (CLOCK_REALTIME), the rest of our times on `time.perf_counter()`. The
two run at the same rate and differ by an offset that changes only when the system clock is set. The offset is sampled
before a request and at every arrival; if it changed, the kernel's stamp is not used.

Data that is read together carries the stamp of the last packet in it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import Callable
from time import perf_counter, perf_counter_ns, time_ns
from typing import Protocol, Self

from steadyhand.http.name_lookup import connected_socket
from steadyhand.records.chat import ArrivalClock

KERNEL_STAMPS: bool = sys.platform == "linux" and sys.maxsize > 2**32

_SO_TIMESTAMPNS = 35
_STAMP = struct.Struct("qq")
_SPACE = socket.CMSG_SPACE(_STAMP.size) if KERNEL_STAMPS else 0
_READ_BYTES = 64 * 1024
_SAMPLES = 4
_TOLERANCE_NS = 50_000
"""Two samples of the offset differ by less than this, unless we were scheduled out in between or the clock was set."""

Offset = Callable[[], int]


class Receiver(Protocol):
    """What a `StampedSocket` reports to, as a transport reports to its protocol."""

    def arrived(self, data: bytes, moment: float, clock: ArrivalClock) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


def clock_offset() -> int:
    """Nanoseconds from the system clock to `time.perf_counter()`."""
    return perf_counter_ns() - time_ns()


def stamp_arrivals(made: socket.socket) -> None:
    """Have the kernel stamp arrivals. For the first socket on a machine, it takes effect within milliseconds."""
    made.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


class StampedSocket:
    """Replaces an `asyncio.Transport`: methods with the same name do the same.

    `connected` stamps arrivals; data that arrives without a stamp gets one of ours.
    """

    def __init__(self, connected: socket.socket, receiver: Receiver, *, offset: Offset = clock_offset) -> None:
        self._socket = connected
        self._receiver = receiver
        self._sample = offset
        self._offset: int = offset()
        self._not_before: float = 0.0
        self._unsent: bytes = b""
        self._closing: bool = False
        self._paused: bool = False
        self._loop = asyncio.get_running_loop()
        self.fileno: int = connected.fileno()
        self._loop.add_reader(self.fileno, self._read)

    @classmethod
    async def connect(cls, host: str, port: int, receiver: Receiver) -> Self:
        """Try the host's addresses in turn. Raises the last `OSError` if none of them accepts."""
        return cls(await connected_socket(host, port, stamp_arrivals), receiver)

    def expect(self, started: float) -> None:
        """A request follows; its answer cannot have arrived before `started`."""
        self._not_before = started
        if not self._offset_holds():
            self._offset = min(self._sample() for _ in range(_SAMPLES))

    def is_closing(self) -> bool:
        return self._closing

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def pause_reading(self) -> None:
        if not self._paused and not self._closing:
            self._paused = True
            self._loop.remove_reader(self.fileno)

    def resume_reading(self) -> None:
        if self._paused and not self._closing:
            self._paused = False
            self._loop.add_reader(self.fileno, self._read)

    def write(self, data: bytes) -> None:
        if self._closing:
            return
        self._unsent += data
        if len(self._unsent) == len(data):
            self._write()
            if self._unsent:
                self._receiver.pause_writing()
                self._loop.add_writer(self.fileno, self._write_rest)

    def abort(self) -> None:
        self._close(None)

    def _read(self) -> None:
        try:
            data, extra, _, _ = self._socket.recvmsg(_READ_BYTES, _SPACE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._close(error)
            return
        if not data:
            self._close(None)
            return
        moment = perf_counter()
        clock = ArrivalClock.OWN
        for level, kind, stamp in extra:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(stamp) == _STAMP.size:
                moment, clock = self._converted(stamp, moment)
        self._receiver.arrived(data, moment, clock)

    def _converted(self, stamp: bytes, now: float) -> tuple[float, ArrivalClock]:
        """The kernel's stamp as a reading of `time.perf_counter()`, or `now` if it cannot be right."""
        if not self._offset_holds():
            return now, ArrivalClock.CLOCK_SET
        seconds, nanoseconds = _STAMP.unpack(stamp)
        moment = (seconds * 1_000_000_000 + nanoseconds + self._offset) / 1_000_000_000
        if not self._not_before <= moment <= now + _TOLERANCE_NS / 1_000_000_000:
            return now, ArrivalClock.CLOCK_SET
        return min(moment, now), ArrivalClock.KERNEL

    def _offset_holds(self) -> bool:
        if abs(self._sample() - self._offset) < _TOLERANCE_NS:
            return True
        return any(abs(self._sample() - self._offset) < _TOLERANCE_NS for _ in range(_SAMPLES))

    def _write(self) -> None:
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._close(error)

    def _write_rest(self) -> None:
        self._write()
        if not self._unsent and not self._closing:
            self._loop.remove_writer(self.fileno)
            self._receiver.resume_writing()

    def _close(self, error: Exception | None) -> None:
        """The receiver is notified in the next round of the event loop, as by any transport."""
        if self._closing:
            return
        self._closing = True
        self._unsent = b""
        self._loop.remove_reader(self.fileno)
        self._loop.remove_writer(self.fileno)
        self._loop.call_soon(self._closed, error)

    def _closed(self, error: Exception | None) -> None:
        self._socket.close()
        self._receiver.connection_lost(error)
