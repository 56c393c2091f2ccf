"""What was said and done in a trial, read off its events."""

from __future__ import annotations

from collections.abc import Iterable

from steadyhand.records.chat import Finish, FinishReason
from steadyhand.records.event import ActionTaken, AnyEvent, ModelCalled, Observed, Said, Thought
from steadyhand.records.run import TrialRecord
from steadyhand.records.trajectory import TrajectoryStep

_WORST_FIRST = (
    FinishReason.CONTENT_FILTER,
    FinishReason.ERROR,
    FinishReason.PAUSE_TURN,
    FinishReason.UNKNOWN,
    FinishReason.LENGTH,
    FinishReason.DEADLINE,
    FinishReason.REFUSAL,
    FinishReason.TOOL_CALLS,
    FinishReason.STOP,
)
_RANK = {reason: rank for rank, reason in enumerate(_WORST_FIRST)}
_STEPS = (Thought, ActionTaken, Observed)


def transcript_of(events: Iterable[AnyEvent]) -> tuple[Said, ...]:
    """The messages, in the order in which they were said."""
    return tuple(event for event in events if isinstance(event, Said))


def answers_finish(events: Iterable[AnyEvent]) -> Finish | None:
    """How the agent's answers ended: of several the worst end. A call for tools that was followed up is no end."""
    ends: dict[tuple[int | None, int | None], list[Finish | None]] = {}
    for event in events:
        if isinstance(event, ModelCalled) and event.purpose == "agent" and event.error is None:
            ends.setdefault((event.step, event.turn), []).append(event.finish)
    last = [calls[-1] for calls in ends.values()]
    broken = [finish for calls in ends.values() for finish in calls if finish is not None and finish.is_error]
    return worst_finish((*broken, *last))


def worst_finish(finishes: Iterable[Finish | None]) -> Finish | None:
    """The one that leaves most in doubt; those that are not known are passed over."""
    known = [finish for finish in finishes if finish is not None]
    return min(known, key=lambda each: (not each.is_error, not each.undecided, _RANK[each.reason]), default=None)


def exported_transcript(trial: TrialRecord) -> tuple[Said, ...]:
    """What a report may tell of it: without conversations whose author keeps them to the run record."""
    kept = {talk.step for talk in trial.conversations if not talk.transcript_exported}
    return tuple(said for said in transcript_of(trial.events) if said.step not in kept)


def trajectory_of(events: Iterable[AnyEvent]) -> tuple[TrajectoryStep, ...]:
    """Thoughts, actions and observations by the time they began; those of the same moment stay as they were emitted."""
    steps = [step for event in events if isinstance(event, _STEPS) and (step := _step_of(event)) is not None]
    return tuple(sorted(steps, key=lambda step: step.at_ms))


def _step_of(event: AnyEvent) -> TrajectoryStep | None:
    match event:
        case Thought():
            return TrajectoryStep(type="thought", at_ms=event.at_ms, content=event.text)
        case ActionTaken():
            return TrajectoryStep(
                type="action",
                at_ms=event.at_ms,
                name=event.name,
                params=event.params,
                status=event.status,
                duration_ms=event.duration_ms,
            )
        case Observed():
            return TrajectoryStep(
                type="observation", at_ms=event.at_ms, name=event.name, content=event.content, cut=event.cut
            )
        case _:
            return None
