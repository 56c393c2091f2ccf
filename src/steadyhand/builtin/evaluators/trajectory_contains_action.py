"""`trajectory_contains_action`: the agent carried out an action in this step, so often, in time and in order."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from steadyhand.builtin.evaluators.actions import (
    ActionName,
    actions_of,
    lacking,
    matches,
    nearest,
    plain_name,
    since_start_ms,
)
from steadyhand.builtin.evaluators.excerpt import counted, excerpt, how_often, times
from steadyhand.builtin.evaluators.harness_time import harness_ms
from steadyhand.builtin.evaluators.parameters import Count, PositiveMilliseconds
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.evaluation import EvaluationResult, Evidence, failed, inconclusive, passed
from steadyhand.records.event import TrajectoryStep, Visible
from steadyhand.records.result import ExecutionResult


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
