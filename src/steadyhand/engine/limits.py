"""Limits: the budget of a run, the time that a turn or conversation may take, and how late the event loop runs.

Bytes that arrive while the loop is busy are stamped late. The monitor wakes up every few milliseconds and records how
late each wake-up was, which bounds the error of a call's timestamps. It is also the one place that knows when this
process was not running at all: stopped, suspended with the machine, or stuck in a computation.
"""

from __future__ import annotations

import asyncio
import math
import time
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from itertools import takewhile
from types import TracebackType
from typing import Self

import msgspec

from steadyhand.errors import SetupError
from steadyhand.judging.cost import Prices, spent_on
from steadyhand.records.config import Price
from steadyhand.records.event import AnyEvent, ModelCalled
from steadyhand.records.run import Spent, TrialRecord

_MIN_CHECK_S = 0.001
INTERVAL_S = 0.01
SHORTEST_NOTED_S = 0.002
MAX_STALLS = 16384
"""Enough for more than two minutes in which every wake-up is late."""

FROZEN_S = 1.0
"""A trial during which this process was not running for so long is measured again if it was left undecided."""
_LONG_STALL_S = 0.025
_MOST_LONG_STALLS = 4096

RECENT_S = 2.0
_RECENT_STALLS = int(RECENT_S / INTERVAL_S)
_BLOCK = 64
_SHORTEST_SLEEP_S = 0.1


class SpendingLimit:
    """What a run may spend. An `EventSink` shared by all trials, and checked before each of them starts.

    Calls answered from a recording or a cache do not count. An answer without a token count also ends the run: we must
    not claim to enforce a limit that we cannot measure.
    """

    def __init__(self, prices: Prices, *, max_cost: float | None = None, max_tokens: int | None = None) -> None:
        self._prices: Prices = prices
        self._max_cost: float | None = max_cost
        self._max_tokens: int | None = max_tokens
        self._uncounted: str | None = None
        self.spent: Spent = Spent()

    @property
    def limited(self) -> bool:
        return self._max_cost is not None or self._max_tokens is not None

    def price_of(self, model: str) -> Price | None:
        return self._prices.of(model)

    def check(self, models: Iterable[str]) -> None:
        """Raises `SetupError` if the cost is limited and the price of a model is unknown."""
        if self._max_cost is None:
            return
        unknown = sorted({model for model in models if self._prices.of(model) is None})
        if unknown:
            raise SetupError(
                f"--max-cost needs the price of {', '.join(unknown)}: add it to steadyhand.toml, as in "
                f'[prices."{unknown[0]}"] with input and output per million tokens'
            )

    def count_spent(self, trials: Iterable[TrialRecord]) -> None:
        """Add what the run had spent before it was resumed."""
        for trial in trials:
            for event in trial.paid:
                self.emit(event)
            self.count_spent((*trial.earlier, *trial.replaced))

    def emit(self, event: AnyEvent) -> None:
        if not isinstance(event, ModelCalled):
            return
        spent = spent_on(event, self._prices)
        if spent.not_live:
            return
        self.spent = self.spent.plus(spent)
        if event.error is None and event.usage is None:
            self._uncounted = f"the server of {event.model} does not report how many tokens a call used"
        elif spent.unpriced and self._max_cost is not None:
            self._uncounted = f"the price of {event.model} is unknown"

    @property
    def exhausted(self) -> str | None:
        """Why no new trial may start; None if one may."""
        cost, tokens = self._max_cost, self._max_tokens
        if cost is None and tokens is None:
            return None
        if tokens is not None and self.spent.tokens >= tokens:
            return f"--max-tokens reached: {self.spent.tokens} of {tokens} tokens"
        if cost is not None and self.spent.cost >= cost:
            return f"--max-cost reached: {self.spent.cost:.4f} of {cost:g}"
        if self._uncounted is not None:
            option = "--max-tokens" if tokens is not None else "--max-cost"
            return f"{option} cannot be enforced: {self._uncounted}; run without the limit"
        return None

    def may_start(self) -> bool:
        return self.exhausted is None


class WaitLedger:
    """Sums up the time spent in our queue or back-off while no attempt was in flight."""

    def __init__(self) -> None:
        self.settled_ms: float = 0.0
        self._waiting: int = 0
        self._active: int = 0
        self._since: float = 0.0

    def wait_begins(self) -> None:
        self._settle()
        self._waiting += 1

    def wait_ends(self) -> None:
        self._settle()
        self._waiting -= 1

    def attempt_begins(self) -> None:
        """Ends a wait and begins an attempt."""
        self._settle()
        self._waiting -= 1
        self._active += 1

    def attempt_ends(self) -> None:
        self._settle()
        self._active -= 1

    def waited_ms(self) -> float:
        """The total, including the current wait."""
        self._settle()
        return self.settled_ms

    def _settle(self) -> None:
        now = time.perf_counter()
        if self._waiting and not self._active:
            self.settled_ms += (now - self._since) * 1000.0
        self._since = now


class Lost(msgspec.Struct, frozen=True):
    """Time during which this process was not running, in seconds: `stalled_s` passed on our clock, `asleep_s` did not,
    because the machine was suspended. Meanwhile an agent may have run on, or have been stopped with us."""

    stalled_s: float = 0.0
    asleep_s: float = 0.0

    def since(self, earlier: Lost) -> Lost:
        """What was lost between two readings."""
        if self is earlier:
            return NOTHING_LOST
        return Lost(max(0.0, self.stalled_s - earlier.stalled_s), self.asleep_s - earlier.asleep_s)

    @property
    def total_ms(self) -> float:
        return (self.stalled_s + self.asleep_s) * 1000.0

    def bounds(self, measured_ms: float) -> tuple[float, float]:
        """The least and the most that something can have taken if it took so long on our clock."""
        return max(0.0, measured_ms - self.total_ms), measured_ms + self.asleep_s * 1000.0

    def __str__(self) -> str:
        how = "the machine was suspended" if self.asleep_s > self.stalled_s else "Steadyhand was stopped or too busy"
        return f"{how} for {self.total_ms / 1000.0:.1f} s"


NOTHING_LOST = Lost()


class AgentTimeout:
    """Like `asyncio.timeout`, but counts only the agent's own time: raises `TimeoutError` after `allowed_ms` of it.

    Waiting for a rate limit, an outage or a back-off is not the agent's fault and does not count, nor does time during
    which this process was not running. It expires only when the limit is exceeded even without all of that.
    """

    def __init__(self, allowed_ms: float, waits: WaitLedger, lag: LagMonitor | None = None) -> None:
        self._allowed_ms: float = allowed_ms
        self._waits: WaitLedger = waits
        self._lag: LagMonitor | None = lag
        self._lost_before: Lost = NOTHING_LOST
        self._timeout: asyncio.Timeout = asyncio.timeout(None)
        self._timer: asyncio.TimerHandle | None = None
        self._began: float = 0.0
        self._waited_before_ms: float = 0.0

    async def __aenter__(self) -> Self:
        self._began = time.perf_counter()
        self._waited_before_ms = self._waits.waited_ms()
        self._lost_before = lost_so_far(self._lag)
        await self._timeout.__aenter__()
        self._check_time()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if self._timer is not None:
            self._timer.cancel()
        return await self._timeout.__aexit__(kind, error, trace)

    def expired(self) -> bool:
        return self._timeout.expired()

    def used_ms(self) -> float:
        """Time since it was entered, without the waits."""
        waited_ms = self._waits.waited_ms() - self._waited_before_ms
        return max(0.0, (time.perf_counter() - self._began) * 1000.0 - waited_ms)

    def doubt(self) -> str | None:
        """Why it cannot be told whether the limit was kept: what we lost could decide it. None if it can be told."""
        lost = lost_so_far(self._lag).since(self._lost_before)
        least_ms, most_ms = lost.bounds(self.used_ms())
        if not least_ms < self._allowed_ms < most_ms:
            return None
        return f"{lost}, so that the limit of {self._allowed_ms:g} ms cannot be checked"

    def _check_time(self) -> None:
        """Expire now, or check again at the earliest moment at which the time could be used up."""
        loop = asyncio.get_running_loop()
        lost = lost_so_far(self._lag).since(self._lost_before)
        remaining_s = (self._allowed_ms - self.used_ms()) / 1000.0 + lost.stalled_s
        if remaining_s <= 0:
            self._timeout.reschedule(loop.time())
        else:
            self._timer = loop.call_later(max(remaining_s, _MIN_CHECK_S), self._check_time)


class Stalls:
    """When the event loop stalled, in order. A query for a span does not look at every stall in it: with thousands of
    calls in flight, each call spans thousands of stalls."""

    def __init__(self, kept: int = MAX_STALLS) -> None:
        self._kept: int = kept - kept % _BLOCK
        self._due: list[float] = []
        self._woken: list[float] = []
        self._sums: list[float] = []
        self._longest: list[float] = []
        self._forgotten: tuple[float, float] | None = None

    def __len__(self) -> int:
        return len(self._woken)

    def note(self, due: float, woken: float) -> None:
        """The loop should have run at `due` and did so at `woken`, which is later than any noted before."""
        if len(self._woken) >= 2 * self._kept:
            self._forget()
        stall = woken - due
        if len(self._woken) % _BLOCK:
            self._longest[-1] = max(self._longest[-1], stall)
        else:
            self._longest.append(stall)
        self._due.append(due)
        self._woken.append(woken)
        self._sums.append((self._sums[-1] if self._sums else 0.0) + stall)

    def longest(self, start: float, end: float) -> float:
        """The longest stall, in seconds, clipped to the span. A stall that is no longer kept counts in full."""
        worst = self._forgotten[1] if self._forgotten is not None and self._forgotten[0] > start else 0.0
        first, last = self._within(start, end)
        if first > last:
            return worst
        worst = max(worst, self._part(first, start, end), self._part(last, start, end))
        first += 1
        while first < last:
            if first % _BLOCK == 0 and first + _BLOCK <= last:
                worst = max(worst, self._longest[first // _BLOCK])
                first += _BLOCK
            else:
                worst = max(worst, self._woken[first] - self._due[first])
                first += 1
        return worst

    def total(self, start: float, end: float) -> float:
        """The sum of all stalls, in seconds, clipped to the span; infinite if some are no longer kept."""
        if self._forgotten is not None and self._forgotten[0] > start:
            return math.inf
        first, last = self._within(start, end)
        if first > last:
            return 0.0
        if first == last:
            return self._part(first, start, end)
        between = self._sums[last - 1] - self._sums[first]
        return self._part(first, start, end) + between + self._part(last, start, end)

    def first_after(self, moment: float) -> float | None:
        """The start of the first stall that ended at or after the moment; minus infinity if it is no longer kept."""
        if self._forgotten is not None and self._forgotten[0] > moment:
            return -math.inf
        index = bisect_left(self._woken, moment)
        return self._due[index] if index < len(self._due) else None

    def _within(self, start: float, end: float) -> tuple[int, int]:
        """The indices of the first stall that ended after `start` and the last that began before `end`."""
        woken = self._woken
        if not woken or woken[-1] < start:
            return 1, 0
        return bisect_left(woken, start), bisect_right(self._due, end) - 1

    def _part(self, index: int, start: float, end: float) -> float:
        return max(0.0, min(self._woken[index], end) - max(self._due[index], start))

    def _forget(self) -> None:
        """Drop the older half."""
        blocks = self._kept // _BLOCK
        before = self._forgotten[1] if self._forgotten is not None else 0.0
        self._forgotten = (self._woken[self._kept - 1], max(before, *self._longest[:blocks]))
        del self._longest[:blocks]
        for each in (self._due, self._woken, self._sums):
            del each[: self._kept]


# The clocks that go on and stop while the machine is suspended: on macOS, the monotonic clock goes on.
_GOES_ON: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
_STOPS: int | None = getattr(time, "CLOCK_MONOTONIC" if hasattr(time, "CLOCK_BOOTTIME") else "CLOCK_UPTIME_RAW", None)


def machine_asleep_s() -> float:
    """How long the machine has been suspended since it was started; 0 where that is not known."""
    if _GOES_ON is None or _STOPS is None:
        return 0.0
    return time.clock_gettime(_GOES_ON) - time.clock_gettime(_STOPS)


class LagMonitor:
    """Use as a context manager around a run, inside its event loop. `asleep_s` is replaced in tests."""

    def __init__(self, asleep_s: Callable[[], float] = machine_asleep_s) -> None:
        self._asleep_s = asleep_s
        self._asleep_lately_s: float = asleep_s()
        self._lost = Lost()
        self._stalls = Stalls()
        self._long: deque[tuple[float, float]] = deque(maxlen=_MOST_LONG_STALLS)
        self._timer: asyncio.TimerHandle | None = None
        self._due: float = 0.0
        self._recent: deque[tuple[float, float]] = deque(maxlen=_RECENT_STALLS)

    def __enter__(self) -> Self:
        self._schedule(asyncio.get_running_loop())
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def reset(self) -> None:
        """Start over: nothing was being timed until now."""
        self._stalls = Stalls()
        self._recent.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._schedule(asyncio.get_running_loop())

    def lost(self) -> Lost:
        """What was lost so far. Only the difference between two readings means anything (`Lost.since`)."""
        self._note_sleep()
        return self.lost_lately()

    def lost_lately(self) -> Lost:
        """The same, with suspensions as of the last wake-up: their clocks take microseconds to read. For the beginning
        of what is measured, where it does no harm to count a suspension just before it."""
        if self._timer is None or (late_s := time.perf_counter() - self._due) <= 0.0:
            return self._lost
        return Lost(self._lost.stalled_s + late_s, self._lost.asleep_s)

    def _note_sleep(self) -> None:
        """A suspension too short to matter is left out: the two clocks are read one after the other, and may drift."""
        before, self._asleep_lately_s = self._asleep_lately_s, self._asleep_s()
        slept_s = self._asleep_lately_s - before
        if slept_s >= _SHORTEST_SLEEP_S:
            self._lost = Lost(self._lost.stalled_s, self._lost.asleep_s + slept_s)

    def long_stalls(self, start: float) -> list[tuple[float, float]]:
        """The beginning and end of the stalls that ended after `start` and may have changed a time that matters."""
        ended: list[tuple[float, float]] = []
        if self._long and self._long[-1][1] > start:
            ended = list(takewhile(lambda stall: stall[1] > start, reversed(self._long)))[::-1]
        now = time.perf_counter()
        if self._timer is not None and now - self._due >= _LONG_STALL_S:
            ended.append((self._due, now))
        return ended

    def worst_ms(self, start: float, end: float) -> float:
        """The longest stall of the loop between two readings of `time.perf_counter()`.

        Nothing that arrived in between was stamped later than that.
        """
        worst = self._stalls.longest(start, end)
        if self._timer is not None:
            worst = max(worst, end - max(self._due, start))
        return worst * 1000.0

    def stuck_ms(self, moment: float) -> float:
        """How long the loop may already have been stuck at a past moment; 0 if it was running.

        Infinite if the stalls are no longer known that far back.
        """
        stuck_since = self._due - INTERVAL_S
        if self._timer is not None and stuck_since <= moment and time.perf_counter() - self._due >= SHORTEST_NOTED_S:
            return (moment - stuck_since) * 1000.0
        due = self._stalls.first_after(moment)
        return 0.0 if due is None else max(0.0, moment - due + INTERVAL_S) * 1000.0

    def total_ms(self, start: float, end: float) -> float:
        """The sum of all stalls in a span: the most by which a sequence of steps in it can have been delayed.

        Infinite if the stalls are no longer known that far back.
        """
        stuck = self._stalls.total(start, end)
        if self._timer is not None:
            stuck += max(0.0, end - max(self._due, start))
        return stuck * 1000.0

    def recent_worst_ms(self) -> float:
        """The longest stall of the last two seconds. Safe to call from another thread."""
        end = time.perf_counter()
        start = end - RECENT_S
        late = [woken - max(due, start) for due, woken in list(self._recent.copy()) if woken >= start]
        if self._timer is not None:
            late.append(end - max(self._due, start))
        return max([0.0, *late]) * 1000.0

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = time.perf_counter() + INTERVAL_S
        self._timer = loop.call_later(INTERVAL_S, self._wake, loop)

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        now = time.perf_counter()
        self._note_sleep()
        if now - self._due >= SHORTEST_NOTED_S:
            self._lost = Lost(self._lost.stalled_s + now - self._due, self._lost.asleep_s)
            if now - self._due >= _LONG_STALL_S:
                self._long.append((self._due, now))
            self._stalls.note(self._due, now)
            self._recent.append((self._due, now))
        self._schedule(loop)


def lost_so_far(lag: LagMonitor | None) -> Lost:
    return NOTHING_LOST if lag is None else lag.lost()


def lost_lately(lag: LagMonitor | None) -> Lost:
    return NOTHING_LOST if lag is None else lag.lost_lately()


class SystemClock:
    now = staticmethod(time.perf_counter)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
