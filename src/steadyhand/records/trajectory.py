"""What the agent did, step by step: actions, each once however many witnesses tell of it, with thoughts and results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from steadyhand.records.deed_name import may_be_same
from steadyhand.records.event import (
    UNREADABLE,
    WITNESSES,
    ActionTaken,
    AnyEvent,
    Observed,
    Thought,
    TrajectoryStep,
    action_names,
)

_STEPS = (Thought, ActionTaken, Observed)


def trajectory_of(events: Iterable[AnyEvent]) -> tuple[TrajectoryStep, ...]:
    """Thoughts, actions and observations by the time they began; those of the same moment stay as they were emitted."""
    found = [event for event in events if isinstance(event, _STEPS)]
    if not found:
        return ()
    once = without_repeated_actions(found)
    steps = [step for event in once if (step := _step_of(event)) is not None]
    return tuple(sorted(steps, key=lambda step: step.at_ms))


def without_repeated_actions(events: Sequence[AnyEvent]) -> Sequence[AnyEvent]:
    """Without duplicates: an action that several witnesses tell of counts once, with all of them named.

    It is the same if the model's id of the call is, or if the names can be and the parameters are; else, of what is
    left, if one witness has only some of the parameters, or cannot read them. The word of the most reliable stands;
    what it does not know (how the action ended, how long it took, its agent and other names) is taken from the next.
    """
    actions = [event for event in events if type(event) is ActionTaken]
    if len({event.witnesses for event in actions}) < 2:
        return events
    kept: dict[Any, list[ActionTaken]] = {}
    same: dict[str, str] = {}
    merged: dict[str, ActionTaken] = {}
    for _, source in groupby(sorted(actions, key=_rank), key=_rank):
        free = {key: list(known) for key, known in kept.items()}
        left = list(source)
        for alike in (_same, _may_be_same):
            unmatched: list[ActionTaken] = []
            for event in left:
                one = alike(event, free)
                if one is None:
                    unmatched.append(event)
                    continue
                same[event.id] = one.id
                merged[one.id] = _merge(merged.get(one.id, one), event)
            left = unmatched
        for event in left:
            for key in _keys(event):
                kept.setdefault(key, []).append(event)
    observed = {event.action_id for event in events if type(event) is Observed}
    joined = (_joined(event, same, merged, observed) for event in events)
    return [event for event in joined if event is not None]


def _rank(action: ActionTaken) -> int:
    return WITNESSES.index(action.witnesses[0])


def _keys(action: ActionTaken) -> list[Any]:
    """What is looked at to find the reports of one action: the id of the call, its parameters, and its turn."""
    place = (action.step, action.turn)
    alike = (*place, msgspec.json.encode(action.params, order="sorted"))
    return [alike, place] if action.call_id is None else [action.call_id, alike, place]


def _same(action: ActionTaken, free: Mapping[Any, list[ActionTaken]]) -> ActionTaken | None:
    """The action of an earlier source that is the same, which is then no longer free."""
    for key in _keys(action)[:-1]:
        for one in free.get(key, ()):
            if key == action.call_id or may_be_same(action_names(one), action_names(action)):
                return _removed(one, free)
    return None


def _may_be_same(action: ActionTaken, free: Mapping[Any, list[ActionTaken]]) -> ActionTaken | None:
    for one in free.get(_keys(action)[-1], ()):
        if may_be_same(action_names(one), action_names(action)) and _agree(one.params, action.params):
            return _removed(one, free)
    return None


def _removed(one: ActionTaken, free: Mapping[Any, list[ActionTaken]]) -> ActionTaken:
    for known in _keys(one):
        free[known].remove(one)
    return one


def _agree(params: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Whether these can be the parameters of one call: one has all of the other's, or they cannot be read."""
    if UNREADABLE in params or UNREADABLE in others:
        return True
    shared = params.keys() & others.keys()
    return len(shared) == min(len(params), len(others)) and all(params[key] == others[key] for key in shared)


def _merge(so_far: ActionTaken, event: ActionTaken) -> ActionTaken:
    timed = event if event.duration_ms and not so_far.duration_ms else so_far
    return msgspec.structs.replace(
        so_far,
        at_ms=timed.at_ms,
        duration_ms=timed.duration_ms,
        params=event.params if UNREADABLE in so_far.params else so_far.params,
        status=event.status if so_far.status == "unknown" else so_far.status,
        agent=so_far.agent or event.agent,
        names=(*so_far.names, event.name, *event.names),
        also=(*so_far.also, *event.witnesses),
    )


def _joined(
    event: AnyEvent, same: Mapping[str, str], merged: Mapping[str, ActionTaken], observed: set[str]
) -> AnyEvent | None:
    """The event as what the witnesses say together; None if it only repeats another. Of several results, that of the
    most reliable witness stays."""
    if type(event) is ActionTaken:
        return None if event.id in same else merged.get(event.id, event)
    if type(event) is not Observed:
        return event
    if event.action_id in same:
        if (one := same[event.action_id]) in observed:
            return None
        observed.add(one)
        event = msgspec.structs.replace(event, action_id=one)
    whole = merged.get(event.action_id)
    return event if whole is None else msgspec.structs.replace(event, agent=event.agent or whole.agent)


def disagreements(events: Sequence[AnyEvent], *, reported: bool) -> list[str]:
    """Where what the agent tells of a turn and what passed the gateway differ. `reported` is whether its silence is a
    report. A call that never came back is no reason: the framework may have taken it for the answer."""
    came_back = {event.action_id for event in events if type(event) is Observed}
    relayed = {event.call_id: event for event in events if type(event) is ActionTaken and event.relayed}
    if not relayed:
        return []
    actions = [event for event in without_repeated_actions(events) if type(event) is ActionTaken]
    found: list[str] = []
    if reported or any("agent" in action.witnesses for action in actions):
        ran = [action for action in actions if action.relayed and action.id in came_back]
        if untold := [action.name for action in ran if "agent" not in action.witnesses]:
            found.append(
                f"the agent reports nothing of {', '.join(untold)}, which its model called through the gateway"
            )
    if untrue := [action.name for action in actions if action.witnesses == ("agent",)]:
        found.append(f"only the agent tells of {', '.join(untrue)}: no model called it through the gateway")
    for event in events:
        seen = relayed.get(event.call_id) if type(event) is ActionTaken and event.call_id else None
        if seen is not None and isinstance(event, ActionTaken) and not _agree(seen.params, event.params):
            found.append(f"{event.name} has other parameters at the gateway than the agent or its trace tells")
    return found


def _step_of(event: AnyEvent) -> TrajectoryStep | None:
    match event:
        case Thought():
            return TrajectoryStep(type="thought", at_ms=event.at_ms, content=event.text, agent=event.agent)
        case ActionTaken():
            return TrajectoryStep(
                type="action",
                at_ms=event.at_ms,
                name=event.name,
                params=event.params,
                status=event.status,
                duration_ms=event.duration_ms,
                agent=event.agent,
                id=event.id,
                names=event.names,
                witnesses=event.witnesses,
            )
        case Observed():
            return TrajectoryStep(
                type="observation",
                at_ms=event.at_ms,
                name=event.name,
                content=event.content,
                cut=event.cut,
                agent=event.agent,
            )
        case _:
            return None
