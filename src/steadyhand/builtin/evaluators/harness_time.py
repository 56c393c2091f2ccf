"""How much of a stretch of a step may have been ours and not the agent's."""

from __future__ import annotations

from steadyhand.records.result import ExecutionResult


def harness_ms(result: ExecutionResult, start_ms: float, end_ms: float) -> float:
    """Milliseconds that model calls begun between two moments waited in our queue, failed and were backed off, and
    those between the turns of a conversation, when the user was simulated and checks were made.

    Calls that waited side by side are all counted, so it is the most that can have been ours.
    """
    waited_ms = sum(
        call.timing.attempts[-1].started_ms
        for call in result.calls
        if start_ms <= call.at_ms < end_ms and call.timing.attempts
    )
    return waited_ms + _between_turns_ms(result, start_ms, end_ms)


def _between_turns_ms(result: ExecutionResult, start_ms: float, end_ms: float) -> float:
    turns = result.conversation.turns if result.conversation is not None else ()
    if not turns:
        return 0.0
    inside_ms = [min(end_ms, turn.ended_at_ms) - max(start_ms, turn.started_at_ms) for turn in turns]
    return max(0.0, end_ms - start_ms - sum(ms for ms in inside_ms if ms > 0))
