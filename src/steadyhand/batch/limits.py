"""A limit of so much a minute, kept exactly: never more than that in any sixty seconds."""

from __future__ import annotations

from collections import deque

WINDOW_S = 60.5
"""Half a second more than a minute: a request may reach the server a little later than the next one after it."""


class Spend:
    """Something spent at a moment; the amount may be corrected once it is known."""

    __slots__ = ("amount", "at")

    def __init__(self, at: float, amount: float) -> None:
        self.at: float = at
        self.amount: float = amount


class Window:
    """A sliding window. What a run may spend at once it may spend at once; then it waits for the oldest to pass."""

    def __init__(self, limit: float) -> None:
        self._limit: float = limit
        self._spent: deque[Spend] = deque()
        self._total: float = 0.0

    def wait_s(self, now: float, amount: float) -> float:
        """How long until `amount` fits; 0 when it does, or when it alone is over the limit and nothing else is in."""
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
        """The amount it really was. One that has left the window already makes no difference."""
        if self._spent and spend.at >= self._spent[0].at:
            self._total += amount - spend.amount
            spend.amount = amount
