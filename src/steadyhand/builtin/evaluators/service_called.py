"""`service_called`: whether a service's method was called in this step, how often, and with what."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import AfterValidator, Field, model_validator

from steadyhand.builtin.evaluators.actions import differences, nearest, plain_name
from steadyhand.builtin.evaluators.excerpt import counted, how_often, times
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.evaluation import EvaluationResult, Evidence, failed, passed
from steadyhand.records.event import ServiceCalled, Visible
from steadyhand.records.result import ExecutionResult


def _has_letters(name: str) -> str:
    if not plain_name(name).strip():
        raise ValueError("there is no name; leave the key out to mean any")
    return name


ServiceName = Annotated[str, AfterValidator(_has_letters)]


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
            expected=f"{_target(params)} called {often}{_conditions(params)}",
            found=f"{count} such among {counted(len(result.service_calls), 'service call')}",
            where=f"service calls of this {context.span}",
            excerpt="\n".join(_shown(call) for call in result.service_calls[:20]) or None,
        )
        figures = {"count": count}
        message = _told(params, lacking, count)
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


def _told(params: ServiceCalledParams, lacking: list[list[str]], count: int) -> str:
    """How often it was called as asked; where it was called otherwise only, what was different."""
    target, conditions = _target(params), _conditions(params)
    if not lacking:
        return f"{target} was never called"
    if not count:
        return f"{target} was called {times(len(lacking))}, but not{conditions}: {nearest(lacking)}"
    among = f" (of {counted(len(lacking), 'call')})" if count < len(lacking) else ""
    return f"{target} was called {times(count)}{conditions}{among}"


def _conditions(params: ServiceCalledParams) -> str:
    asked = [
        f"{name} {value!r}" for name, value in (("args", params.args), ("input", params.input)) if value is not None
    ]
    asked += [f"status {params.status}"] if params.status != "any" else []
    return f" with {' and '.join(asked)}" if asked else ""


def _shown(call: ServiceCalled) -> str:
    passed_in = [repr(value) for value in call.args] + [f"{name}={value!r}" for name, value in call.input.items()]
    ending = f" -> error: {call.error}" if call.error is not None else ""
    return f"{call.service}.{call.method}({', '.join(passed_in)}){ending}"[:500]
