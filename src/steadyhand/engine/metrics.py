"""The figures of a trial's conversations, counted from its events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from steadyhand.ports.agent import ASKED_AGAIN
from steadyhand.records.chat import Purpose
from steadyhand.records.event import AnyEvent, ModelCalled, Noted
from steadyhand.records.result import ConversationMetrics, ConversationResult, SimulatorQuality, TokenUsage

_PART: dict[Purpose, str] = {
    "agent": "agent_responses",
    "user": "user_simulation",
    "summary": "user_simulation",
    "judge": "evaluations",
}


def conversation_metrics(
    conversations: Sequence[ConversationResult], steps: Iterable[int], events: Sequence[AnyEvent]
) -> ConversationMetrics | None:
    """All conversations of a trial together; None if it had none. `steps` are the steps they took place in.

    Tokens count every call of these steps, final evaluations included; calls per turn count only those made during the
    conversation.
    """
    if not conversations:
        return None
    held = set(steps)
    calls = [event for event in events if isinstance(event, ModelCalled) and event.step in held]
    durations = [turn.duration_ms for conversation in conversations for turn in conversation.turns]
    turns = len(durations)
    qualities = [
        conversation.simulator_quality for conversation in conversations if conversation.simulator_quality is not None
    ]
    return ConversationMetrics(
        total_duration_ms=round(sum(conversation.total_duration_ms for conversation in conversations), 3),
        turn_count=turns,
        avg_turn_duration_ms=round(sum(durations) / turns, 3) if turns else 0.0,
        llm_calls_per_turn=round(sum(call.turn is not None for call in calls) / turns, 3) if turns else 0.0,
        token_usage=token_usage(calls),
        simulator_quality=_combined(qualities) if qualities else None,
    )


def token_usage(calls: Iterable[ModelCalled]) -> TokenUsage:
    """Input and output tokens, by purpose."""
    spent: Counter[str] = Counter()
    complete = True
    for call in calls:
        if call.usage is None:
            complete = False
            continue
        spent[_PART[call.purpose]] += call.usage.input_tokens + call.usage.output_tokens
    return TokenUsage(
        total=spent.total(),
        user_simulation=spent["user_simulation"],
        agent_responses=spent["agent_responses"],
        evaluations=spent["evaluations"],
        complete=complete,
    )


def simulator_quality(turns_simulated: int, events: Iterable[AnyEvent]) -> SimulatorQuality | None:
    """How well the simulated user did, from a conversation's `events`; None if there was none."""
    notes = [event for event in events if isinstance(event, Noted) and event.topic == ASKED_AGAIN]
    refused = [note for note in notes if not note.figures.get("kept")]
    if not turns_simulated and not notes:
        return None
    return SimulatorQuality(
        turns_simulated=turns_simulated,
        asked_again=len(refused),
        still_flawed=len(notes) - len(refused),
        reasons=dict(Counter(str(note.figures.get("reason")) for note in refused)),
    )


def _combined(qualities: Sequence[SimulatorQuality]) -> SimulatorQuality:
    reasons: Counter[str] = Counter()
    for quality in qualities:
        reasons.update(quality.reasons)
    return SimulatorQuality(
        turns_simulated=sum(quality.turns_simulated for quality in qualities),
        asked_again=sum(quality.asked_again for quality in qualities),
        still_flawed=sum(quality.still_flawed for quality in qualities),
        reasons=dict(reasons),
    )
