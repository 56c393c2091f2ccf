"""What can go wrong with the mocks of a scenario, and the scenarios in which it does: one for each method and fault."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec.structs import replace

from steadyhand.records.scenario import FAULTS, FaultKind, Mock, Scenario, Setup
from steadyhand.spec.validation import Findings

if TYPE_CHECKING:
    from steadyhand.spec.agent_shapes import SetupShape

DATE = re.compile(r"(?<!\d)(\d{4})-(\d\d)-(\d\d)(?!\d)")
_Declared = Sequence[FaultKind | Literal["all"]]
_NEEDS_CONTENT: Mapping[FaultKind, str] = {
    "empty": "its response has no content that could be missing",
    "truncated": "its response has nothing that could be cut off",
    "stale": "its response has no date, such as 2026-05-31, that would show how old it is",
    "twice": "its response has no content that could come twice",
}


def with_faults(mock: Mock, own: _Declared | None, of_all: _Declared | None) -> Mock:
    """The mock with the faults that its file declares, as far as it can have them."""
    wanted = {*(own or ()), *(of_all or ())}
    return replace(
        mock, faults=tuple(kind for kind in FAULTS if (kind in wanted or "all" in wanted) and _fits(kind, mock))
    )


def _fits(kind: FaultKind, mock: Mock) -> bool:
    if kind not in _NEEDS_CONTENT or mock.response_fn is not None:
        return True
    if kind == "stale":
        return any(DATE.search(text) for text in _texts(mock.response))
    if kind == "truncated":
        return isinstance(mock.response, str | list | dict) and bool(cast("str", mock.response))
    return mock.response not in (None, "", [], {})


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in cast("Mapping[str, Any]", value).values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _texts(each)


def check_faults(shape: SetupShape, setup: Setup, findings: Findings) -> None:
    """Each fault that is named must be possible; of those for all mocks, on one of them."""
    for index, mock in enumerate(shape.mocks):
        if mock.faults is not None:
            _check(mock.faults, setup.mocks[index : index + 1], ("setup", "mocks", index, "faults"), findings)
    if shape.faults is not None and not shape.mocks:
        findings.error(("setup", "faults"), "no mock could go wrong; declare `mocks`", "conflict", key=True)
    elif shape.faults is not None:
        _check(shape.faults, setup.mocks, ("setup", "faults"), findings)


def _check(kinds: _Declared, mocks: Sequence[Mock], path: tuple[str | int, ...], findings: Findings) -> None:
    for at, kind in enumerate(kinds):
        if kind in kinds[:at]:
            findings.error((*path, at), f"`{kind}` is listed twice", "duplicate-value")
        elif kind != "all" and not any(_fits(kind, mock) for mock in mocks):
            whose = "the mock cannot be" if len(mocks) == 1 else "no mock can be"
            findings.error((*path, at), f"{whose} `{kind}`: {_NEEDS_CONTENT[kind]}", "bad-value")


def failing(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """What fails, and the scenario in which every call of the method meets the fault."""
    methods = dict.fromkeys((mock.service, mock.method) for mock in scenario.setup.mocks)
    for service, method in methods:
        about = [mock for mock in scenario.setup.mocks if (mock.service, mock.method) == (service, method)]
        for kind in FAULTS:
            if any(kind in mock.faults for mock in about):
                mocks = tuple(
                    replace(mock, fault=kind) if kind in mock.faults and mock in about else mock
                    for mock in scenario.setup.mocks
                )
                shown = f"{service}.{method} {kind}" if service else f"{method} {kind}"
                yield shown, replace(scenario, setup=replace(scenario.setup, mocks=mocks))
