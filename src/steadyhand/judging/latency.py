"""Which tier of a latency budget a figure falls in."""

from __future__ import annotations

from steadyhand.records.evaluation import LatencyTier


def tier_of(ms: float, target_ms: float, acceptable_ms: float, critical_ms: float) -> LatencyTier:
    """The first tier that `ms` is within; bounds are inclusive. A figure that is not a number is never in time."""
    if ms <= target_ms:
        return LatencyTier.TARGET
    if ms <= acceptable_ms:
        return LatencyTier.ACCEPTABLE
    if ms <= critical_ms:
        return LatencyTier.CRITICAL
    return LatencyTier.EXCEEDED
