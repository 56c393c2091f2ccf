"""How far apart calls are started: next to nothing, and more for a provider that limits the rate."""

from __future__ import annotations

from collections import deque
from contextlib import suppress

SPACING_S = 0.0005
_LATELY_S = 10.0
_KEPT = 1024
_LONGEST_S = 5.0
_NOTHING_S = 0.002
_FASTER = 0.98


class Pace:
    """Starts are spaced by half a millisecond: 64 calls fired together are all stamped late by the work of starting
    the others.

    When a limit is run into, they are spaced as calls were taken lately, and every answer brings them a little closer
    again. So a run whose limits nobody configured finds them, and its calls wait for their turn, which keeps their
    latency, instead of being refused and tried again, which spoils it.
    """

    def __init__(self, shortest_s: float = SPACING_S) -> None:
        self._shortest_s: float = shortest_s
        self._spacing_s: float = shortest_s
        self._next_start: float = 0.0
        self._starts: deque[float] = deque(maxlen=_KEPT)

    @property
    def slowed(self) -> bool:
        return self._spacing_s > self._shortest_s

    def wait_s(self, now: float) -> float:
        """Take the next start; how long it is until then."""
        if not self._spacing_s:
            return 0.0
        due = max(now, self._next_start)
        self._next_start = due + self._spacing_s
        return due - now

    def started(self, now: float) -> None:
        self._starts.append(now)

    def answered(self) -> None:
        if self.slowed:
            closer_s = self._spacing_s * _FASTER
            self._spacing_s = closer_s if closer_s > _NOTHING_S else self._shortest_s

    def limited(self, now: float, *, started: float) -> None:
        """The call that was started then has been refused, since there were too many."""
        with suppress(ValueError):
            self._starts.remove(started)
        span_s = _LATELY_S
        if len(self._starts) >= _KEPT - 1:
            span_s = min(span_s, now - self._starts[0])
        taken = sum(now - at <= span_s for at in self._starts)
        self._spacing_s = max(self._spacing_s, min(span_s / max(taken, 1), _LONGEST_S), _NOTHING_S)
