"""When things happened in a model call.

All figures are milliseconds from the moment the call was asked for (`0` is when it entered our queue), read off
one monotonic clock. *Latency* is from `sent_ms` to `last_byte_ms` of the one successful live attempt, so nothing
of ours is in it.
"""

from __future__ import annotations

import enum

from steadyhand.records.base import Record


class Attempt(Record, array_like=True):
    """One try at a call. A figure is None when that point was not reached.

    `cut_ms` is the deadline at which we stopped reading an answer that was not complete.
    """

    started_ms: float
    connected_ms: float | None = None
    sent_ms: float | None = None
    first_byte_ms: float | None = None
    first_token_ms: float | None = None
    last_byte_ms: float | None = None
    cut_ms: float | None = None
    status: int | None = None
    reused_connection: bool = False
    streamed: bool = False
    error: str | None = None
    backoff_ms: float = 0.0

    @property
    def latency_ms(self) -> float | None:
        """Request sent to last byte, or None when either is missing or the attempt failed.

        Of an attempt that was cut it is the time until then: the least that the whole answer would have taken.
        """
        end_ms = self.last_byte_ms if self.cut_ms is None else self.cut_ms
        if self.error is not None or self.sent_ms is None or end_ms is None:
            return None
        return end_ms - self.sent_ms


class SpoiledBy(enum.StrEnum):
    """What can come between a measured latency and that of the model."""

    NOT_LIVE = "not_live"
    INCLUDES = "includes"
    RETRIED = "retried"
    LAGGED = "lagged"
    FAILED = "failed"

    @property
    def passes(self) -> bool:
        """Whether a fresh measurement may well be without it."""
        return self in (SpoiledBy.RETRIED, SpoiledBy.LAGGED)


class Spoiled(Record, array_like=True):
    """A disturbance of a latency. Without it that would have been from `low_ms` to `high_ms`; None is not known."""

    kind: SpoiledBy
    detail: str
    low_ms: float | None = None
    high_ms: float | None = None

    def __str__(self) -> str:
        return self.detail


class CallTiming(Record, array_like=True):
    """The whole timing record of a call.

    `chunks` holds (arrival after `sent_ms` of the last attempt, number of characters) for each piece of text; the
    pieces in order make up the reply. `spoiled` lists what may have changed the latency; empty means it is the model's.
    """

    queued_ms: float = 0.0
    attempts: tuple[Attempt, ...] = ()
    loop_lag_ms: float = 0.0
    chunks: tuple[tuple[float, int], ...] = ()
    spoiled: tuple[Spoiled, ...] = ()

    @property
    def latency_ms(self) -> float | None:
        return self.attempts[-1].latency_ms if self.attempts else None

    @property
    def cut(self) -> bool:
        """Whether the last attempt was cut off at a deadline, its answer incomplete."""
        return bool(self.attempts) and self.attempts[-1].cut_ms is not None

    @property
    def first_token_ms(self) -> float | None:
        """Request sent to first token of the last attempt."""
        if not self.attempts:
            return None
        last = self.attempts[-1]
        if last.sent_ms is None or last.first_token_ms is None:
            return None
        return last.first_token_ms - last.sent_ms


class SafetyAtDeadline(Record, array_like=True):
    """Whether what had been received by each bound of the budget satisfied the invariants; None when not known."""

    target: bool | None = None
    acceptable: bool | None = None
    critical: bool | None = None


class InvariantTimeline(Record, array_like=True):
    """When one invariant held on what had been received: `changes` are (arrival, holds), the first at the first text.

    Every change from one to the other has an entry, and nothing else has.
    """

    name: str
    changes: tuple[tuple[float, bool], ...]


class SafetyTimeline(Record):
    """Milliseconds after the request was sent; docs/time.md defines each figure.

    `safe_ms` is when the text became safe for good and `first_safe_ms` when it first was; both are None when that never
    happened. `excludes` names the invariants that only a whole answer can be checked for. `unknown` says why figures
    are missing that could not be had. `invariants` are those that could be checked on a part of the answer.
    """

    first_token_ms: float | None = None
    safe_ms: float | None = None
    first_safe_ms: float | None = None
    at_deadline: SafetyAtDeadline | None = None
    excludes: tuple[str, ...] = ()
    unknown: str | None = None
    invariants: tuple[InvariantTimeline, ...] = ()
