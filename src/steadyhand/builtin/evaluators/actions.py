"""`trajectory_contains_action` and `service_called`: how often the agent did something, and how it ended.

Both count deeds (`records/deed.py`), so the same thing is found by any of its names, and counted once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from steadyhand.builtin.evaluators.action_match import (
    STATUS,
    ActionName,
    AgentName,
    DeedList,
    Status,
    deed_differences,
    fits,
    is_by,
    since_start_ms,
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
from steadyhand.builtin.evaluators.text import CountFromZero, PositiveMilliseconds, excerpt
from steadyhand.builtin.evaluators.timing import away_figures, harness_ms
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.base import counted
from steadyhand.records.deed import HAPPENED, Deed
from steadyhand.records.deed_name import NamedDeed, plain_name
from steadyhand.records.evaluation import EvaluationResult, Evidence, errored, failed, inconclusive, passed
from steadyhand.records.event import ActionStatus, Visible
from steadyhand.records.result import ExecutionResult
from steadyhand.spec.quoting import ASKED


class TrajectoryContainsActionParams(EvaluationParams):
    action: ActionName = Field(
        description="Name of the action or tool, or `service.method`; case and separators do not matter"
    )
    params: Annotated[dict[str, Any], ASKED] = Field(
        default_factory=dict, description="Parameters it must have, matched as a subset"
    )
    status: Status | None = Field(default=None, description=STATUS)
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
        check_bounds(self.min_count, self.max_count)
        if self.before is not None and self.least == 0:
            raise ValueError("`before` needs an action that must happen; set `min_count` to 1 or more, or leave it out")
        if self.before is not None and plain_name(self.before) == plain_name(self.action):
            raise ValueError(f"`before` names the action itself ({self.before}); an action cannot precede itself")
        return self

    @property
    def least(self) -> int:
        return least_of(self.min_count, self.max_count)

    def opposite(self) -> tuple[str, dict[str, Any]]:
        if self.before is not None:
            raise ValueError("`before` has no opposite; use a `sequence`")
        bounds = opposite_bounds(self.least, self.max_count)
        return "trajectory_contains_action", {**self.model_dump(exclude_unset=True, exclude=COUNTS), **bounds}

    @property
    def counting(self) -> frozenset[ActionStatus]:
        return statuses(self.status, forbids=self.least == 0)


class TrajectoryContainsAction:
    type: ClassVar[str] = "trajectory_contains_action"
    params: ClassVar[type[EvaluationParams]] = TrajectoryContainsActionParams
    reads: ClassVar[frozenset[Visible]] = frozenset({"actions"})

    def names_deeds(self, params: TrajectoryContainsActionParams) -> Sequence[NamedDeed]:
        before = [] if params.before is None else [NamedDeed(action=params.before)]
        return [NamedDeed(action=params.action, required=params.least > 0), *before]

    async def evaluate(
        self, params: TrajectoryContainsActionParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        deeds = DeedList(result, context)
        named = [deeds.all[number] for number in deeds.called(params.action, forbids=params.least == 0)]
        found = [
            deed for deed in named if fits(deed, params.params, params.counting) and is_by(params.agent, deed.agent)
        ]
        timely = [
            deed for deed in found if params.within_ms is None or since_start_ms(deed, result) <= params.within_ms
        ]
        often = how_often(params.least, params.max_count)
        within = "" if params.within_ms is None else f" within {params.within_ms:g} ms"
        before = "" if params.before is None else f" before {params.before}"
        evidence = Evidence(
            expected=f"{params.action} {often}{_conditions(params)}{within}{before}",
            found=f"{len(timely)} of {counted(len(deeds.all), 'action')} matched",
            where=_where(found, deeds, result, context) if found else f"this {context.span}'s trajectory",
            excerpt=_listed(deeds.all),
        )
        figures: dict[str, Any] = {"count": len(timely), "actions": len(deeds.all)}
        if found:
            figures["first_ms"] = since_start_ms(found[0], result)
        summary = _action_summary(params, named, found, len(timely))
        seen = f"the {context.span}'s actions: {_listed(deeds.all)}"
        message = f"{summary}; {seen}"
        unclear = deeds.ambiguous(params.action) if params.least else None
        if unclear:
            return errored(f"{unclear}; {seen}", evidence=evidence, figures=figures)
        doubt = _doubt(params, found, len(timely), result)
        doubt = doubt or _unsigned(params, named, len(timely)) or _unseen(params, deeds, named, len(timely))
        if doubt:
            return inconclusive(f"{message}; {doubt}", evidence=evidence, figures=figures | away_figures(result))
        unoffered = None if timely else deeds.unoffered([params.action])
        if not in_bounds(len(timely), params.least, params.max_count):
            why = "" if unoffered is None else f"; {unoffered}"
            message = f"{summary}; expected {how_often(params.least, params.max_count)}{why}; {seen}"
            ground = "presence" if len(timely) > params.least else None
            return failed(message, evidence=evidence, figures=figures, rests_on=ground)
        if params.before is not None and (early := _comes_before(params.before, found[0], deeds)):
            message = f"{params.action} came after {params.before}: {_where([early, found[0]], deeds, result, context)}"
            return failed(message, evidence=evidence, figures=figures, rests_on="presence")
        doubt = None
        if not timely:
            doubt = deeds.unknown_agents([params.agent]) or unoffered
            doubt = doubt or deeds.respelled(params.action, params.params, params.counting)
        if params.before is not None:
            doubt = doubt or deeds.unoffered([params.before])
        if doubt:
            return inconclusive(f"{message}; but {doubt}", evidence=evidence, figures=figures)
        return passed(message, evidence=evidence, figures=figures, rests_on=None if timely else "absence")


def _unsigned(params: TrajectoryContainsActionParams, named: list[Deed], count: int) -> str | None:
    """Why this cannot be decided: whose actions these are is not known, and more of them could change the verdict."""
    if params.agent is None or is_settled(count, params.least, params.max_count):
        return None
    unsigned = [deed for deed in named if deed.agent is None and fits(deed, params.params, params.counting)]
    if not unsigned:
        return None
    return f"it is unknown which agent did this {times(len(unsigned))}: neither the agent nor its trace says so"


def _unseen(params: TrajectoryContainsActionParams, deeds: DeedList, named: list[Deed], count: int) -> str | None:
    """Why this cannot be decided: not enough is seen of such an action."""
    alike = [deed for deed in named if params.params and deed.status in params.counting]
    doubt = None if exceeds(count, params.max_count) else deeds.unseen_arguments(alike)
    if doubt is None and not is_settled(count, params.least, params.max_count):
        doubt = deeds.namesake(params.action, params.params, params.counting)
        doubt = doubt or unknown_outcome(named, params.params, params.status)
    return doubt or (deeds.unoffered([params.action]) if not count and deeds.own_tools_unseen else None)


def _doubt(
    params: TrajectoryContainsActionParams, found: list[Deed], timely: int, result: ExecutionResult
) -> str | None:
    """Why this cannot be decided: without the harness's own time the verdict would be different."""
    if params.within_ms is None:
        return None
    own = [
        since_start_ms(deed, result) - harness_ms(result, result.started_at_ms, deed.at_ms) <= params.within_ms
        for deed in found
    ]
    least, most = params.least, params.max_count
    if in_bounds(sum(own), least, most) == in_bounds(timely, least, most):
        return None
    return "some of that time may have been queueing in Steadyhand, retries of the model call or lag"


def _comes_before(other: str, first: Deed, deeds: DeedList) -> Deed | None:
    """A deed `other`, done or only tried, that comes before the deed `first`."""
    earlier = (deeds.all[number] for number in deeds.called(other, forbids=True))
    return next((deed for deed in earlier if _number(deed, deeds) < _number(first, deeds)), None)


def _number(deed: Deed, deeds: DeedList) -> int:
    return next(number for number, each in enumerate(deeds.all, start=1) if each is deed)


def _action_summary(params: TrajectoryContainsActionParams, named: list[Deed], found: list[Deed], timely: int) -> str:
    """How often it happened as asked; if it never did, how the nearest one differed."""
    if not named:
        return f"{params.action} never happened"
    if not found:
        nearest = fewest(
            [
                *deed_differences(deed, params.params, params.counting),
                *([] if is_by(params.agent, deed.agent) else [f"it was done by {deed.agent or 'an unknown agent'}"]),
            ]
            for deed in named
        )
        how = _conditions(params) or " carried out"
        return f"{params.action} {_verb(named)} {times(len(named))}, but not{how}: {nearest}"
    summary = f"{params.action} {_verb(found)} {times(len(found))}{_conditions(params)}"
    if timely == len(found):
        return summary
    late = f", {len(found) - timely} of them later than" if timely else ", but later than"
    return f"{summary}{late} {params.within_ms:g} ms"


def _verb(deeds: Iterable[Deed]) -> str:
    return "happened" if any(deed.status in HAPPENED for deed in deeds) else "was tried"


def _conditions(params: TrajectoryContainsActionParams) -> str:
    asked = [f"params {excerpt(repr(params.params))}"] if params.params else []
    by = "" if params.agent is None else f" by {params.agent}"
    return by + with_conditions(asked, params.status)


def _where(found: list[Deed], deeds: DeedList, result: ExecutionResult, context: EvaluationContext) -> str:
    listed = [f"{_number(deed, deeds)} ({since_start_ms(deed, result):g} ms)" for deed in found[:20]]
    return f"action{'' if len(listed) == 1 else 's'} {', '.join(listed)} of this {context.span}"


def _listed(deeds: Iterable[Deed]) -> str:
    tally = Counter(f"{deed.name} ({deed.status})" for deed in deeds)
    return excerpt(", ".join(f"{name} x{count}" if count > 1 else name for name, count in tally.items())) or "none"
