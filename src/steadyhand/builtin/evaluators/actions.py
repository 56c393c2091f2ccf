"""Actions of a trajectory, and how a file names them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import AfterValidator, Field, model_validator

from steadyhand.builtin.evaluators.parameters import Count, PositiveMilliseconds
from steadyhand.builtin.evaluators.text_search import counted, excerpt, how_often, times
from steadyhand.builtin.evaluators.timing import harness_ms
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.evaluation import EvaluationResult, Evidence, failed, inconclusive, passed
from steadyhand.records.event import ServiceCalled, TrajectoryStep, Visible
from steadyhand.records.result import ExecutionResult


def plain_name(name: str) -> str:
    """A name without what spellings differ in: case, `_` and `-`."""
    return name.replace("_", "").replace("-", "").casefold()


def is_subset(wanted: Any, found: Any) -> bool:
    """Whether `found` has everything that `wanted` names: objects by their keys, lists item by item, values alike.

    True is not 1 here, although Python thinks so.
    """
    if isinstance(wanted, dict) and isinstance(found, dict):
        there = cast("dict[Any, Any]", found)
        return all(
            key in there and is_subset(value, there[key]) for key, value in cast("dict[Any, Any]", wanted).items()
        )
    if isinstance(wanted, list | tuple) and isinstance(found, list | tuple):
        left, right = cast("list[Any]", wanted), cast("list[Any]", found)
        return len(left) == len(right) and all(map(is_subset, left, right))
    return isinstance(wanted, bool) == isinstance(found, bool) and wanted == found


def differences(wanted: Any, found: Any, where: str = "") -> list[str]:
    """Why `is_subset` does not hold, such as `amount was 20, not 50`; nothing when it does."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        there, told = cast("dict[Any, Any]", found), list[str]()
        for key, value in cast("dict[Any, Any]", wanted).items():
            place = f"{where}.{key}" if where else str(key)
            told += differences(value, there[key], place) if key in there else [f"{place} was not given"]
        return told
    if isinstance(wanted, list | tuple) and isinstance(found, list | tuple):
        left, right = cast("list[Any]", wanted), cast("list[Any]", found)
        if len(left) != len(right):
            return [f"{where} had {len(right)} entr{'y' if len(right) == 1 else 'ies'}, not {len(left)}"]
        pairs = enumerate(zip(left, right, strict=True))
        return [line for index, (one, other) in pairs for line in differences(one, other, f"{where}[{index}]")]
    if is_subset(wanted, found):
        return []
    return [f"{where} was {excerpt(repr(cast('object', found)))}, not {excerpt(repr(cast('object', wanted)))}"]


def nearest(told: Iterable[list[str]]) -> str:
    """What the one that came nearest lacked, of what each lacked."""
    return ", and ".join(min(told, key=len))


def _has_letters(action: str) -> str:
    if not plain_name(action).strip():
        raise ValueError("there is no action's name; give one such as 'SEND_MESSAGE'")
    return action


ActionName = Annotated[str, AfterValidator(_has_letters)]


def lacking(step: TrajectoryStep, params: dict[str, Any], status: str) -> list[str]:
    """What keeps an action of the right name from being the one that is looked for."""
    told = differences(params, step.params)
    return told if status in ("any", step.status) else [*told, f"its status was {step.status or 'not told'}"]


def matches(step: TrajectoryStep, name: str, params: dict[str, Any], status: str) -> bool:
    return (
        plain_name(step.name or "") == plain_name(name)
        and status in ("any", step.status)
        and (not params or is_subset(params, step.params))
    )


def actions_of(result: ExecutionResult) -> list[TrajectoryStep]:
    """By the time they began."""
    return [step for step in result.trajectory if step.type == "action"]


def since_start_ms(step: TrajectoryStep, result: ExecutionResult) -> float:
    """When an action began, in milliseconds of its step."""
    return round(step.at_ms - result.started_at_ms, 3)


class TrajectoryContainsActionParams(EvaluationParams):
    action: ActionName
    params: dict[str, Any] = Field(default_factory=dict)
    status: Literal["success", "error", "any"] = "any"
    min_count: Count | None = None
    max_count: Count | None = None
    within_ms: PositiveMilliseconds | None = None
    before: ActionName | None = None

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.max_count is not None and self.least > self.max_count:
            raise ValueError(f"min_count ({self.least}) is above max_count ({self.max_count})")
        if self.least == 0 and self.max_count is None:
            raise ValueError("min_count: 0 without max_count asks for nothing; give max_count, or leave min_count out")
        if self.before is not None and self.least == 0:
            raise ValueError("`before` needs an action that must happen; give min_count 1 or more, or leave it out")
        if self.before is not None and plain_name(self.before) == plain_name(self.action):
            raise ValueError(f"`before` names the action itself ({self.before}); no action comes before itself")
        return self

    @property
    def least(self) -> int:
        """Once, unless the file says otherwise; `max_count: 0` alone says that it must not happen."""
        if self.min_count is None:
            return 0 if self.max_count == 0 else 1
        return self.min_count


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
            if matches(step, params.action, params.params, params.status)
        ]
        timely = [number for number in found if _in_time(params, actions[number - 1], result)]
        expected = _expected(params)
        evidence = Evidence(
            expected=expected,
            found=f"{len(timely)} such among {counted(len(actions), 'action')}",
            where=_where(found, actions, result, context) if found else f"this {context.span}'s trajectory",
            excerpt=_seen(actions),
        )
        figures: dict[str, Any] = {"count": len(timely), "actions": len(actions)}
        if found:
            figures["first_ms"] = since_start_ms(actions[found[0] - 1], result)
        told, seen = _told(params, actions, len(found), len(timely)), f"the {context.span}'s actions: {_seen(actions)}"
        message = f"{told}; {seen}"
        if doubt := _doubt(params, [actions[number - 1] for number in found], len(timely), result):
            return inconclusive(f"{message}; {doubt}", evidence=evidence, figures=figures)
        if not _often_enough(params, len(timely)):
            message = f"{told}; expected {how_often(params.least, params.max_count)}; {seen}"
            ground = "presence" if len(timely) > params.least else None
            return failed(message, evidence=evidence, figures=figures, rests_on=ground)
        if params.before is not None and (late := _comes_after(params.before, found[0], actions)):
            message = (
                f"{params.action} came after {params.before}: {_where([late, found[0]], actions, result, context)}"
            )
            return failed(message, evidence=evidence, figures=figures, rests_on="presence")
        return passed(message, evidence=evidence, figures=figures, rests_on=None if timely else "absence")


def _often_enough(params: TrajectoryContainsActionParams, count: int) -> bool:
    return count >= params.least and (params.max_count is None or count <= params.max_count)


def _in_time(params: TrajectoryContainsActionParams, step: TrajectoryStep, result: ExecutionResult) -> bool:
    return params.within_ms is None or since_start_ms(step, result) <= params.within_ms


def _doubt(
    params: TrajectoryContainsActionParams, found: list[TrajectoryStep], timely: int, result: ExecutionResult
) -> str | None:
    """Why it cannot be told, when the count would be judged otherwise without the time that was ours."""
    if params.within_ms is None:
        return None
    own = [
        since_start_ms(step, result) - harness_ms(result, result.started_at_ms, step.at_ms) <= params.within_ms
        for step in found
    ]
    if _often_enough(params, sum(own)) == _often_enough(params, timely):
        return None
    return "some of that time may have been spent in our queue or on retries of the model call"


def _comes_after(other: str, first: int, actions: list[TrajectoryStep]) -> int | None:
    """The number of an action `other` that stands before the action number `first`."""
    earlier = (number for number, step in enumerate(actions, start=1) if matches(step, other, {}, "any"))
    return next((number for number in earlier if number < first), None)


def _where(
    numbers: list[int], actions: list[TrajectoryStep], result: ExecutionResult, context: EvaluationContext
) -> str:
    told = [f"{number} ({since_start_ms(actions[number - 1], result):g} ms)" for number in numbers[:20]]
    return f"action{'' if len(told) == 1 else 's'} {', '.join(told)} of this {context.span}"


def _expected(params: TrajectoryContainsActionParams) -> str:
    often = how_often(params.least, params.max_count)
    within = "" if params.within_ms is None else f" within {params.within_ms:g} ms"
    before = "" if params.before is None else f" before {params.before}"
    return f"{params.action} {often}{_conditions(params)}{within}{before}"


def _conditions(params: TrajectoryContainsActionParams) -> str:
    asked = [f"params {excerpt(repr(params.params))}"] if params.params else []
    asked += [f"status {params.status}"] if params.status != "any" else []
    return f" with {' and '.join(asked)}" if asked else ""


def _told(params: TrajectoryContainsActionParams, actions: list[TrajectoryStep], found: int, timely: int) -> str:
    """How often it happened as asked; where it happened otherwise only, what was different."""
    named = [step for step in actions if matches(step, params.action, {}, "any")]
    if not named:
        return f"{params.action} never happened"
    if not found:
        lacked = nearest(lacking(step, params.params, params.status) for step in named)
        return f"{params.action} happened {times(len(named))}, but not{_conditions(params)}: {lacked}"
    told = f"{params.action} happened {times(found)}{_conditions(params)}"
    if timely == found:
        return told
    return (
        told
        + (f", {found - timely} of them later than" if timely else ", but later than")
        + f" {params.within_ms:g} ms"
    )


def _seen(actions: list[TrajectoryStep]) -> str:
    counted = Counter(f"{step.name} ({step.status or 'no status'})" for step in actions)
    return excerpt(", ".join(f"{name} x{count}" if count > 1 else name for name, count in counted.items())) or "none"


def _names_something(name: str) -> str:
    if not plain_name(name).strip():
        raise ValueError("there is no name; leave the key out to mean any")
    return name


ServiceName = Annotated[str, AfterValidator(_names_something)]


class ServiceCalledParams(EvaluationParams):
    """Names are compared ignoring case, `_` and `-`. `max_count: 0` alone asks that it was never called."""

    service: ServiceName | None = None
    method: ServiceName | None = None
    min_count: int | None = Field(default=None, ge=0)
    max_count: int | None = Field(default=None, ge=0)
    args: list[Any] | None = None
    input: dict[str, Any] | None = None
    status: Literal["success", "error", "any"] = "any"

    @property
    def at_least(self) -> int:
        if self.min_count is not None:
            return self.min_count
        return 0 if self.max_count == 0 else 1

    @model_validator(mode="after")
    def _means_something(self) -> ServiceCalledParams:
        if self.service is None and self.method is None:
            raise ValueError("give `service`, `method`, or both")
        if self.min_count == 0 and self.max_count is None:
            raise ValueError("`min_count: 0` without `max_count` holds whatever happens")
        if self.max_count is not None and self.max_count < self.at_least:
            raise ValueError(f"`max_count` ({self.max_count}) is below `min_count` ({self.at_least})")
        return self


class ServiceCalledEvaluator:
    """`args` is the whole positional list and `input` a part of the named parameters; objects match by subset."""

    type: ClassVar[str] = "service_called"
    params: ClassVar[type[EvaluationParams]] = ServiceCalledParams
    reads: ClassVar[frozenset[Visible]] = frozenset({"services"})

    async def evaluate(
        self, params: ServiceCalledParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        called = [call for call in result.service_calls if _is_meant(params, call)]
        lacking = [_lacking(params, call) for call in called]
        count = sum(not told for told in lacking)
        upper = params.max_count
        often = how_often(params.at_least, upper)
        evidence = Evidence(
            expected=f"{_target(params)} called {often}{_call_conditions(params)}",
            found=f"{count} such among {counted(len(result.service_calls), 'service call')}",
            where=f"service calls of this {context.span}",
            excerpt="\n".join(_shown(call) for call in result.service_calls[:20]) or None,
        )
        figures = {"count": count}
        message = _calls_told(params, lacking, count)
        if count < params.at_least or (upper is not None and count > upper):
            ground = "presence" if count > params.at_least else None
            return failed(f"{message}; expected {often}", evidence=evidence, figures=figures, rests_on=ground)
        return passed(message, evidence=evidence, figures=figures, rests_on=None if count else "absence")


def _is_meant(params: ServiceCalledParams, call: ServiceCalled) -> bool:
    if params.service is not None and plain_name(params.service) != plain_name(call.service):
        return False
    return params.method is None or plain_name(params.method) == plain_name(call.method)


def _lacking(params: ServiceCalledParams, call: ServiceCalled) -> list[str]:
    """What keeps a call of the method from being the one that is looked for.

    One object is the same whether it is passed by name or as the only argument, as it is for mocks.
    """
    told: list[str] = []
    if params.args is not None:
        positional = call.args if call.args or not call.input else [call.input]
        told += differences(params.args, positional, "args")
    if params.input is not None:
        lone: Any = call.args[0] if len(call.args) == 1 and not call.input else None
        told += differences(params.input, cast("dict[str, Any]", lone) if isinstance(lone, dict) else call.input)
    if params.status != "any" and (call.error is None) != (params.status == "success"):
        told.append("it succeeded" if call.error is None else "it ended in an error")
    return told


def _target(params: ServiceCalledParams) -> str:
    if params.service is None:
        return f"{params.method} of any service"
    return f"{params.service}.{params.method}" if params.method is not None else f"any method of {params.service}"


def _calls_told(params: ServiceCalledParams, lacking: list[list[str]], count: int) -> str:
    """How often it was called as asked; where it was called otherwise only, what was different."""
    target, conditions = _target(params), _call_conditions(params)
    if not lacking:
        return f"{target} was never called"
    if not count:
        return f"{target} was called {times(len(lacking))}, but not{conditions}: {nearest(lacking)}"
    among = f" (of {counted(len(lacking), 'call')})" if count < len(lacking) else ""
    return f"{target} was called {times(count)}{conditions}{among}"


def _call_conditions(params: ServiceCalledParams) -> str:
    asked = [
        f"{name} {value!r}" for name, value in (("args", params.args), ("input", params.input)) if value is not None
    ]
    asked += [f"status {params.status}"] if params.status != "any" else []
    return f" with {' and '.join(asked)}" if asked else ""


def _shown(call: ServiceCalled) -> str:
    passed_in = [repr(value) for value in call.args] + [f"{name}={value!r}" for name, value in call.input.items()]
    ending = f" -> error: {call.error}" if call.error is not None else ""
    return f"{call.service}.{call.method}({', '.join(passed_in)}){ending}"[:500]
