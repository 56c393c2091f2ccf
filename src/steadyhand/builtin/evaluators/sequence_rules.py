"""The rules of a `sequence` as they stand in a file."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from steadyhand.builtin.evaluators.actions import ActionName, matches, plain_name
from steadyhand.builtin.evaluators.parameters import PositiveMilliseconds
from steadyhand.ports.evaluator import EvaluationParams
from steadyhand.records.event import TrajectoryStep

Status = Literal["success", "error", "any"]


class ActionPattern(EvaluationParams):
    """An action by its name, a part of its parameters and how it ended. In a file the name alone will do."""

    action: ActionName
    params: dict[str, Any] = Field(default_factory=dict)
    status: Status | None = None

    def found_in(self, step: TrajectoryStep, default: Status = "any") -> bool:
        return matches(step, self.action, self.params, self.status or default)

    def same(self, other: ActionPattern) -> bool:
        alike = plain_name(self.action) == plain_name(other.action)
        return alike and (self.params, self.status) == (other.params, other.status)

    def __str__(self) -> str:
        params = f" {self.params}" if self.params else ""
        return f"{self.action}{params}" + (f" ({self.status})" if self.status else "")


def _named(value: Any) -> Any:
    return {"action": value} if isinstance(value, str) else value


Action = Annotated[ActionPattern, BeforeValidator(_named, json_schema_input_type=str | ActionPattern)]


class Always(ActionPattern):
    """It happens; with `after`, at some time after each of those."""

    after: Action | None = None


class Within(ActionPattern):
    """It begins at most `ms` after each `after` began, or after the step did."""

    ms: PositiveMilliseconds
    after: Action | None = None


class NeverUntil(ActionPattern):
    """It does not happen between an `after`, or the beginning of the step, and the next `until`."""

    until: Action
    after: Action | None = None

    @model_validator(mode="after")
    def _tellable(self) -> Self:
        if self.after is not None and self.until.same(self.after):
            raise ValueError(f"`after` and `until` are both {self.until}; they must differ")
        return self


class Rule(EvaluationParams):
    """One of these."""

    always: Annotated[Always, BeforeValidator(_named, json_schema_input_type=str | Always)] | None = None
    never: Action | None = None
    before: Annotated[list[Action], Field(min_length=2, max_length=2)] | None = None
    within: Within | None = None
    never_until: NeverUntil | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            found = ", ".join(given) or "none"
            raise ValueError(
                f"a rule is one of always, never, before, within and never_until; found {found}"
                + ("; make each a rule of its own" if given else "")
            )
        if self.before is not None and self.before[0].same(self.before[1]):
            raise ValueError(f"`before` names {self.before[0]} twice; no action comes before itself")
        return self
