"""`service_called`: how often a service was called, and how the calls ended.

It counts deeds, as `trajectory_contains_action` does; of those, the ones that reached a service.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator

from steadyhand.builtin.evaluators.action_match import (
    SPELLING,
    STATUS,
    AgentName,
    DeedList,
    Status,
    differences,
    is_by,
    never_offered,
    statuses,
    unknown_outcome,
)
from steadyhand.builtin.evaluators.count_bounds import (
    COUNTS,
    check_bounds,
    exceeds,
    fewest,
    how_often,
    in_bounds,
    is_settled,
    least_of,
    opposite_bounds,
    times,
    with_conditions,
)
from steadyhand.builtin.evaluators.text import CountFromZero
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.base import counted, shorten
from steadyhand.records.deed import HAPPENED, Deed, named_parameters
from steadyhand.records.deed_name import NamedDeed, is_of_service, likeness, plain_name
from steadyhand.records.evaluation import EvaluationResult, Evidence, failed, inconclusive, passed
from steadyhand.records.event import ActionStatus, ServiceCalled, Visible
from steadyhand.records.result import ExecutionResult
from steadyhand.runtime.values import differs_in_spelling, includes
from steadyhand.spec.quoting import ASKED


def _service_name(name: str) -> str:
    if not plain_name(name):
        raise ValueError("the name is empty; leave the key out to mean any")
    return name


ServiceName = Annotated[str, AfterValidator(_service_name)]


class ServiceCalledParams(EvaluationParams):
    """Names are compared ignoring case and separators. `max_count: 0` alone asks that it was never called."""

    service: ServiceName | None = Field(default=None, description="Name of the service. Default: any")
    method: ServiceName | None = Field(default=None, description="Name of the method. Default: any")
    min_count: CountFromZero | None = Field(
        default=None, description="Minimum number of calls. Default: 1, or 0 with `max_count: 0`"
    )
    max_count: CountFromZero | None = Field(
        default=None, description="Maximum number of calls; 0 means that there must be none"
    )
    args: list[Any] | None = Field(default=None, description="Positional arguments it must have been called with")
    input: Annotated[dict[str, Any] | None, ASKED] = Field(
        default=None, description="Named parameters it must have been called with, matched as a subset"
    )
    status: Status | None = Field(default=None, description=STATUS)
    agent: AgentName | None = Field(
        default=None, description="Agent that must have made the call, if there are several"
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.service is None and self.method is None:
            raise ValueError("give `service`, `method`, or both")
        check_bounds(self.min_count, self.max_count)
        return self

    @property
    def least(self) -> int:
        return least_of(self.min_count, self.max_count)

    def opposite(self) -> tuple[str, dict[str, Any]]:
        bounds = opposite_bounds(self.least, self.max_count)
        return "service_called", {**self.model_dump(exclude_unset=True, exclude=COUNTS), **bounds}

    @property
    def counting(self) -> frozenset[ActionStatus]:
        return statuses(self.status, forbids=self.least == 0)


class ServiceCalledEvaluator:
    """`args` is the whole positional list and `input` a part of the named parameters; objects match by subset."""

    type: ClassVar[str] = "service_called"
    params: ClassVar[type[EvaluationParams]] = ServiceCalledParams
    reads: ClassVar[frozenset[Visible]] = frozenset({"services"})

    def names_deeds(self, params: ServiceCalledParams) -> Sequence[NamedDeed]:
        return [NamedDeed(service=params.service, method=params.method)]

    async def evaluate(
        self, params: ServiceCalledParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        deeds = DeedList(result, context)
        called = [deed for deed in deeds.all if _is_called(params, deed)]
        missed = [[*_call_differences(params, deed), *_caller_difference(params.agent, deed.agent)] for deed in called]
        count = sum(not different for different in missed)
        often = how_often(params.least, params.max_count)
        calls = [deed.call for deed in deeds.all if deed.call is not None]
        evidence = Evidence(
            expected=f"{_target(params)} called {often}{_call_conditions(params)}",
            found=f"{count} of {counted(len(calls), 'service call')} matched",
            where=f"service calls of this {context.span}",
            excerpt="\n".join(_call_text(call) for call in calls[:20]) or None,
        )
        figures = {"count": count}
        message = _call_summary(params, called, missed, count)
        if params.agent is not None and not exceeds(count, params.max_count):
            unsigned = [deed for deed in called if deed.agent is None]
            doubt = _unsigned_calls(params, unsigned, count) or (
                None if count else deeds.unknown_agents([params.agent])
            )
            if doubt is not None:
                return inconclusive(f"{message}; {doubt}", evidence=evidence, figures=figures)
        unasked = params.model_copy(update={"status": "any"})
        otherwise = [deed for deed in called if not _call_differences(unasked, deed)]
        doubt = unknown_outcome(otherwise, {}, params.status)
        if doubt and not is_settled(count, params.least, params.max_count):
            return inconclusive(f"{message}; {doubt}", evidence=evidence, figures=figures)
        unoffered = None if called else _unoffered(params, result)
        if not in_bounds(count, params.least, params.max_count):
            ground = "presence" if count > params.least else None
            why = "" if unoffered is None else f"; {unoffered}"
            return failed(f"{message}; expected {often}{why}", evidence=evidence, figures=figures, rests_on=ground)
        by_it = [deed for deed in called if is_by(params.agent, deed.agent)]
        doubt = SPELLING if not count and any(_respelled_call(params, deed) for deed in by_it) else unoffered
        if doubt is not None:
            return inconclusive(f"{message}; but {doubt}", evidence=evidence, figures=figures)
        return passed(message, evidence=evidence, figures=figures, rests_on=None if count else "absence")


def _is_called(params: ServiceCalledParams, deed: Deed) -> bool:
    """Whether it is a call of this service and method. One that never became a service call counts against a check that
    forbids it."""
    service, method = params.service, params.method
    if deed.call is not None:
        return (service is None or plain_name(service) == plain_name(deed.call.service)) and (
            method is None or plain_name(method) == plain_name(deed.call.method)
        )
    if params.least or deed.status in HAPPENED:
        return False
    if method is None:
        return service is not None and is_of_service(service, deed.names)
    return likeness(f"{service}.{method}" if service else method, deed.names) == "yes"


def _unoffered(params: ServiceCalledParams, result: ExecutionResult) -> str | None:
    """Why the absence of such a call proves nothing: nothing of that name could be called. None if it could."""
    offer = result.offer
    if offer is None or offer.has_call(params.service, params.method):
        return None
    named = (
        [params.service, params.method] if offer.has_call(params.service, None) else [params.service or params.method]
    )
    return never_offered(".".join(name for name in named if name), offer)


def _call_differences(params: ServiceCalledParams, deed: Deed) -> list[str]:
    """Why a call of the right name does not match; empty when it does.

    As for mocks, one object is the same whether it is passed by name or as the only argument.
    """
    different: list[str] = []
    if params.args is not None:
        different += differences(params.args, _positional(deed.call) if deed.call else [deed.params], "args")
    if params.input is not None:
        different += differences(params.input, named_parameters(deed.call) if deed.call else deed.params)
    if deed.status not in params.counting:
        different.append(_ENDINGS.get(deed.status, f"its status was {deed.status}"))
    return different


_ENDINGS: dict[ActionStatus, str] = {"success": "it succeeded", "error": "it failed"}


def _positional(call: ServiceCalled) -> list[Any]:
    return call.args if call.args or not call.input else [call.input]


def _respelled_call(params: ServiceCalledParams, deed: Deed) -> bool:
    """Whether a call does not match only because its arguments are spelled differently."""
    if deed.call is None:
        return False
    asked = [
        (wanted, given)
        for wanted, given in ((params.args, _positional(deed.call)), (params.input, named_parameters(deed.call)))
        if wanted is not None
    ]
    apart = [differs_in_spelling(given, wanted) for wanted, given in asked if not includes(given, wanted)]
    unasked = params.model_copy(update={"args": None, "input": None})
    return bool(apart) and all(apart) and not _call_differences(unasked, deed)


def _caller_difference(agent: str | None, caller: str | None) -> list[str]:
    return [] if is_by(agent, caller) else [f"it was called by {caller or 'an unknown agent'}"]


def _unsigned_calls(params: ServiceCalledParams, unsigned: list[Deed], count: int) -> str | None:
    """Why this cannot be decided: who made some of the calls is not known, and they could change the verdict."""
    if is_settled(count, params.least, params.max_count):
        return None
    doubtful = [deed for deed in unsigned if not _call_differences(params, deed)]
    if not doubtful:
        return None
    return (
        f"it is unknown which agent called it {times(len(doubtful))}: this needs a trace with the agents' names and "
        "the times of their tool calls"
    )


def _call_summary(params: ServiceCalledParams, called: list[Deed], missed: list[list[str]], count: int) -> str:
    """How often it was called as asked; if it never was, how the nearest call differed."""
    target, conditions = _target(params), _call_conditions(params)
    if not missed:
        return f"{target} was never called"
    verb = "was called" if any(deed.status in HAPPENED for deed in called) else "was tried"
    if not count:
        return f"{target} {verb} {times(len(missed))}, but not{conditions or ' carried out'}: {fewest(missed)}"
    among = f" (of {counted(len(missed), 'call')})" if count < len(missed) else ""
    return f"{target} {verb} {times(count)}{conditions}{among}"


def _target(params: ServiceCalledParams) -> str:
    if params.service is None:
        return f"{params.method} of any service"
    return f"{params.service}.{params.method}" if params.method is not None else f"any method of {params.service}"


def _call_conditions(params: ServiceCalledParams) -> str:
    asked = [
        f"{name} {value!r}" for name, value in (("args", params.args), ("input", params.input)) if value is not None
    ]
    by = "" if params.agent is None else f" by {params.agent}"
    return by + with_conditions(asked, params.status)


def _call_text(call: ServiceCalled) -> str:
    passed_in = [repr(value) for value in call.args] + [f"{name}={value!r}" for name, value in call.input.items()]
    ending = f" -> error: {call.error}" if call.error is not None else ""
    return shorten(f"{call.service}.{call.method}({', '.join(passed_in)}){ending}", 500)
