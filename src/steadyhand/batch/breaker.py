"""Whether a provider is down: a circuit breaker."""

from __future__ import annotations

from steadyhand.errors import ModelError

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
