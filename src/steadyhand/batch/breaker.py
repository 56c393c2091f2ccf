"""Leaving a provider alone while it is down."""

from __future__ import annotations

from steadyhand.errors import ModelError

TOLERATED = 10
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
GIVE_UP_S = 120.0
_DOWN = frozenset(("connect", "server", "timeout"))
_UP = frozenset(("rate_limit", "auth", "refused"))


class Breaker:
    """Counts failures in a row. Closed: all may go. Open: none may, until a pause is over; then one goes to see.

    When that one succeeds the breaker closes; when it fails the next pause is twice as long. After `GIVE_UP_S` without
    a success nobody waits any more: what is left of the run ends in error soon, and a resume does it later.
    """

    def __init__(self) -> None:
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
        """0 when an attempt may go now. While one is looking, the others look back every so often."""
        if self._down_since is None:
            return 0.0
        if self._probing:
            return min(self._pause_s, 1.0)
        return max(0.0, self._closed_until - now)

    def given_up(self, now: float) -> bool:
        return self._down_since is not None and now - self._down_since >= GIVE_UP_S

    def down_s(self, now: float) -> float:
        return 0.0 if self._down_since is None else now - self._down_since

    def starts(self) -> bool:
        """An attempt goes now. True when it is the one that looks whether the provider is back."""
        self._probing = self._down_since is not None
        return self._probing

    def succeeded(self) -> bool:
        """True when the provider is back."""
        self._failures = 0
        self._probing = False
        back = self._down_since is not None
        self._down_since = None
        self._pause_s = FIRST_PAUSE_S
        return back

    def abandoned(self) -> None:
        """The one that looked was cancelled: somebody else may look."""
        self._probing = False

    def failed(self, now: float, error: ModelError, *, probe: bool) -> bool:
        """True when this failure opened the breaker. A considered refusal shows that the provider is up."""
        if probe:
            self._probing = False
        if error.kind in _UP:
            self.succeeded()
        if error.kind not in _DOWN:
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
