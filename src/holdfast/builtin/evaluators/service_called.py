"""`service_called`: whether a service's method was called in this step, how often, and with what."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from holdfast.ports.evaluator import EvaluationContext, EvaluationParams
from holdfast.records.evaluation import EvaluationResult, Evidence, failed, passed
from holdfast.records.event import ServiceCalled
from holdfast.records.execution import ExecutionResult
from holdfast.records.trajectory import Visible


class ServiceCalledParams(EvaluationParams):
    """Names are compared ignoring case, `_` and `-`. `max_count: 0` alone asks that it was never called."""

    service: str | None = None
    method: str | None = None
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
        count = sum(_matches(params, call) for call in result.service_calls)
        upper = params.max_count
        expected = _expected(params)
        evidence = Evidence(
            expected=expected,
            found=f"{count} matching of {len(result.service_calls)} service calls",
            where="service calls of this step",
            excerpt="\n".join(_shown(call) for call in result.service_calls[:20]) or None,
        )
        figures = {"count": count}
        target = _target(params)
        if count < params.at_least or (upper is not None and count > upper):
            ground = "presence" if count > params.at_least else None
            return failed(
                f"{target} was called {_times(count)}; {expected}", evidence=evidence, figures=figures, rests_on=ground
            )
        ground = None if count else "absence"
        return passed(f"{target} was called {_times(count)}", evidence=evidence, figures=figures, rests_on=ground)


def _matches(params: ServiceCalledParams, call: ServiceCalled) -> bool:
    if params.service is not None and _same(params.service) != _same(call.service):
        return False
    if params.method is not None and _same(params.method) != _same(call.method):
        return False
    if params.status != "any" and (call.error is None) != (params.status == "success"):
        return False
    if params.args is not None and not _subset(params.args, call.args):
        return False
    return params.input is None or _subset(params.input, call.input)


def _subset(wanted: Any, found: Any) -> bool:
    """Objects by the keys that are asked for; lists item by item; everything else, `true` and `1` apart, by value."""
    match wanted, found:
        case dict(), dict():
            return all(key in found and _subset(value, found[key]) for key, value in wanted.items())  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType] - values of users' files
        case list(), list():
            return len(wanted) == len(found) and all(map(_subset, wanted, found))  # pyright: ignore[reportUnknownArgumentType] - values of users' files
        case _:
            return isinstance(wanted, bool) == isinstance(found, bool) and bool(wanted == found)


def _same(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()


def _target(params: ServiceCalledParams) -> str:
    return f"{params.service or 'any service'}.{params.method or '*'}"


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _expected(params: ServiceCalledParams) -> str:
    low, high = params.at_least, params.max_count
    bounds = f"at least {low}" if high is None else f"exactly {low}" if low == high else f"{low} to {high}"
    asked = [
        f"{name} {value!r}" for name, value in (("args", params.args), ("input", params.input)) if value is not None
    ]
    asked += [f"status {params.status}"] if params.status != "any" else []
    return f"expected {bounds} calls" + (f" with {', '.join(asked)}" if asked else "")


def _shown(call: ServiceCalled) -> str:
    passed_in = [repr(value) for value in call.args] + [f"{name}={value!r}" for name, value in call.input.items()]
    ending = f" -> error: {call.error}" if call.error is not None else ""
    return f"{call.service}.{call.method}({', '.join(passed_in)}){ending}"[:500]
