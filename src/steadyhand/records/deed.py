"""The one list of what an agent did or tried to do: its actions and the service calls behind them, each counted once.

An action and a service call are one deed if the action consisted in that call (we know the id where we made both), or
if they go by the same name and have the same parameters, or if the call happened during the action of that name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from steadyhand.records.base import Record
from steadyhand.records.deed_name import ToolOffer, may_be_same, tool_names
from steadyhand.records.event import (
    WITNESSES,
    ActionStatus,
    ActionTaken,
    AnyEvent,
    ServiceCalled,
    TrajectoryStep,
    Witness,
    action_names,
    offer_of,
)
from steadyhand.records.trajectory import trajectory_of

HAPPENED: frozenset[ActionStatus] = frozenset(("success", "error", "unknown"))
"""The statuses that count as having happened. The others were only tried, as far as is known."""


class Deed(Record):
    """Something that the agent did or tried. `names` are all that it is known by; `name` is the one to show.

    `call` is the service call that it is, or that is behind it; one without an action was made directly. One that was
    made `inside` an action of the same name is part of how that was done. `witnesses` are those who tell of it.
    """

    name: str
    names: tuple[str, ...]
    at_ms: float
    status: ActionStatus
    params: dict[str, Any] = {}
    duration_ms: float = 0.0
    agent: str | None = None
    call: ServiceCalled | None = None
    action_id: str = ""
    inside: bool = False
    witnesses: tuple[Witness, ...] = ()

    @property
    def given(self) -> tuple[dict[str, Any], ...]:
        """The parameters, as the action and as the service call have them."""
        if self.call is None:
            return (self.params,)
        named = named_parameters(self.call)
        return (named,) if not self.params or named == self.params else (self.params, named)


def named_parameters(call: ServiceCalled) -> dict[str, Any]:
    """One object is the same whether it is passed by name or as the only argument."""
    lone: Any = call.args[0] if len(call.args) == 1 and not call.input else None
    return cast("dict[str, Any]", lone) if isinstance(lone, dict) else call.input


def deeds_of(
    trajectory: Iterable[TrajectoryStep], calls: Iterable[ServiceCalled], offer: ToolOffer | None = None
) -> list[Deed]:
    """In the order in which they began. Where `offer` settles which tool a deed was, it has all names of that tool."""
    actions = [step for step in trajectory if step.type == "action"]
    left = list(calls)
    behind = _joined(actions, left) if actions and left else {}
    deeds = [_of_action(action, behind.get(number), offer) for number, action in enumerate(actions)]
    deeds += [_of_call(call, actions) for call in left]
    return sorted(deeds, key=lambda deed: deed.at_ms)


def deeds_in(events: Sequence[AnyEvent]) -> list[Deed]:
    """The deeds of a whole trial, step by step and turn by turn."""
    offer = offer_of(events)
    spans: dict[tuple[int | None, int | None], list[AnyEvent]] = {}
    for event in events:
        if type(event) is ActionTaken or type(event) is ServiceCalled:
            spans.setdefault((event.step, event.turn), []).append(event)
    return [
        deed
        for own in spans.values()
        for deed in deeds_of(trajectory_of(own), [event for event in own if type(event) is ServiceCalled], offer)
    ]


def _joined(actions: Sequence[TrajectoryStep], calls: list[ServiceCalled]) -> dict[int, ServiceCalled]:
    """The service call behind each action, by the number of the action. Takes these calls out of `calls`."""
    found: dict[int, ServiceCalled] = {}
    by_id = {call.action_id: call for call in calls if call.action_id is not None}
    for number, action in enumerate(actions):
        if action.id and (call := by_id.pop(action.id, None)) is not None:
            found[number] = call
    taken = {id(call) for call in found.values()}
    left = [call for call in calls if call.action_id is None]
    for same in (_same_parameters, _during):
        for number, action in enumerate(actions):
            if not left or number in found or action.status in ("rejected", "invalid"):
                continue
            place = next((at for at, each in enumerate(left) if _is_behind(each, action, same)), None)
            if place is not None:
                found[number] = left.pop(place)
                taken.add(id(found[number]))
    calls[:] = [call for call in calls if id(call) not in taken]
    return found


def _is_behind(call: ServiceCalled, action: TrajectoryStep, same: Callable[..., bool]) -> bool:
    return same(call, action) and may_be_same(_call_names(call), action_names(action))


def _same_parameters(call: ServiceCalled, action: TrajectoryStep) -> bool:
    """Also where the action was reported without parameters, or the call has them without their names."""
    given = named_parameters(call)
    return not action.params or given == action.params or (not given and call.args == list(action.params.values()))


def _during(call: ServiceCalled, action: TrajectoryStep) -> bool:
    return bool(action.duration_ms) and action.at_ms <= call.at_ms <= action.at_ms + (action.duration_ms or 0.0)


def _of_action(action: TrajectoryStep, call: ServiceCalled | None, offer: ToolOffer | None) -> Deed:
    names = action_names(action)
    if call is not None:
        names += _call_names(call)
    elif offer is not None:
        names += offer.names_of(names)
    status = action.status or "unknown"
    if call is not None and status in ("success", "unknown"):
        status = call.outcome  # what we saw ourselves, rather than what was reported
    elif call is None and action.witnesses == ("trace",) and offer is not None and offer.serves(action_names(action)):
        status = "rejected"  # a trace tells of it, but no such call reached us, who serve it
    witnesses = {*action.witnesses, *(() if call is None else ("trial",))}
    return Deed(
        name=action.name or "",
        names=tuple(dict.fromkeys(names)),
        at_ms=action.at_ms,
        status=status,
        params=action.params,
        duration_ms=action.duration_ms or 0.0,
        agent=action.agent,
        call=call,
        action_id=action.id,
        witnesses=tuple([each for each in WITNESSES if each in witnesses]),
    )


def _of_call(call: ServiceCalled, actions: Sequence[TrajectoryStep]) -> Deed:
    """Its agent is the one whose action was under way, if only one was."""
    names = _call_names(call)
    under_way = [action for action in actions if _during(call, action)]
    around = {action.agent for action in under_way}
    return Deed(
        name=names[0],
        names=names,
        at_ms=call.at_ms,
        status=call.outcome,
        params=named_parameters(call),
        duration_ms=call.duration_ms,
        agent=around.pop() if len(around) == 1 else None,
        call=call,
        inside=any(may_be_same(names, action_names(action)) for action in under_way),
        witnesses=("trial",),
    )


def _call_names(call: ServiceCalled) -> tuple[str, ...]:
    return tool_names("", call.service, call.method)
