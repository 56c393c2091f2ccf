"""`sequence`: rules about the order and timing of a step's actions."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field, model_validator

from steadyhand.builtin.evaluators.action_match import (
    ActionName,
    AgentName,
    Status,
    action_differences,
    actions_of,
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
from steadyhand.builtin.evaluators.text import PositiveMilliseconds, excerpt
from steadyhand.builtin.evaluators.timing import away_figures, earliest_ms, harness_ms
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.evaluation import EvaluationResult, Evidence, failed, inconclusive, passed
from steadyhand.records.event import TrajectoryStep, Visible
from steadyhand.records.result import ExecutionResult


class ActionPattern(EvaluationParams):
    """An action by its name, a subset of its parameters, its status and its agent. A file may give the name alone."""

    action: ActionName = Field(description="Name of the action; case, `_` and `-` do not matter")
    params: dict[str, Any] = Field(default_factory=dict, description="Parameters it must have, matched as a subset")
    status: Status | None = Field(default=None, description="How the action must have ended")
    agent: AgentName | None = Field(
        default=None, description="Agent that must have taken the action, if there are several"
    )

    def found_in(self, step: TrajectoryStep, default: Status = "any") -> bool:
        return is_by(self.agent, step.agent) and matches(step, self.action, self.params, self.status or default)

    def unsigned_in(self, step: TrajectoryStep) -> bool:
        """Whether only the name of its agent is missing."""
        alike = matches(step, self.action, self.params, self.status or "any")
        return self.agent is not None and step.agent is None and alike

    def same(self, other: ActionPattern) -> bool:
        alike = plain_name(self.action) == plain_name(other.action)
        return alike and (self.params, self.status, self.agent) == (other.params, other.status, other.agent)

    def __str__(self) -> str:
        params = f" {self.params}" if self.params else ""
        by = f" by {self.agent}" if self.agent else ""
        return f"{self.action}{params}{by}" + (f" ({self.status})" if self.status else "")


def _named(value: Any) -> Any:
    return {"action": value} if isinstance(value, str) else value


ActionOrName = Annotated[ActionPattern, BeforeValidator(_named, json_schema_input_type=str | ActionPattern)]


class Always(ActionPattern):
    """It happens; with `after`, at some time after each of those."""

    after: ActionOrName | None = Field(default=None, description="Action that it must follow")


class Within(ActionPattern):
    """It begins at most `ms` after each `after` began, or after the step did."""

    ms: PositiveMilliseconds = Field(description="Time limit, in milliseconds")
    after: ActionOrName | None = Field(
        default=None, description="Action that starts the clock. Default: the start of the step"
    )


class NeverUntil(ActionPattern):
    """It does not happen between an `after`, or the beginning of the step, and the next `until`."""

    until: ActionOrName = Field(description="Action that must come first")
    after: ActionOrName | None = Field(
        default=None, description="Action after which it is forbidden. Default: the start of the step"
    )

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if self.after is not None and self.until.same(self.after):
            raise ValueError(f"`after` and `until` are both {self.until}; they must differ")
        return self


class SequenceRule(EvaluationParams):
    """Exactly one of these."""

    always: Annotated[Always, BeforeValidator(_named, json_schema_input_type=str | Always)] | None = Field(
        default=None, description="This action must happen"
    )
    never: ActionOrName | None = Field(default=None, description="This action must not happen")
    before: Annotated[list[ActionOrName], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="Two actions: the first must come before the second"
    )
    within: Within | None = Field(default=None, description="This action must happen within a time")
    never_until: NeverUntil | None = Field(default=None, description="This action must not happen until another has")

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            found = ", ".join(given) or "none"
            raise ValueError(
                f"a rule has exactly one of always, never, before, within and never_until; found {found}"
                + ("; write one rule for each" if given else "")
            )
        if self.before is not None and self.before[0].same(self.before[1]):
            raise ValueError(f"`before` names {self.before[0]} twice; an action cannot precede itself")
        return self

    @property
    def patterns(self) -> list[ActionPattern]:
        """All actions that it names."""
        main = [each for each in (self.always, self.never, self.within, self.never_until) if each is not None]
        more = [each.after for each in (self.always, self.within, self.never_until) if each is not None]
        until = [] if self.never_until is None else [self.never_until.until]
        return [*main, *(self.before or ()), *(each for each in more if each is not None), *until]

    def __str__(self) -> str:
        return self.model_dump_json(exclude_defaults=True)


class SequenceParams(EvaluationParams):
    rules: list[SequenceRule] = Field(min_length=1, description="Rules about the order of actions; all must hold")


class _Finding(NamedTuple):
    kind: Literal["broken", "undecided"]
    text: str


class Sequence:
    type: ClassVar[str] = "sequence"
    params: ClassVar[type[EvaluationParams]] = SequenceParams
    reads: ClassVar[frozenset[Visible]] = frozenset({"actions"})

    async def evaluate(
        self, params: SequenceParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        steps = _Steps(result, context.span)
        rules = {f"rule {number}": rule for number, rule in enumerate(params.rules, start=1)}
        findings = {name: await steps.decide(rule, context) for name, rule in rules.items()}
        broken, undecided = (
            [f"{name}: {each.text}" for name, found in findings.items() for each in found if each.kind == kind]
            for kind in ("broken", "undecided")
        )
        reported = broken or undecided
        asked = [name for name, found in findings.items() if found] or list(rules)
        evidence = Evidence(
            expected="\n".join(f"{name}: {rules[name]}" for name in asked[:10]),
            found="\n".join(reported[:10]) or ("the rule holds" if len(params.rules) == 1 else "all rules hold"),
            where=f"this {context.span}'s trajectory",
            excerpt=steps.shown(),
        )
        figures = {"rules": len(params.rules), "broken": len(broken), "actions": len(steps.actions)}
        if reported:
            more = f" (and {len(reported) - 1} more)" if len(reported) > 1 else ""
            figures |= {} if broken else away_figures(result)
            return (failed if broken else inconclusive)(reported[0] + more, evidence=evidence, figures=figures)
        message = "the rule holds" if len(params.rules) == 1 else f"all {len(params.rules)} rules hold"
        ground = "absence" if any(steps.holds_by_absence(rule) for rule in params.rules) else None
        return passed(message, evidence=evidence, figures=figures, rests_on=ground)


class _Steps:
    """The actions of a step or turn, and what each kind of rule finds wrong with them."""

    def __init__(self, result: ExecutionResult, span: str) -> None:
        self._span: str = span
        self.actions: list[TrajectoryStep] = actions_of(result)
        self._result: ExecutionResult = result

    async def decide(self, rule: SequenceRule, context: EvaluationContext) -> list[_Finding]:
        """What is wrong with the rule, or why that cannot be told: an action is not signed, or would not be seen."""
        found, patterns = self.check(rule), rule.patterns
        if rule.never is not None and found:
            return found
        if any(pattern.unsigned_in(step) for pattern in patterns for step in self.actions):
            text = "it is unknown which agent took some of the actions: neither the agent nor its trace says so"
            return [_Finding("undecided", text)]
        named = [
            step
            for pattern in patterns
            for step in self.actions
            if pattern.params and matches(step, pattern.action, {}, "any")
        ]
        if unseen := unseen_arguments(named, context):
            return [_Finding("undecided", unseen)]
        silent = [pattern for pattern in patterns if not self._all(pattern)]
        if unseen := await unserved([pattern.action for pattern in silent], self.actions, context):
            return [_Finding("undecided", unseen)]
        names = [pattern.action for pattern in silent]
        doubt = unknown_agents([pattern.agent for pattern in silent], self._result) or namesake(names, self.actions)
        for pattern in silent:
            doubt = doubt or respelled(pattern.action, pattern.params, pattern.status or "any", self.actions)
        if not found and doubt:
            return [_Finding("undecided", doubt)]
        return found

    def check(self, rule: SequenceRule) -> list[_Finding]:
        if rule.always is not None:
            return self._always(rule.always)
        if rule.never is not None:
            return self._never(rule.never)
        if rule.before is not None:
            return self._before(*rule.before)
        if rule.within is not None:
            return self._within(rule.within)
        assert rule.never_until is not None
        return self._never_until(rule.never_until)

    def holds_by_absence(self, rule: SequenceRule) -> bool:
        """Whether the rule, if it holds, holds because something did not happen."""
        if rule.always is not None or rule.within is not None:
            after = rule.always.after if rule.always is not None else rule.within.after if rule.within else None
            return after is not None and not self._all(after)
        return rule.before is None or not self._all(rule.before[1])

    def shown(self) -> str:
        return excerpt(", ".join(self._at(number) for number in range(len(self.actions)))) or "none"

    def _always(self, rule: Always) -> list[_Finding]:
        found = self._all(rule)
        if rule.after is None:
            return [] if found else [_Finding("broken", f"{rule} never happened{self._instead(rule)}")]
        last = max(found, default=-1)
        return [
            _Finding("broken", f"no {rule} after {self._at(number)}{self._instead(rule)}")
            for number in self._all(rule.after)
            if number >= last
        ]

    def _never(self, action: ActionPattern) -> list[_Finding]:
        return [_Finding("broken", f"{self._at(number)} must never happen") for number in self._all(action)]

    def _before(self, first: ActionPattern, then: ActionPattern) -> list[_Finding]:
        earliest = min(self._all(first), default=len(self.actions))
        return [
            _Finding("broken", f"{self._at(number)} happened with no {first} before it{self._instead(first)}")
            for number in self._all(then)
            if number <= earliest
        ]

    def _within(self, rule: Within) -> list[_Finding]:
        starts = [-1] if rule.after is None else self._all(rule.after)
        found = self._all(rule)
        return [finding for start in starts if (finding := self._late(rule, start, found)) is not None]

    def _late(self, rule: Within, start: int, found: list[int]) -> _Finding | None:
        """What is wrong with the first of `found` after the action number `start`, or after the beginning."""
        begun_ms = self._result.started_at_ms if start < 0 else self.actions[start].at_ms
        what = f"the {self._span} began" if start < 0 else self._at(start)
        next_ = next((number for number in found if number > start), None)
        if next_ is None:
            instead = self._instead(rule)
            return _Finding("broken", f"no {rule} after {what}{instead}; expected one within {rule.ms:g} ms")
        at_ms = self.actions[next_].at_ms
        took_ms = round(at_ms - begun_ms, 3)
        if took_ms <= rule.ms:
            longest_ms = at_ms - (begun_ms if start < 0 else earliest_ms(self._result, begun_ms))
            if longest_ms <= rule.ms:
                return None
            text = f"{self._at(next_)} came up to {longest_ms:.0f} ms after {what}; expected it within {rule.ms:g} ms"
            return _Finding("undecided", f"{text}; Steadyhand was not running in between")
        text = f"{self._at(next_)} came {took_ms:g} ms after {what}; expected it within {rule.ms:g} ms"
        ours_ms = harness_ms(self._result, begun_ms, at_ms)
        if took_ms - ours_ms <= rule.ms:
            lag = ", or lag" if self._result.away else ""
            ours = f"up to {ours_ms:g} ms of that was queueing in Steadyhand and retries{lag}"
            return _Finding("undecided", f"{text}; {ours}")
        return _Finding("broken", text)

    def _never_until(self, rule: NeverUntil) -> list[_Finding]:
        barred: str | None = f"the {self._span} began" if rule.after is None else None
        findings: list[_Finding] = []
        for number, step in enumerate(self.actions):
            if barred is not None and rule.found_in(step):
                instead = self._instead(rule.until, "success")
                text = f"{self._at(number)} came after {barred} with no {rule.until} in between{instead}"
                findings.append(_Finding("broken", text))
            if rule.until.found_in(step, "success"):
                barred = None
            if rule.after is not None and rule.after.found_in(step):
                barred = self._at(number)
        return findings

    def _all(self, action: ActionPattern) -> list[int]:
        return [number for number, step in enumerate(self.actions) if action.found_in(step)]

    def _instead(self, action: ActionPattern, status: Status = "any") -> str:
        """If no action matches: the nearest one of that name, and how it differed."""
        named = [number for number, step in enumerate(self.actions) if matches(step, action.action, {}, "any")]
        if not named or any(action.found_in(self.actions[number], status) for number in named):
            return ""
        different = {number: self._differences(action, self.actions[number], status) for number in named}
        number = min(named, key=lambda each: len(different[each]))
        return f" (in {self._at(number)}, {', and '.join(different[number])})"

    def _differences(self, action: ActionPattern, step: TrajectoryStep, status: Status) -> list[str]:
        different = action_differences(step, action.params, action.status or status)
        return (
            different if is_by(action.agent, step.agent) else [*different, f"its agent was {step.agent or 'unknown'}"]
        )

    def _at(self, number: int) -> str:
        step = self.actions[number]
        status = ", error" if step.status == "error" else ""
        return f"{step.name} (action {number + 1}, {since_start_ms(step, self._result):g} ms{status})"
