"""When an answer that came in pieces was safe."""

from __future__ import annotations

from steadyhand.records.base import Record


class SafetyAtDeadline(Record, array_like=True):
    """Whether what had been received by each bound of the budget satisfied the invariants; None when not known."""

    target: bool | None = None
    acceptable: bool | None = None
    critical: bool | None = None


class SafetyTimeline(Record):
    """Milliseconds after the request was sent; docs/time.md defines each figure.

    `safe_ms` is when the text became safe for good and `first_safe_ms` when it first was; both are None when that never
    happened. `excludes` names the invariants that only a whole answer can be checked for. `unknown` says why figures
    are missing that could not be had.
    """

    first_token_ms: float | None = None
    safe_ms: float | None = None
    first_safe_ms: float | None = None
    at_deadline: SafetyAtDeadline | None = None
    excludes: tuple[str, ...] = ()
    unknown: str | None = None
