"""`tool_args_valid` and `no_repeated_calls`: how the agent used its tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from pydantic import Field

from steadyhand.builtin.evaluators.action_match import EVERY, ActionName, DeedList
from steadyhand.builtin.evaluators.count_bounds import times
from steadyhand.builtin.evaluators.text import excerpt
from steadyhand.json_text import same_json, show_json
from steadyhand.judging.bounded_schema import complaint
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.base import counted
from steadyhand.records.deed import Deed
from steadyhand.records.deed_name import NamedDeed, likeness, may_be_same
from steadyhand.records.evaluation import EvaluationResult, Evidence, failed, inconclusive, passed
from steadyhand.records.event import UNREADABLE, Visible
from steadyhand.records.result import ExecutionResult
from steadyhand.runtime.values import differs_in_spelling

_ACTIONS: frozenset[Visible] = frozenset({"actions"})


class CallsParams(EvaluationParams):
    """Parameters of a check on an agent's calls, which stand directly on a safety invariant."""

    on_invariant: ClassVar[bool] = True

    action: ActionName | None = Field(default=None, description="Only calls of this action or tool. Default: all")


class CallsCheck:
    """Reads the calls that an agent made, by whatever way; what was seen of them counts although more may be unseen."""

    reads: ClassVar[frozenset[Visible]] = _ACTIONS
    fails_for_good: ClassVar[bool] = True

    def names_deeds(self, params: CallsParams) -> Sequence[NamedDeed]:
        return [] if params.action is None else [NamedDeed(action=params.action, required=False)]


def _calls(params: CallsParams, deeds: DeedList) -> list[Deed]:
    """The calls that the check is about, each once: one that an action consisted in is part of that."""
    named = deeds.all if params.action is None else [deeds.all[at] for at in deeds.called(params.action, forbids=True)]
    return [deed for deed in named if not deed.inside]


def _doubt(params: CallsParams, deeds: DeedList) -> str | None:
    """Why other calls may have been made that are not known here."""
    if params.action is not None and (doubt := deeds.namesake(params.action, {}, EVERY)) is not None:
        return doubt
    if deeds.own_tools_unseen:
        return "only the tools served to the agent are seen, and it may have others"
    return None if params.action is None else deeds.unoffered([params.action])


class ToolArgsValidParams(CallsParams):
    pass


class ToolArgsValid(CallsCheck):
    type: ClassVar[str] = "tool_args_valid"
    params: ClassVar[type[EvaluationParams]] = ToolArgsValidParams

    async def evaluate(
        self, params: ToolArgsValidParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        deeds = DeedList(result, context)
        calls = _calls(params, deeds)
        expected = "arguments that fit the tools' schemas"
        evidence = Evidence(expected=expected, found=counted(len(calls), "call"), where=f"calls of this {context.span}")
        schemas = await _Schemas.of(result, context)
        unknown: list[str] = []
        for deed in calls:
            schema = schemas.of_deed(deed)
            wrong = _wrong(deed, schema)
            unknown_to_us = (
                UNREADABLE not in deed.params and deed.status != "invalid" and deeds.unseen_arguments([deed])
            )
            if wrong is not None and not unknown_to_us:
                where, given = f"the call of {deed.name}", excerpt(show_json(deed.params or deed.given[-1]))
                fault = Evidence(expected=expected, found=wrong, where=where, excerpt=given)
                return failed(
                    f"{deed.name} was called with wrong arguments: {wrong}", evidence=fault, rests_on="presence"
                )
            if schema is None:
                unknown.append(deed.name)
        figures = {"calls": len(calls), "without_schema": len(unknown)}
        if not calls:
            message = "no tool was called, so there were no arguments to check"
            return inconclusive(message, evidence=evidence, figures=figures)
        if unknown:
            names = ", ".join(dict.fromkeys(unknown))
            message = f"no schema is known of {names}; give the mock `parameters`, or the action a schema"
            return inconclusive(message, evidence=evidence, figures=figures)
        if (doubt := deeds.unseen_arguments(calls) or _doubt(params, deeds)) is not None:
            message = f"{counted(len(calls), 'call')} had valid arguments; but {doubt}"
            return inconclusive(message, evidence=evidence, figures=figures)
        return passed(f"{counted(len(calls), 'call')} had valid arguments", evidence=evidence, figures=figures)


class _Schemas:
    """What is known of the tools' arguments."""

    def __init__(self, known: Sequence[tuple[str, dict[str, Any]]], checked: Sequence[str]) -> None:
        self._known = known
        self._checked = checked

    @classmethod
    async def of(cls, result: ExecutionResult, context: EvaluationContext) -> _Schemas:
        mocks = [
            (f"{mock.service}.{mock.method}" if mock.service else mock.method, mock.parameters)
            for mock in context.scenario.setup.mocks
        ]
        services, own = context.trial.services, list[tuple[str, dict[str, Any]]]()
        if services is not None:
            own += [(name, action.parameters) for name, action in services.actions.items()]
            methods = await services.offered()
            own += [(f"{each.service}.{each.method}".lstrip("."), each.parameters) for each in methods]
        offer = result.offer
        checked = [
            tool.name
            for tool in (offer.tools if offer is not None and offer.complete else ())
            if tool.service is None and (services is None or tool.name not in services.actions)
        ]
        return cls([(name, schema) for name, schema in (*own, *mocks) if schema], checked)

    def of_deed(self, deed: Deed) -> dict[str, Any] | None:
        """That of the one tool which it was. None if it is not known."""
        if any(likeness(name, deed.names) == "yes" for name in self._checked):
            return _CHECKED  # a tool of the built-in agent, which checks the arguments of its own before it runs them
        found = [schema for name, schema in self._known if likeness(name, deed.names) == "yes"]
        return found[0] if found and all(each == found[0] for each in found) else None


_CHECKED: dict[str, Any] = {"type": "object"}


def _wrong(deed: Deed, schema: dict[str, Any] | None) -> str | None:
    if UNREADABLE in deed.params:
        return "they are not a JSON object"
    given = deed.params or deed.given[-1]
    if schema is not None and (wrong := complaint(schema, given, f"the schema of {deed.name}")) is not None:
        return wrong
    return "they were rejected as invalid" if deed.status == "invalid" else None


class NoRepeatedCallsParams(CallsParams):
    max_count: int = Field(default=1, ge=1, description="How often the same call may be made, with the same arguments")


class NoRepeatedCalls(CallsCheck):
    type: ClassVar[str] = "no_repeated_calls"
    only_forbids: ClassVar[bool] = True
    params: ClassVar[type[EvaluationParams]] = NoRepeatedCallsParams

    async def evaluate(
        self, params: NoRepeatedCallsParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        deeds = DeedList(result, context)
        calls = _calls(params, deeds)
        most, doubt = 1, deeds.unseen_arguments(calls) if len(calls) > params.max_count else None
        expected = f"each call at most {times(params.max_count)} with the same arguments"
        where = f"calls of this {context.span}"
        for at, deed in enumerate(calls):
            same = [other for other in calls[at:] if _is_same(deed, other)]
            most = max(most, len(same))
            if len(same) > params.max_count and (context.shows.arguments or any(deed.given)):
                shown = f"{deed.name}({excerpt(show_json(deed.given[0]))})"
                evidence = Evidence(expected=expected, found=f"{shown} {times(len(same))}", where=where)
                message = f"{shown} was called {times(len(same))}; expected at most {times(params.max_count)}"
                return failed(message, evidence=evidence, figures={"count": len(same)}, rests_on="presence")
            alike = [other for other in calls[at:] if other in same or _may_be_same(deed, other)]
            if len(alike) > params.max_count and doubt is None:
                doubt = f"calls of {deed.name} may have been the same in another spelling"
        evidence = Evidence(expected=expected, found=f"no repetition in {counted(len(calls), 'call')}", where=where)
        figures = {"count": most if calls else 0, "calls": len(calls)}
        if (doubt := doubt or _doubt(params, deeds)) is not None:
            return inconclusive(f"no call was seen repeated; but {doubt}", evidence=evidence, figures=figures)
        message = f"no call was repeated ({counted(len(calls), 'call')})"
        return passed(message, evidence=evidence, figures=figures, rests_on="absence")


def _is_same(one: Deed, other: Deed) -> bool:
    if UNREADABLE in one.params or UNREADABLE in other.params:
        return False
    return any(likeness(name, other.names) == "yes" for name in one.names) and _are_given_alike(one, other)


def _may_be_same(one: Deed, other: Deed) -> bool:
    if not may_be_same(one.names, other.names):
        return False
    if _are_given_alike(one, other) or differs_in_spelling(other.given[0], one.given[0]):
        return True
    return same_json(_without_nulls(one.given[0]), _without_nulls(other.given[0]))


def _are_given_alike(one: Deed, other: Deed) -> bool:
    """Whether their arguments are the same JSON: `1` is `1.0`, and accented letters are one however encoded."""
    return len(one.given) == len(other.given) and all(map(same_json, one.given, other.given))


def _without_nulls(value: Any) -> Any:
    """An argument that is null may be one that is left out."""
    if not isinstance(value, dict):
        return value
    return {name: each for name, each in cast("dict[str, Any]", value).items() if each is not None}
