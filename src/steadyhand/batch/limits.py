"""When a provider may be called: limits for any sixty-second window, never exceeded, and a circuit breaker."""

from __future__ import annotations

import math
from collections import deque
from contextlib import suppress

from steadyhand.errors import ModelError

WINDOW_S = 60.5
"""Half a second more than a minute, because requests may reach the server slightly out of order."""


class Spend:
    """An amount spent at a point in time; it can be corrected once the real amount is known."""

    __slots__ = ("amount", "at")

    def __init__(self, at: float, amount: float) -> None:
        self.at: float = at
        self.amount: float = amount


class Window:
    """A sliding window. A run can spend the whole limit at once; then it waits until the oldest entry expires."""

    def __init__(self, limit: float) -> None:
        self._limit: float = limit
        self._spent: deque[Spend] = deque()
        self._total: float = 0.0

    def wait_s(self, now: float, amount: float) -> float:
        """How long until `amount` fits; 0 if it fits now, or if it exceeds the limit by itself and the window is
        empty."""
        while self._spent and self._spent[0].at <= now - WINDOW_S:
            self._total -= self._spent.popleft().amount
        over = self._total + amount - self._limit
        if over <= 0 or not self._spent:
            return 0.0
        for spend in self._spent:
            over -= spend.amount
            if over <= 0:
                return spend.at + WINDOW_S - now
        return self._spent[-1].at + WINDOW_S - now

    def spend(self, now: float, amount: float) -> Spend:
        spend = Spend(now, amount)
        self._spent.append(spend)
        self._total += amount
        return spend

    def correct(self, spend: Spend, amount: float) -> None:
        """Set the actual amount. Has no effect if the entry has already left the window."""
        if self._spent and spend.at >= self._spent[0].at:
            self._total += amount - spend.amount
            spend.amount = amount


SPACING_S = 0.00025
OPENING_S = 0.001
_SHORTEST_SPAN_S = 1.0
_LONGEST_SPAN_S = 10.0
_KEPT = 1024
_LONGEST_S = 5.0
_NOTHING_S = 0.002
_CLOSER = 0.98
_WIDER = 1.25
_OUTCOMES = 20
_FEWEST = 5
_OFTEN = 0.3
_NEWEST = 1 / 16
"""The weight of the newest latency in the running average."""


class Pace:
    """Starts are spaced by a quarter of a millisecond: if 64 calls start together, the server receives a burst that we
    caused, and the work of starting the others delays all their timestamps. A call that opens a new connection means
    work on both sides, so those are spaced by a millisecond. The spacing never limits the throughput: it is at most
    half of what the calls in flight need to keep up with the answers.

    When many calls are rate limited, they are spaced at the rate at which calls were recently accepted. From then on,
    every answer reduces the spacing a little, and every refusal increases it. A run thus discovers limits that are not
    configured, and its calls wait their turn, which keeps their latency valid, instead of being refused and retried,
    which disturbs it. An occasional refusal of calls that are far apart has no effect.
    """

    def __init__(self, shortest_s: float = SPACING_S) -> None:
        self._shortest_s: float = shortest_s
        self._spacing_s: float = shortest_s
        self._next_start: float = 0.0
        self._first_start: float | None = None
        self._latency_s: float | None = None
        self._taken: deque[float] = deque(maxlen=_KEPT)
        self._refused: deque[bool] = deque(maxlen=_OUTCOMES)

    @property
    def slowed(self) -> bool:
        return self._spacing_s > self._shortest_s

    def wait_s(self, now: float, *, opening: bool = False, in_flight: int = 1) -> float:
        """Reserve the next start, which may be `opening` a connection, and return the time until then."""
        spacing_s = self._spacing_s
        if not spacing_s:
            return 0.0
        if opening:
            spacing_s = max(spacing_s, OPENING_S)
        elif self._latency_s is not None and spacing_s == self._shortest_s:
            spacing_s = min(spacing_s, self._latency_s / (2 * in_flight))
        due = max(now, self._next_start)
        self._next_start = due + spacing_s
        return due - now

    def started(self, now: float) -> None:
        if self._first_start is None:
            self._first_start = now
        self._taken.append(now)

    def answered(self, latency_ms: float | None = None) -> None:
        """A call was answered, after `latency_ms` if that is known."""
        self._refused.append(False)
        if latency_ms is not None and 0 <= latency_ms < math.inf:  # a third-party model may report anything
            latency_s = latency_ms / 1000.0
            known_s = latency_s if self._latency_s is None else self._latency_s
            self._latency_s = known_s + (latency_s - known_s) * _NEWEST
        if self.slowed:
            closer_s = self._spacing_s * _CLOSER
            self._spacing_s = closer_s if closer_s > _NOTHING_S else self._shortest_s

    def limited(self, now: float, *, started: float) -> None:
        """The call that started then was refused by a rate limit."""
        with suppress(ValueError):
            self._taken.remove(started)
        self._refused.append(True)
        if len(self._refused) >= _FEWEST and sum(self._refused) >= _OFTEN * len(self._refused):
            self._spacing_s = max(self._spacing_s, self._as_taken_lately(now), _NOTHING_S)
        elif self.slowed:
            self._spacing_s = min(self._spacing_s * _WIDER, _LONGEST_S)

    def _as_taken_lately(self, now: float) -> float:
        """Seconds between two accepted calls."""
        since = self._taken[0] if len(self._taken) >= _KEPT - 1 else self._first_start
        span_s = min(max(now - (since or 0.0), _SHORTEST_SPAN_S), _LONGEST_SPAN_S)
        taken = sum(now - at <= span_s for at in self._taken)
        return min(span_s / max(taken, 1), _LONGEST_S)


TOLERATED = 10
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
DOWN = frozenset(("connect", "server", "timeout"))
_UP = frozenset(("rate_limit", "auth", "refused"))


class Breaker:
    """A circuit breaker that counts consecutive failures. Closed: all calls may start. Open: no call may start until a
    pause is over; then a single call probes the provider.

    If the probe succeeds, the breaker closes; if it fails, the next pause is twice as long. After `give_up_s` without a
    success, calls no longer wait: the rest of the run ends in error, and a resume repeats it.
    """

    def __init__(self, give_up_s: float) -> None:
        self._give_up_s: float = give_up_s
        self._failures: int = 0
        self._pause_s: float = FIRST_PAUSE_S
        self._down_since: float | None = None
        self._closed_until: float = 0.0
        self._probing: bool = False
        self.last_error: str = ""

    @property
    def open(self) -> bool:
        return self._down_since is not None

    def wait_s(self, now: float) -> float:
        """0 if an attempt may start now. While a probe is running, the others poll."""
        if self._down_since is None:
            return 0.0
        if self._probing:
            return min(self._pause_s, 1.0)
        return max(0.0, self._closed_until - now)

    def given_up(self, now: float) -> bool:
        return self._down_since is not None and now - self._down_since >= self._give_up_s

    def down_s(self, now: float) -> float:
        return 0.0 if self._down_since is None else now - self._down_since

    def starts(self) -> bool:
        """An attempt starts now. True if it is the probe."""
        self._probing = self._down_since is not None
        return self._probing

    def succeeded(self) -> bool:
        """True if the provider is back."""
        self._failures = 0
        self._probing = False
        back = self._down_since is not None
        self._down_since = None
        self._pause_s = FIRST_PAUSE_S
        return back

    def abandoned(self) -> None:
        """The probe was cancelled: another call may probe."""
        self._probing = False

    def failed(self, now: float, error: ModelError, *, probe: bool) -> bool:
        """True if this failure opened the breaker. A deliberate refusal shows that the provider is up."""
        if probe:
            self._probing = False
        if error.kind in _UP:
            self.succeeded()
        if error.kind not in DOWN:
            return False
        self.last_error = str(error)
        self._failures += 1
        if self._down_since is not None:
            if probe:
                self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
                self._closed_until = now + self._pause_s
            return False
        if self._failures < TOLERATED:
            return False
        self._down_since = now
        self._closed_until = now + self._pause_s
        return True
