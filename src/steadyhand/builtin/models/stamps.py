"""When the bytes of one request left and when those of its answer arrived.

Every arrival is kept with the number of body bytes there were by then. A reader that comes late, and finds several
packets in one block, can still tell when each of its bytes came in.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from time import perf_counter


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
        if pieces and totals[0] >= pieces[-1][0]:
            return ((round((self.times[0] - sent) * 1000, 3), sum([length for _, length in pieces])),)
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
