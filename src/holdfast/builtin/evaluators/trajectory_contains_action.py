"""`trajectory_contains_action`: the agent carried out an action in this step, so and so often."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import AfterValidator, Field, model_validator

from holdfast.builtin.evaluators.bounds import Count
from holdfast.builtin.evaluators.excerpt import excerpt
from holdfast.ports.evaluator import EvaluationContext, EvaluationParams
from holdfast.records.evaluation import EvaluationResult, Evidence, failed, passed
from holdfast.records.execution import ExecutionResult
from holdfast.records.trajectory import TrajectoryStep


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


def _has_letters(action: str) -> str:
    if not plain_name(action).strip():
        raise ValueError("there is no action's name; give one such as 'SEND_MESSAGE'")
    return action


class TrajectoryContainsActionParams(EvaluationParams):
    action: Annotated[str, AfterValidator(_has_letters)]
    params: dict[str, Any] = Field(default_factory=dict)
    status: Literal["success", "error", "any"] = "any"
    min_count: Count | None = None
    max_count: Count | None = None

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.max_count is not None and self.least > self.max_count:
            raise ValueError(f"min_count ({self.least}) is above max_count ({self.max_count})")
        if self.least == 0 and self.max_count is None:
            raise ValueError("min_count: 0 without max_count asks for nothing; give max_count, or leave min_count out")
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

    async def evaluate(
        self, params: TrajectoryContainsActionParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        actions = [step for step in result.trajectory if step.type == "action"]
        found = [number for number, step in enumerate(actions, start=1) if _matches(params, step)]
        expected = _expected(params)
        evidence = Evidence(
            expected=expected,
            found=f"{len(found)} such among {len(actions)} actions",
            where=f"actions {', '.join(map(str, found[:20]))} of this step" if found else "this step's trajectory",
            excerpt=_seen(actions),
        )
        figures = {"count": len(found), "actions": len(actions)}
        message = f"found {len(found)} of {expected}; the step's actions: {_seen(actions)}"
        enough = len(found) >= params.least and (params.max_count is None or len(found) <= params.max_count)
        return (passed if enough else failed)(message, evidence=evidence, figures=figures)


def _matches(params: TrajectoryContainsActionParams, step: TrajectoryStep) -> bool:
    return (
        plain_name(step.name or "") == plain_name(params.action)
        and params.status in ("any", step.status)
        and is_subset(params.params, step.params)
    )


def _expected(params: TrajectoryContainsActionParams) -> str:
    times = f"at least {params.least}" if params.max_count is None else f"{params.least} to {params.max_count}"
    status = "" if params.status == "any" else f" with status {params.status}"
    with_params = f" and params {excerpt(str(params.params))}" if params.params else ""
    return f"{params.action} {times} times{status}{with_params}"


def _seen(actions: list[TrajectoryStep]) -> str:
    counted = Counter(f"{step.name} ({step.status or 'no status'})" for step in actions)
    return excerpt(", ".join(f"{name} x{count}" if count > 1 else name for name, count in counted.items())) or "none"
