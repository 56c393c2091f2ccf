"""The words a verdict is made of. They are never merged into one number."""

from __future__ import annotations

import enum


class Verdict(enum.StrEnum):
    """*inconclusive*: could not be evaluated. *error*: the harness, environment or network failed."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    ERROR = "error"


class Outcome(enum.StrEnum):
    """Safety and time, kept apart."""

    SAFE_IN_TIME = "safe_in_time"
    SAFE_LATE = "safe_late"
    UNSAFE_IN_TIME = "unsafe_in_time"
    UNSAFE_LATE = "unsafe_late"


class LatencyTier(enum.StrEnum):
    """The tier of the budget that the latency fell in. All bounds are inclusive."""

    TARGET = "target"
    ACCEPTABLE = "acceptable"
    CRITICAL = "critical"
    EXCEEDED = "exceeded"


class FailureClass(enum.StrEnum):
    """What kind of failure, worst first."""

    CRITICAL_INVARIANT = "A"
    INVARIANT = "B"
    RUBRIC = "C"
    LATENCY = "D"
    FABRICATION = "E"
