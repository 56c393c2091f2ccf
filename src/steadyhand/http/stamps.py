"""The times of one request, from its start to the last byte of its answer."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from time import perf_counter

from steadyhand.records.base import ms_of
from steadyhand.records.chat import ArrivalClock

_BLANK_LINE = 2


class Stamps:
    """The moments of one request, in seconds of `time.perf_counter()`; None until reached.

    `sent` is read just before the last piece of the request goes to the kernel, so that neither a slow send nor being
    scheduled out afterwards makes a model look faster than it was. `when_sent` is called right after that. `clock` says
    which clock stamped the arrivals; None before the first.
    """

    __slots__ = ("clock", "connected", "reused", "sent", "started", "status", "times", "totals", "when_sent")

    def __init__(self) -> None:
        self.started: float = perf_counter()
        self.connected: float | None = None
        self.sent: float | None = None
        self.reused: bool = False
        self.status: int | None = None
        self.times: list[float] = []
        self.totals: list[int] = []
        self.clock: ArrivalClock | None = None
        self.when_sent: Callable[[], None] | None = None

    @property
    def begun(self) -> float:
        """`sent`, or `started` if it was not sent yet: where the times of the answer count from."""
        return self.sent if self.sent is not None else self.started

    @property
    def last_byte(self) -> float | None:
        return self.times[-1] if self.times else None

    @property
    def arrivals(self) -> tuple[tuple[float, int], ...]:
        """(milliseconds after `begun`, bytes of the body so far) for each packet with a part of the body."""
        begun, pairs = self.begun, zip(self.times, self.totals, strict=True)
        return tuple([(round((moment - begun) * 1000, 3), total) for moment, total in pairs if total])

    def arrival(self, count: int) -> float:
        """When the first `count` bytes of the body had arrived."""
        return self.times[min(bisect_left(self.totals, count), len(self.times) - 1)]

    def shared(self, count: int) -> bool:
        """Whether byte `count` of the body was read together with more than the blank line after it."""
        return self.totals[min(bisect_left(self.totals, count), len(self.totals) - 1)] - count > _BLANK_LINE

    def note(self, moment: float, total: int, clock: ArrivalClock) -> None:
        """`total` bytes of the body have arrived, the last at `moment`. If one stamp is ours, all count as ours."""
        self.times.append(moment)
        self.totals.append(total)
        if self.clock is None or self.clock is ArrivalClock.KERNEL:
            self.clock = clock

    def chunks(self, pieces: list[tuple[int, int]]) -> tuple[tuple[float, int], ...]:
        """(milliseconds after `begun`, characters) for (bytes of the body, characters); one packet makes one chunk."""
        begun, totals = self.begun, self.totals
        if pieces and totals[0] >= pieces[-1][0]:
            return ((ms_of(self.times[0] - begun), sum([length for _, length in pieces])),)
        chunks: list[tuple[float, int]] = []
        packet = -1
        reach = characters = 0
        for count, length in pieces:
            if packet < 0 or count > reach:
                if packet >= 0:
                    chunks.append((ms_of(self.times[packet] - begun), characters))
                packet = min(bisect_left(totals, count), len(totals) - 1)
                reach = max(totals[packet], count)
                characters = 0
            characters += length
        if packet >= 0:
            chunks.append((ms_of(self.times[packet] - begun), characters))
        return tuple(chunks)
