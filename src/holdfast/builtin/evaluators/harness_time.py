"""How much of a stretch of a step may have been ours and not the agent's."""

from __future__ import annotations

from holdfast.records.execution import ExecutionResult


def harness_ms(result: ExecutionResult, start_ms: float, end_ms: float) -> float:
    """Milliseconds that model calls begun between two moments waited in our queue, failed and were backed off.

    Calls that waited side by side are all counted, so it is the most that can have been ours.
    """
    return sum(
        call.timing.attempts[-1].started_ms
        for call in result.calls
        if start_ms <= call.at_ms < end_ms and call.timing.attempts
    )
