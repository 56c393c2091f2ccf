"""How much a run may use up: when it is gone, no new trial starts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from steadyhand.errors import SetupError
from steadyhand.judging.cost import Prices, spent_on
from steadyhand.records.cost import Spent
from steadyhand.records.event import AnyEvent, ModelCalled
from steadyhand.records.run import TrialRecord


class Budget:
    """A `ports.sink.EventSink` that is shared by the trials of a run, and asked before each starts.

    Calls that were answered from a recording or a cache do not count. An answer whose use is not known ends the run as
    well: a limit that cannot be kept must not look as if it were.
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
        """Raises `SetupError` when the cost is limited and a model's price is not known."""
        if self._max_cost is None:
            return
        unknown = sorted({model for model in models if self._prices.of(model) is None})
        if unknown:
            raise SetupError(
                f"--max-cost needs the price of {', '.join(unknown)}: add it to steadyhand.toml, as in "
                f'[prices."{unknown[0]}"] with input and output per million tokens'
            )

    def count_spent(self, trials: Iterable[TrialRecord]) -> None:
        """Count what the run has spent already, before it was cut short."""
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
        """Why no new trial may start, or None while some may."""
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
    """Adds up the time in which something waited in our queue or back-off while no attempt was under way."""

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
        """The total, with what is being waited right now."""
        self._settle()
        return self.settled_ms

    def _settle(self) -> None:
        now = time.perf_counter()
        if self._waiting and not self._active:
            self.settled_ms += (now - self._since) * 1000.0
        self._since = now


_MIN_CHECK_S = 0.001


class AgentTimeout:
    """Use like `asyncio.timeout`: raises `TimeoutError` when more than `allowed_ms` of the trial's own time went by.

    Waiting for a rate limit, for a provider that is down and for a back-off is not the agent's slowness, so a turn that
    is held up for a minute is not out of time.
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
        """Time since it was entered, without what was waited."""
        waited_ms = self._waits.waited_ms() - self._waited_before_ms
        return max(0.0, (time.perf_counter() - self._began) * 1000.0 - waited_ms)

    def _check_time(self) -> None:
        """Out of time now, or look again when the rest would be used up if nothing were waited for."""
        loop = asyncio.get_running_loop()
        remaining_s = (self._allowed_ms - self.used_ms()) / 1000.0
        if remaining_s <= 0:
            self._timeout.reschedule(loop.time())
        else:
            self._timer = loop.call_later(max(remaining_s, _MIN_CHECK_S), self._check_time)
