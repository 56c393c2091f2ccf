"""Limits: the budget of a run, the time that a turn or conversation may take, and how late the event loop runs.

Bytes that arrive while the loop is busy are stamped late. The monitor wakes every few milliseconds and records how late
each wake-up was, which bounds the error of a call's time stamps.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from steadyhand.errors import SetupError
from steadyhand.judging.cost import Prices, spent_on
from steadyhand.records.event import AnyEvent, ModelCalled
from steadyhand.records.run import Spent, TrialRecord

_MIN_CHECK_S = 0.001
INTERVAL_S = 0.01
SHORTEST_NOTED_S = 0.002
MAX_SAMPLES = 4096
RECENT_S = 2.0


class SpendingLimit:
    """What a run may spend. An `EventSink` shared by all trials, and asked before each of them starts.

    Calls answered from a recording or a cache do not count. An answer without a token count ends the run as well: we
    must not claim to keep a limit that we cannot measure.
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
            self._uncounted = f"the server of {event.model} does not say how many tokens a call took"
        elif spent.unpriced and self._max_cost is not None:
            self._uncounted = f"the price of {event.model} is not known"

    @property
    def exhausted(self) -> str | None:
        """Why no new trial may start; None if one may."""
        cost, tokens = self._max_cost, self._max_tokens
        if cost is None and tokens is None:
            return None
        if tokens is not None and self.spent.tokens >= tokens:
            return f"--max-tokens is used up: {self.spent.tokens} of {tokens} tokens"
        if cost is not None and self.spent.cost >= cost:
            return f"--max-cost is used up: {self.spent.cost:.4f} of {cost:g}"
        if self._uncounted is not None:
            option = "--max-tokens" if tokens is not None else "--max-cost"
            return f"{option} cannot be kept: {self._uncounted}; run without the limit"
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
        self._settle()
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


class AgentTimeout:
    """Like `asyncio.timeout`, but counts only the agent's own time: raises `TimeoutError` after `allowed_ms` of it.

    Waiting for a rate limit, an outage or a back-off is not the agent's fault and does not count.
    """

    def __init__(self, allowed_ms: float, waits: WaitLedger) -> None:
        self._allowed_ms: float = allowed_ms
        self._waits: WaitLedger = waits
        self._timeout: asyncio.Timeout = asyncio.timeout(None)
        self._timer: asyncio.TimerHandle | None = None
        self._began: float = 0.0
        self._waited_before_ms: float = 0.0

    async def __aenter__(self) -> Self:
        self._began = time.perf_counter()
        self._waited_before_ms = self._waits.waited_ms()
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

    def _check_time(self) -> None:
        """Expire now, or check again at the earliest moment the rest could be used up."""
        loop = asyncio.get_running_loop()
        remaining_s = (self._allowed_ms - self.used_ms()) / 1000.0
        if remaining_s <= 0:
            self._timeout.reschedule(loop.time())
        else:
            self._timer = loop.call_later(max(remaining_s, _MIN_CHECK_S), self._check_time)


class LagMonitor:
    """Use as a context manager around a run, inside its event loop."""

    def __init__(self) -> None:
        self._late: deque[tuple[float, float]] = deque(maxlen=MAX_SAMPLES)
        self._timer: asyncio.TimerHandle | None = None
        self._due: float = 0.0

    def __enter__(self) -> Self:
        self._schedule(asyncio.get_running_loop())
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def reset(self) -> None:
        """Start over: nothing was being timed until now."""
        self._late.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._schedule(asyncio.get_running_loop())

    def worst_ms(self, start: float, end: float) -> float:
        """The longest stall of the loop between two readings of `time.perf_counter()`.

        Nothing that arrived in between was stamped later than that.
        """
        worst = 0.0
        for due, woken in reversed(self._late):
            if woken < start:
                break
            if woken - due > worst:
                worst = max(worst, min(woken, end) - max(due, start))
        if self._timer is not None:
            worst = max(worst, end - max(self._due, start))
        return worst * 1000.0

    def stuck_ms(self, moment: float) -> float:
        """How long the loop can have been stuck already at a past moment; 0 if it was running.

        Infinite if the samples no longer reach back that far.
        """
        stuck_since = self._due - INTERVAL_S
        if self._timer is not None and stuck_since <= moment and time.perf_counter() - self._due >= SHORTEST_NOTED_S:
            return (moment - stuck_since) * 1000.0
        if len(self._late) == MAX_SAMPLES and self._late[0][1] > moment:
            return math.inf
        for due, woken in reversed(self._late):
            if woken < moment:
                break
            if due - INTERVAL_S <= moment:
                return (moment - due + INTERVAL_S) * 1000.0
        return 0.0

    def total_ms(self, start: float, end: float) -> float:
        """The sum of all stalls in a span: the most that a sequence of steps in it can have been delayed.

        Infinite if the samples no longer reach back that far.
        """
        if len(self._late) == MAX_SAMPLES and self._late[0][0] > start:
            return math.inf
        stuck = 0.0
        for due, woken in reversed(self._late):
            if woken < start:
                break
            stuck += max(0.0, min(woken, end) - max(due, start))
        if self._timer is not None:
            stuck += max(0.0, end - max(self._due, start))
        return stuck * 1000.0

    def recent_worst_ms(self) -> float:
        """The longest stall of the last two seconds. Safe to call from another thread."""
        end = time.perf_counter()
        start = end - RECENT_S
        late = [woken - max(due, start) for due, woken in list(self._late.copy()) if woken >= start]
        if self._timer is not None:
            late.append(end - max(self._due, start))
        return max([0.0, *late]) * 1000.0

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = time.perf_counter() + INTERVAL_S
        self._timer = loop.call_later(INTERVAL_S, self._wake, loop)

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        now = time.perf_counter()
        if now - self._due >= SHORTEST_NOTED_S:
            self._late.append((self._due, now))
        self._schedule(loop)


class SystemClock:
    now = staticmethod(time.perf_counter)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
