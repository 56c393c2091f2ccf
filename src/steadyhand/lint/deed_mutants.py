"""Wrong conduct made from right conduct: a stored trial whose agent did one thing less, more or differently.

What the agent said stays as it was, so that a check on the reply alone notices nothing.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec.structs import replace

from steadyhand.records.base import Record
from steadyhand.records.event import ActionTaken, AnyEvent, Observed, ServiceCalled

MOST_DEEDS = 8
"""Of one trial: a trial with hundreds of calls would have hundreds of mutants of each kind."""
_SWALLOWED = {"error": "it failed"}


class ConductMutant(Record):
    """The events of a trial after one change, which `text` describes."""

    operator: str
    text: str
    events: tuple[AnyEvent, ...]


class _Deed(Record):
    """The events of one deed, by their place in the trial. `name` says which it is of several that are called so."""

    name: str
    at: tuple[int, ...]
    params: dict[str, Any]
    failed: bool


def conduct_mutants(events: Sequence[AnyEvent]) -> Iterator[ConductMutant]:
    """Every mutant of what the agent did; none without a deed."""
    deeds = _deeds(events)
    for deed in deeds[:MOST_DEEDS]:
        yield ConductMutant(operator="drop", text=f"without {deed.name}", events=_without(events, deed.at))
        again = tuple(_renamed(events[place]) for place in deed.at)
        last = deed.at[-1] + 1
        doubled = (*events[:last], *again, *events[last:])
        yield ConductMutant(operator="double", text=f"{deed.name} twice", events=doubled)
        for name, value in deed.params.items():
            wrong = _another(value)
            changed = _with_params(events, deed.at, {**deed.params, name: wrong})
            yield ConductMutant(operator="argument", text=f"{deed.name} with {name}: {wrong!r}", events=changed)
        failed = _failed(events, deed.at)
        if not deed.failed:
            text = f"{deed.name} failed, and the reply is the same"
            yield ConductMutant(operator="swallow", text=text, events=failed)
    for first, second in itertools.pairwise(deeds[: MOST_DEEDS + 1]):
        if first.name.partition(" (")[0] != second.name.partition(" (")[0]:
            text = f"{second.name} before {first.name}"
            yield ConductMutant(operator="reorder", text=text, events=_swapped(events, first, second))
    if deeds:
        every = tuple(place for deed in deeds for place in deed.at)
        yield ConductMutant(
            operator="claim", text="the reply alone, without anything done", events=_without(events, every)
        )


def _deeds(events: Sequence[AnyEvent]) -> list[_Deed]:
    """An action with its observation and the service calls that it made; a service call by itself."""
    found: list[_Deed] = []
    taken: set[int] = set()
    for place, event in enumerate(events):
        if isinstance(event, ActionTaken):
            until = event.at_ms + event.duration_ms
            own = [
                at
                for at, other in enumerate(events)
                if at not in taken
                and (
                    (isinstance(other, Observed) and other.action_id == event.id)
                    or (isinstance(other, ServiceCalled) and event.at_ms <= other.at_ms <= until)
                )
            ]
            taken |= {place, *own}
            at = tuple(sorted((place, *own)))
            found.append(_Deed(name=event.name, at=at, params=event.params, failed=event.status == "error"))
    for place, event in enumerate(events):
        if isinstance(event, ServiceCalled) and place not in taken:
            name = f"{event.service}.{event.method}"
            found.append(_Deed(name=name, at=(place,), params=event.input, failed=event.error is not None))
    found.sort(key=lambda deed: deed.at)
    often = Counter(deed.name for deed in found)
    return [
        replace(deed, name=f"{deed.name} ({number} of {often[deed.name]})") if often[deed.name] > 1 else deed
        for deed, number in zip(found, _numbers(found), strict=True)
    ]


def _numbers(deeds: Sequence[_Deed]) -> Iterator[int]:
    """Which of the deeds with its name each is, from 1."""
    seen: Counter[str] = Counter()
    for deed in deeds:
        seen[deed.name] += 1
        yield seen[deed.name]


def _without(events: Sequence[AnyEvent], places: Sequence[int]) -> tuple[AnyEvent, ...]:
    gone = frozenset(places)
    return tuple(event for place, event in enumerate(events) if place not in gone)


def _renamed(event: AnyEvent) -> AnyEvent:
    """A copy that is an event of its own."""
    match event:
        case ActionTaken():
            return replace(event, id=f"{event.id}-again")
        case Observed():
            return replace(event, action_id=f"{event.action_id}-again")
        case _:
            return event


def _with_params(events: Sequence[AnyEvent], places: Sequence[int], params: Mapping[str, Any]) -> tuple[AnyEvent, ...]:
    def changed(event: AnyEvent) -> AnyEvent:
        match event:
            case ActionTaken():
                return replace(event, params=dict(params))
            case ServiceCalled(input=given) if given:
                return replace(event, input={**given, **{name: params[name] for name in given if name in params}})
            case ServiceCalled(args=[one]) if isinstance(one, dict):
                named = cast("dict[str, Any]", one)
                return replace(event, args=[{**named, **{name: params[name] for name in named if name in params}}])
            case _:
                return event

    own = frozenset(places)
    return tuple(changed(event) if place in own else event for place, event in enumerate(events))


def _failed(events: Sequence[AnyEvent], places: Sequence[int]) -> tuple[AnyEvent, ...]:
    def failed(event: AnyEvent) -> AnyEvent:
        match event:
            case ActionTaken():
                return replace(event, status="error")
            case Observed():
                return replace(event, content=_SWALLOWED)
            case ServiceCalled():
                return replace(event, error=_SWALLOWED["error"], result=None)
            case _:
                return event

    own = frozenset(places)
    return tuple(failed(event) if place in own else event for place, event in enumerate(events))


def _swapped(events: Sequence[AnyEvent], first: _Deed, second: _Deed) -> tuple[AnyEvent, ...]:
    """Each deed at the time of the other."""
    earlier, later = events[first.at[0]].at_ms, events[second.at[0]].at_ms
    moved = {place: replace(events[place], at_ms=later) for place in first.at}
    moved |= {place: replace(events[place], at_ms=earlier) for place in second.at}
    rest = [event for place, event in enumerate(events) if place not in moved]
    where = first.at[0]
    changed = [*(moved[place] for place in second.at), *(moved[place] for place in first.at)]
    return (*rest[:where], *changed, *rest[where:])


def _another(value: Any) -> Any:
    """A value of the same kind that means something else."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value * 10 + 1
        case str():
            return f"{value}-other"
        case list():
            return cast("list[Any]", value)[:-1] if value else ["other"]
        case dict():
            return {**cast("dict[str, Any]", value), "other": True}
        case _:
            return "other"
