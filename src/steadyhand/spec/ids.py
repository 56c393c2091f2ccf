"""Scenario ids: made from file names where none is given, and unique across everything loaded in one run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePath

import msgspec

from steadyhand.records.location import Place, Problem
from steadyhand.records.scenario import Scenario

_ENDING = re.compile(r"(?:\.scenario)?(?:\.ya?ml|\.json)?\Z", re.IGNORECASE)


class Identified(msgspec.Struct):
    """A scenario, its file, and whether its id was made from the file's name."""

    scenario: Scenario
    path: str
    id_place: Place
    defaulted: bool


def settle_ids(entries: Sequence[Identified]) -> tuple[list[Scenario], list[Problem]]:
    """The scenarios with distinct ids, and a problem for each id written twice.

    Ids made from file names are told apart by folder. Of two scenarios with the same id the first is kept.
    """
    counts = Counter(entry.scenario.id for entry in entries)
    first: dict[str, Place] = {}
    kept: list[Scenario] = []
    problems: list[Problem] = []
    for entry in entries:
        scenario = entry.scenario
        if entry.defaulted and counts[scenario.id] > 1:
            id_ = _distinct(entry, entries)
            scenario = msgspec.structs.replace(scenario, id=id_)
        earlier = first.get(scenario.id)
        if earlier is None:
            first[scenario.id] = entry.id_place
            kept.append(scenario)
            continue
        remedy = "give one of them an `id`" if entry.defaulted else "ids must be unique across all files of a run"
        message = f"id `{scenario.id}` is already used at {earlier}; {remedy}"
        problems.append(Problem(place=entry.id_place, message=message, code="duplicate-id"))
    return kept, problems


def _distinct(entry: Identified, entries: Sequence[Identified]) -> str:
    """The id prefixed with as many parent folders as it takes to make it unique."""
    taken = {other.scenario.id for other in entries if not other.defaulted}
    rivals = [
        other.path
        for other in entries
        if other is not entry and other.defaulted and other.scenario.id == entry.scenario.id
    ]
    parents = _parents(entry.path)
    id_ = entry.scenario.id
    for count in range(1, len(parents) + 1):
        prefix = parents[-count:]
        id_ = "-".join([*map(slug, prefix), entry.scenario.id])
        if id_ not in taken and all(_parents(path)[-count:] != prefix for path in rivals):
            break
    return id_


def _parents(path: str) -> list[str]:
    return list(Path(path).absolute().parent.parts[1:])


def default_id(file: str) -> str:
    """An id from a file's name: `Refund Flow.scenario.yaml` is `refund-flow`."""
    name = PurePath(file).name
    return slug(_ENDING.sub("", name))


def slug(text: str) -> str:
    return re.sub(r"[^\w.]+", "-", text.lower()).strip("-") or "scenario"
