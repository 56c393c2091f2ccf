"""What holds a run up at this moment, for whoever watches it. Nothing here is stored: waits are events of trials."""

from __future__ import annotations

from steadyhand.records.base import Record


class HeldUp(Record):
    """Calls that wait for one reason; `left_s` is until the first of them may go, as far as is known."""

    reason: str
    calls: int
    left_s: float
    down: str | None = None
    """The provider, when it is down."""


class Standing(Record):
    """`lag_ms` is the worst lag of the event loop in the last moments."""

    waits: tuple[HeldUp, ...] = ()
    lag_ms: float = 0.0
