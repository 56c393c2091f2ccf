"""`trajectory_contains_action` and `service_called`: how often the agent did something, and how it ended.

Names are compared ignoring case, `_` and `-`; parameters match by subset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Self, cast

from pydantic import AfterValidator, Field, model_validator

from steadyhand.builtin.evaluators.action_match import (
    SPELLING,
    ActionName,
    AgentName,
    Status,
    action_differences,
    actions_of,
    caller_of,
    differences,
    is_by,
    matches,
    namesake,
    plain_name,
    respelled,
    since_start_ms,
    unknown_agents,
    unseen_arguments,
    unserved,
)
from steadyhand.builtin.evaluators.text import CountFromZero, PositiveMilliseconds, excerpt
from steadyhand.builtin.evaluators.timing import away_figures, harness_ms
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.base import counted, shorten
from steadyhand.records.evaluation import EvaluationResult, Evidence, failed, inconclusive, passed
from steadyhand.records.event import ServiceCalled, TrajectoryStep, Visible
from steadyhand.records.result import ExecutionResult
from steadyhand.runtime.values import differs_in_spelling, includes


def _service_name(name: str) -> str:
    if not plain_name(name).strip():
        raise ValueError("the name is empty; leave the key out to mean any")
    return name


ServiceName = Annotated[str, AfterValidator(_service_name)]


class TrajectoryContainsActionParams(EvaluationParams):
    action: ActionName = Field(description="Name of the action; case, `_` and `-` do not matter")
    params: dict[str, Any] = Field(default_factory=dict, description="Parameters it must have, matched as a subset")
    status: Status = Field(default="any", description="How the action must have ended")
    min_count: CountFromZero | None = Field(
        default=None, description="Minimum number of times. Default: 1, or 0 with `max_count: 0`"
    )
    max_count: CountFromZero | None = Field(
        default=None, description="Maximum number of times; 0 means that it must never happen"
    )
    within_ms: PositiveMilliseconds | None = Field(
        default=None, description="Latest start, in milliseconds from the beginning of the step"
    )
    before: ActionName | None = Field(default=None, description="Action that it must precede")
    agent: AgentName | None = Field(
        default=None, description="Agent that must have taken the action, if there are several"
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        _check_bounds(self.min_count, self.max_count)
        if self.before is not None and self.least == 0:
            raise ValueError("`before` needs an action that must happen; set `min_count` to 1 or more, or leave it out")
        if self.before is not None and plain_name(self.before) == plain_name(self.action):
            raise ValueError(f"`before` names the action itself ({self.before}); an action cannot precede itself")
        return self

    @property
    def least(self) -> int:
        return _least(self.min_count, self.max_count)


class TrajectoryContainsAction:
    type: ClassVar[str] = "trajectory_contains_action"
    params: ClassVar[type[EvaluationParams]] = TrajectoryContainsActionParams
    reads: ClassVar[frozenset[Visible]] = frozenset({"actions"})

    async def evaluate(
        self, params: TrajectoryContainsActionParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        actions = actions_of(result)
        found = [
            number
            for number, step in enumerate(actions, start=1)
            if matches(step, params.action, params.params, params.status) and is_by(params.agent, step.agent)
        ]
        timely = [number for number in found if _in_time(params, actions[number - 1], result)]
        evidence = Evidence(
            expected=_expected(params),
            found=f"{len(timely)} of {counted(len(actions), 'action')} matched",
            where=_where(found, actions, result, context) if found else f"this {context.span}'s trajectory",
            excerpt=_listed(actions),
        )
        figures: dict[str, Any] = {"count": len(timely), "actions": len(actions)}
        if found:
            figures["first_ms"] = since_start_ms(actions[found[0] - 1], result)
        summary = _action_summary(params, actions, len(found), len(timely))
        seen = f"the {context.span}'s actions: {_listed(actions)}"
        message = f"{summary}; {seen}"
        doubt = _doubt(params, [actions[number - 1] for number in found], len(timely), result)
        doubt = doubt or _unsigned(params, actions, len(timely)) or await _unseen(params, actions, len(timely), context)
        if doubt:
            return inconclusive(f"{message}; {doubt}", evidence=evidence, figures=figures | away_figures(result))
        if not _in_bounds(len(timely), params.least, params.max_count):
            message = f"{summary}; expected {_how_often(params.least, params.max_count)}; {seen}"
            ground = "presence" if len(timely) > params.least else None
            return failed(message, evidence=evidence, figures=figures, rests_on=ground)
        if params.before is not None and (late := _comes_after(params.before, found[0], actions)):
            message = (
                f"{params.action} came after {params.before}: {_where([late, found[0]], actions, result, context)}"
            )
            return failed(message, evidence=evidence, figures=figures, rests_on="presence")
        doubt = None
        if not timely:
            doubt = unknown_agents([params.agent], result) or namesake([params.action], actions)
            doubt = doubt or respelled(params.action, params.params, params.status, actions)
        if params.before is not None:
            doubt = doubt or await unserved([params.before], actions, context)
        if doubt:
            return inconclusive(f"{message}; but {doubt}", evidence=evidence, figures=figures)
        return passed(message, evidence=evidence, figures=figures, rests_on=None if timely else "absence")


class ServiceCalledParams(EvaluationParams):
    """Names are compared ignoring case, `_` and `-`. `max_count: 0` alone asks that it was never called."""

    service: ServiceName | None = Field(default=None, description="Name of the service. Default: any")
    method: ServiceName | None = Field(default=None, description="Name of the method. Default: any")
    min_count: CountFromZero | None = Field(
        default=None, description="Minimum number of calls. Default: 1, or 0 with `max_count: 0`"
    )
    max_count: CountFromZero | None = Field(
        default=None, description="Maximum number of calls; 0 means that there must be none"
    )
    args: list[Any] | None = Field(default=None, description="Positional arguments it must have been called with")
    input: dict[str, Any] | None = Field(
        default=None, description="Named parameters it must have been called with, matched as a subset"
    )
    status: Status = Field(default="any", description="How the call must have ended")
    agent: AgentName | None = Field(
        default=None, description="Agent that must have made the call, if there are several"
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.service is None and self.method is None:
            raise ValueError("give `service`, `method`, or both")
        _check_bounds(self.min_count, self.max_count)
        return self

    @property
    def least(self) -> int:
        return _least(self.min_count, self.max_count)


class ServiceCalledEvaluator:
    """`args` is the whole positional list and `input` a part of the named parameters; objects match by subset."""

    type: ClassVar[str] = "service_called"
    params: ClassVar[type[EvaluationParams]] = ServiceCalledParams
    reads: ClassVar[frozenset[Visible]] = frozenset({"services"})

    async def evaluate(
        self, params: ServiceCalledParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        actions = [] if params.agent is None else actions_of(result)
        called = [call for call in result.service_calls if _is_named(params, call)]
        callers = [caller_of(call, actions) for call in called]
        missed = [
            [*_call_differences(params, call), *_caller_difference(params.agent, caller)]
            for call, caller in zip(called, callers, strict=True)
        ]
        count = sum(not different for different in missed)
        often = _how_often(params.least, params.max_count)
        evidence = Evidence(
            expected=f"{_target(params)} called {often}{_call_conditions(params)}",
            found=f"{count} of {counted(len(result.service_calls), 'service call')} matched",
            where=f"service calls of this {context.span}",
            excerpt="\n".join(_shown(call) for call in result.service_calls[:20]) or None,
        )
        figures = {"count": count}
        message = _call_summary(params, missed, count)
        unsigned = [call for call, caller in zip(called, callers, strict=True) if caller is None]
        if params.agent is not None and not _exceeds(count, params.max_count):
            doubt = _unsigned_calls(params, unsigned, count) or (
                None if count else unknown_agents([params.agent], result)
            )
            if doubt is not None:
                return inconclusive(f"{message}; {doubt}", evidence=evidence, figures=figures)
        if not _in_bounds(count, params.least, params.max_count):
            ground = "presence" if count > params.least else None
            return failed(f"{message}; expected {often}", evidence=evidence, figures=figures, rests_on=ground)
        by_it = [call for call, caller in zip(called, callers, strict=True) if is_by(params.agent, caller)]
        if not count and any(_respelled_call(params, call) for call in by_it):
            return inconclusive(f"{message}; but {SPELLING}", evidence=evidence, figures=figures)
        return passed(message, evidence=evidence, figures=figures, rests_on=None if count else "absence")


# Actions


def _unsigned(params: TrajectoryContainsActionParams, actions: list[TrajectoryStep], count: int) -> str | None:
    """Why this cannot be decided: whose actions these are is not known, and more of them could change the verdict."""
    if params.agent is None or _exceeds(count, params.max_count):
        return None
    if count >= max(params.least, 1) and params.max_count is None:
        return None
    unsigned = [
        step for step in actions if step.agent is None and matches(step, params.action, params.params, params.status)
    ]
    if not unsigned:
        return None
    return f"it is unknown which agent did this {_times(len(unsigned))}: neither the agent nor its trace says so"


async def _unseen(
    params: TrajectoryContainsActionParams, actions: list[TrajectoryStep], count: int, context: EvaluationContext
) -> str | None:
    """Why this cannot be decided: not enough is seen of such an action."""
    alike = [step for step in actions if params.params and matches(step, params.action, {}, params.status)]
    doubt = None if _exceeds(count, params.max_count) else unseen_arguments(alike, context)
    return doubt or (None if count else await unserved([params.action], actions, context))


def _in_time(params: TrajectoryContainsActionParams, step: TrajectoryStep, result: ExecutionResult) -> bool:
    return params.within_ms is None or since_start_ms(step, result) <= params.within_ms


def _doubt(
    params: TrajectoryContainsActionParams, found: list[TrajectoryStep], timely: int, result: ExecutionResult
) -> str | None:
    """Why this cannot be decided: without the harness's own time the verdict would be different."""
    if params.within_ms is None:
        return None
    own = [
        since_start_ms(step, result) - harness_ms(result, result.started_at_ms, step.at_ms) <= params.within_ms
        for step in found
    ]
    least, most = params.least, params.max_count
    if _in_bounds(sum(own), least, most) == _in_bounds(timely, least, most):
        return None
    return "some of that time may have been queueing in Steadyhand, retries of the model call or lag"


def _comes_after(other: str, first: int, actions: list[TrajectoryStep]) -> int | None:
    """The number of an action `other` that comes before the action number `first`."""
    earlier = (number for number, step in enumerate(actions, start=1) if matches(step, other, {}, "any"))
    return next((number for number in earlier if number < first), None)


def _action_summary(
    params: TrajectoryContainsActionParams, actions: list[TrajectoryStep], found: int, timely: int
) -> str:
    """How often it happened as asked; if it never did, how the nearest one differed."""
    named = [step for step in actions if matches(step, params.action, {}, "any")]
    if not named:
        return f"{params.action} never happened"
    if not found:
        nearest = _fewest(
            [
                *action_differences(step, params.params, params.status),
                *([] if is_by(params.agent, step.agent) else [f"it was done by {step.agent or 'an unknown agent'}"]),
            ]
            for step in named
        )
        return f"{params.action} happened {_times(len(named))}, but not{_conditions(params)}: {nearest}"
    summary = f"{params.action} happened {_times(found)}{_conditions(params)}"
    if timely == found:
        return summary
    late = f", {found - timely} of them later than" if timely else ", but later than"
    return f"{summary}{late} {params.within_ms:g} ms"


def _expected(params: TrajectoryContainsActionParams) -> str:
    often = _how_often(params.least, params.max_count)
    within = "" if params.within_ms is None else f" within {params.within_ms:g} ms"
    before = "" if params.before is None else f" before {params.before}"
    return f"{params.action} {often}{_conditions(params)}{within}{before}"


def _conditions(params: TrajectoryContainsActionParams) -> str:
    asked = [f"params {excerpt(repr(params.params))}"] if params.params else []
    by = "" if params.agent is None else f" by {params.agent}"
    return by + _with(asked, params.status)


def _where(
    numbers: list[int], actions: list[TrajectoryStep], result: ExecutionResult, context: EvaluationContext
) -> str:
    listed = [f"{number} ({since_start_ms(actions[number - 1], result):g} ms)" for number in numbers[:20]]
    return f"action{'' if len(listed) == 1 else 's'} {', '.join(listed)} of this {context.span}"


def _listed(actions: list[TrajectoryStep]) -> str:
    tally = Counter(f"{step.name} ({step.status or 'no status'})" for step in actions)
    return excerpt(", ".join(f"{name} x{count}" if count > 1 else name for name, count in tally.items())) or "none"


# Service calls


def _is_named(params: ServiceCalledParams, call: ServiceCalled) -> bool:
    if params.service is not None and plain_name(params.service) != plain_name(call.service):
        return False
    return params.method is None or plain_name(params.method) == plain_name(call.method)


def _call_differences(params: ServiceCalledParams, call: ServiceCalled) -> list[str]:
    """Why a call of the right name does not match; empty when it does.

    As for mocks, one object is the same whether it is passed by name or as the only argument.
    """
    different: list[str] = []
    if params.args is not None:
        different += differences(params.args, _positional(call), "args")
    if params.input is not None:
        different += differences(params.input, _named(call))
    if params.status != "any" and (call.error is None) != (params.status == "success"):
        different.append("it succeeded" if call.error is None else "it failed")
    return different


def _positional(call: ServiceCalled) -> list[Any]:
    return call.args if call.args or not call.input else [call.input]


def _named(call: ServiceCalled) -> dict[str, Any]:
    lone: Any = call.args[0] if len(call.args) == 1 and not call.input else None
    return cast("dict[str, Any]", lone) if isinstance(lone, dict) else call.input


def _respelled_call(params: ServiceCalledParams, call: ServiceCalled) -> bool:
    """Whether a call does not match only because its arguments are spelled differently."""
    asked = [
        (wanted, given)
        for wanted, given in ((params.args, _positional(call)), (params.input, _named(call)))
        if wanted is not None
    ]
    apart = [differs_in_spelling(given, wanted) for wanted, given in asked if not includes(given, wanted)]
    unasked = params.model_copy(update={"args": None, "input": None})
    return bool(apart) and all(apart) and not _call_differences(unasked, call)


def _caller_difference(agent: str | None, caller: str | None) -> list[str]:
    return [] if is_by(agent, caller) else [f"it was called by {caller or 'an unknown agent'}"]


def _unsigned_calls(params: ServiceCalledParams, unsigned: list[ServiceCalled], count: int) -> str | None:
    """Why this cannot be decided: who made some of the calls is not known, and they could change the verdict."""
    if count >= max(params.least, 1) and params.max_count is None:
        return None
    doubtful = [call for call in unsigned if not _call_differences(params, call)]
    if not doubtful:
        return None
    return (
        f"it is unknown which agent called it {_times(len(doubtful))}: this needs a trace with the agents' names and "
        "the times of their tool calls"
    )


def _call_summary(params: ServiceCalledParams, missed: list[list[str]], count: int) -> str:
    """How often it was called as asked; if it never was, how the nearest call differed."""
    target, conditions = _target(params), _call_conditions(params)
    if not missed:
        return f"{target} was never called"
    if not count:
        return f"{target} was called {_times(len(missed))}, but not{conditions}: {_fewest(missed)}"
    among = f" (of {counted(len(missed), 'call')})" if count < len(missed) else ""
    return f"{target} was called {_times(count)}{conditions}{among}"


def _target(params: ServiceCalledParams) -> str:
    if params.service is None:
        return f"{params.method} of any service"
    return f"{params.service}.{params.method}" if params.method is not None else f"any method of {params.service}"


def _call_conditions(params: ServiceCalledParams) -> str:
    asked = [
        f"{name} {value!r}" for name, value in (("args", params.args), ("input", params.input)) if value is not None
    ]
    by = "" if params.agent is None else f" by {params.agent}"
    return by + _with(asked, params.status)


def _shown(call: ServiceCalled) -> str:
    passed_in = [repr(value) for value in call.args] + [f"{name}={value!r}" for name, value in call.input.items()]
    ending = f" -> error: {call.error}" if call.error is not None else ""
    return shorten(f"{call.service}.{call.method}({', '.join(passed_in)}){ending}", 500)


# What both count, and how they report it


def _least(min_count: int | None, max_count: int | None) -> int:
    """Once, unless the file says otherwise; `max_count: 0` alone means never."""
    if min_count is None:
        return 0 if max_count == 0 else 1
    return min_count


def _check_bounds(min_count: int | None, max_count: int | None) -> None:
    """Raises `ValueError` for bounds that nothing, or everything, is within."""
    if min_count == 0 and max_count is None:
        raise ValueError("`min_count: 0` without `max_count` always holds; set `max_count`, or leave `min_count` out")
    least = _least(min_count, max_count)
    if max_count is not None and least > max_count:
        raise ValueError(f"`min_count` ({least}) is above `max_count` ({max_count})")


def _in_bounds(count: int, least: int, most: int | None) -> bool:
    return count >= least and (most is None or count <= most)


def _exceeds(count: int, most: int | None) -> bool:
    return most is not None and count > most


def _how_often(least: int, most: int | None) -> str:
    """The bounds of a count, such as `at least once` and `2 to 3 times`."""
    if most is None:
        return f"at least {_times(least)}"
    if least == most:
        return _times(most) if most == 0 else f"exactly {_times(most)}"
    return f"at most {_times(most)}" if least == 0 else f"{least} to {most} times"


def _times(number: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number} times")


def _with(asked: list[str], status: str) -> str:
    asked = [*asked, f"status {status}"] if status != "any" else asked
    return f" with {' and '.join(asked)}" if asked else ""


def _fewest(candidates: Iterable[list[str]]) -> str:
    """How the candidate that came nearest differed."""
    return ", and ".join(min(candidates, key=len))
