"""What was said and done in a trial, read off its events."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.records.event import ActionTaken, AnyEvent, Observed, Said, Thought
from holdfast.records.trajectory import TrajectoryStep

_STEPS = (Thought, ActionTaken, Observed)


def transcript_of(events: Iterable[AnyEvent]) -> tuple[Said, ...]:
    """The messages, in the order in which they were said."""
    return tuple(event for event in events if isinstance(event, Said))


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
