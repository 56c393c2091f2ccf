"""`sequence`: rules about the order and timing of a step's actions."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Many
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field, model_validator

from steadyhand.builtin.evaluators.action_match import (
    EVERY,
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
from steadyhand.builtin.evaluators.text import PositiveMilliseconds, excerpt
from steadyhand.builtin.evaluators.timing import away_figures, earliest_ms, harness_ms
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.deed import Deed
from steadyhand.records.deed_name import NamedDeed, plain_name
from steadyhand.records.evaluation import EvaluationResult, Evidence, errored, failed, inconclusive, passed
from steadyhand.records.event import ActionStatus, Visible
from steadyhand.records.result import ExecutionResult
from steadyhand.spec.quoting import ASKED

_SUCCEEDED: frozenset[ActionStatus] = frozenset(("success",))


class ActionPattern(EvaluationParams):
    """An action by its name, a subset of its parameters, its status and its agent. A file may give the name alone."""

    action: ActionName = Field(
        description="Name of the action or tool, or `service.method`; case and separators do not matter"
    )
    params: Annotated[dict[str, Any], ASKED] = Field(
        default_factory=dict, description="Parameters it must have, matched as a subset"
    )
    status: Status | None = Field(default=None, description=STATUS)
    agent: AgentName | None = Field(
        default=None, description="Agent that must have taken the action, if there are several"
    )

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
    def required(self) -> list[ActionPattern]:
        """The actions that it asks for."""
        first = [] if self.before is None else self.before[:1]
        until = [] if self.never_until is None else [self.never_until.until]
        return [*(each for each in (self.always, self.within) if each is not None), *first, *until]

    @property
    def others(self) -> list[ActionPattern]:
        """The actions that it forbids, and those that others must follow: without them, it holds by their absence."""
        forbidden = [each for each in (self.never, self.never_until) if each is not None]
        after = [each.after for each in (self.always, self.within, self.never_until) if each is not None]
        then = [] if self.before is None else self.before[1:]
        return [*forbidden, *then, *(each for each in after if each is not None)]

    def __str__(self) -> str:
        return self.model_dump_json(exclude_defaults=True)


class SequenceParams(EvaluationParams):
    not_negated: ClassVar[str] = "each rule has its own opposite, such as `never` and `always`"

    rules: list[SequenceRule] = Field(min_length=1, description="Rules about the order of actions; all must hold")


class _Finding(NamedTuple):
    kind: Literal["broken", "unclear", "undecided"]
    text: str


class Sequence:
    type: ClassVar[str] = "sequence"
    params: ClassVar[type[EvaluationParams]] = SequenceParams
    reads: ClassVar[frozenset[Visible]] = frozenset({"actions"})

    def names_deeds(self, params: SequenceParams) -> Many[NamedDeed]:
        return [
            NamedDeed(action=pattern.action, required=required)
            for rule in params.rules
            for required, patterns in ((True, rule.required), (False, rule.others))
            for pattern in patterns
        ]

    async def evaluate(
        self, params: SequenceParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        steps = _Steps(result, context)
        rules = {f"rule {number}": rule for number, rule in enumerate(params.rules, start=1)}
        findings = {name: steps.decide(rule) for name, rule in rules.items()}
        broken, unclear, undecided = (
            [f"{name}: {each.text}" for name, found in findings.items() for each in found if each.kind == kind]
            for kind in ("broken", "unclear", "undecided")
        )
        reported = broken or unclear or undecided
        asked = [name for name, found in findings.items() if found] or list(rules)
        evidence = Evidence(
            expected="\n".join(f"{name}: {rules[name]}" for name in asked[:10]),
            found="\n".join(reported[:10]) or ("the rule holds" if len(params.rules) == 1 else "all rules hold"),
            where=f"this {context.span}'s trajectory",
            excerpt=steps.shown(),
        )
        figures = {"rules": len(params.rules), "broken": len(broken), "actions": len(steps.deeds)}
        if reported:
            more = f" (and {len(reported) - 1} more)" if len(reported) > 1 else ""
            if unclear and not broken:
                return errored(reported[0] + more, evidence=evidence, figures=figures)
            figures |= {} if broken else away_figures(result)
            return (failed if broken else inconclusive)(reported[0] + more, evidence=evidence, figures=figures)
        message = "the rule holds" if len(params.rules) == 1 else f"all {len(params.rules)} rules hold"
        ground = "absence" if any(steps.holds_by_absence(rule) for rule in params.rules) else None
        return passed(message, evidence=evidence, figures=figures, rests_on=ground)


class _Steps:
    """The deeds of a step or turn, and what each kind of rule finds wrong with them."""

    def __init__(self, result: ExecutionResult, context: EvaluationContext) -> None:
        self._span: str = context.span
        self._list: DeedList = DeedList(result, context)
        self.deeds: list[Deed] = self._list.all
        self._result: ExecutionResult = result

    def decide(self, rule: SequenceRule) -> list[_Finding]:
        """What is wrong with the rule, or why that cannot be told: an action is not signed, or would not be seen."""
        found = self.check(rule)
        if rule.never is not None and found:
            return found
        unclear = [text for each in rule.required if (text := self._list.ambiguous(each.action))]
        if unclear:
            return [_Finding("unclear", text) for text in unclear]
        doubt = self._doubt(rule, broken=bool(found)) or (None if found else self._absence(rule))
        if doubt:
            return [_Finding("undecided", doubt)]
        unoffered = self._list.unoffered(each.action for each in rule.required if not self._named(each, forbids=False))
        return [_Finding(each.kind, f"{each.text}; {unoffered}") for each in found] if unoffered else found

    def _doubt(self, rule: SequenceRule, *, broken: bool) -> str | None:
        """Why neither the rule nor its breach is certain."""
        counted = [
            (pattern, self.deeds[number])
            for forbids, patterns in ((False, rule.required), (True, rule.others))
            for pattern in patterns
            for number in self._named(pattern, forbids=True)
            if self.deeds[number].status in _counting(pattern, forbids=forbids)
        ]
        unsigned = [(pattern, deed) for pattern, deed in counted if pattern.agent is not None and deed.agent is None]
        if any(fits(deed, pattern.params, EVERY) for pattern, deed in unsigned):
            return "it is unknown which agent took some of the actions: neither the agent nor its trace says so"
        if unseen := self._list.unseen_arguments(deed for pattern, deed in counted if pattern.params):
            return unseen
        # Another deed could only make good what is missing, or break what was kept.
        for each in rule.required if broken else rule.others:
            alike = [self.deeds[number] for number in self._named(each, forbids=not broken)]
            doubt = self._list.namesake(each.action, each.params, _counting(each, forbids=not broken))
            if doubt := doubt or unknown_outcome(alike, each.params, each.status):
                return doubt
        if not self._list.own_tools_unseen:
            return None
        return self._list.unoffered(each.action for each in (*rule.required, *rule.others) if not self._all(each))

    def _absence(self, rule: SequenceRule) -> str | None:
        """Why a rule that nothing broke proves nothing: what did not happen may have another name or spelling."""
        silent = [pattern for pattern in (*rule.required, *rule.others) if not self._all(pattern, forbids=True)]
        doubt = self._list.unknown_agents([pattern.agent for pattern in silent])
        doubt = doubt or self._list.unoffered(each.action for each in rule.others if not self._all(each, forbids=True))
        for each in silent:
            doubt = doubt or self._list.respelled(each.action, each.params, _counting(each, forbids=True))
        return doubt

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
            return after is not None and not self._triggers(after)
        return rule.before is None or not self._all(rule.before[1], forbids=True)

    def shown(self) -> str:
        return excerpt(", ".join(self._at(number) for number in range(len(self.deeds)))) or "none"

    def _always(self, rule: Always) -> list[_Finding]:
        found = self._all(rule)
        if rule.after is None:
            return [] if found else [_Finding("broken", f"{rule} never happened{self._instead(rule)}")]
        last = max(found, default=-1)
        return [
            _Finding("broken", f"no {rule} after {self._at(number)}{self._instead(rule)}")
            for number in self._triggers(rule.after)
            if number >= last
        ]

    def _never(self, action: ActionPattern) -> list[_Finding]:
        return [
            _Finding("broken", f"{self._at(number)} must never happen") for number in self._all(action, forbids=True)
        ]

    def _before(self, first: ActionPattern, then: ActionPattern) -> list[_Finding]:
        earliest = min(self._all(first), default=len(self.deeds))
        return [
            _Finding("broken", f"{self._at(number)} happened with no {first} before it{self._instead(first)}")
            for number in self._all(then, forbids=True)
            if number <= earliest
        ]

    def _within(self, rule: Within) -> list[_Finding]:
        starts = [-1] if rule.after is None else self._triggers(rule.after)
        found = self._all(rule)
        return [finding for start in starts if (finding := self._late(rule, start, found)) is not None]

    def _late(self, rule: Within, start: int, found: list[int]) -> _Finding | None:
        """What is wrong with the first of `found` after the action number `start`, or after the beginning."""
        begun_ms = self._result.started_at_ms if start < 0 else self.deeds[start].at_ms
        what = f"the {self._span} began" if start < 0 else self._at(start)
        next_ = next((number for number in found if number > start), None)
        if next_ is None:
            instead = self._instead(rule)
            return _Finding("broken", f"no {rule} after {what}{instead}; expected one within {rule.ms:g} ms")
        at_ms = self.deeds[next_].at_ms
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
        """An `until` counts if it succeeded; where its outcome is unknown, so is whether the rule was broken."""
        found = self._barred(rule, statuses(rule.until.status, forbids=False) if rule.until.status else _SUCCEEDED)
        if not found or rule.until.status:
            return found
        certain = self._barred(rule, frozenset(("success", "unknown")))
        if len(certain) == len(found):
            return found
        return certain or [_Finding("undecided", f"{each.text}; its outcome is unknown") for each in found]

    def _barred(self, rule: NeverUntil, counting: frozenset[ActionStatus]) -> list[_Finding]:
        barred: str | None = f"the {self._span} began" if rule.after is None else None
        forbidden, until = self._all(rule, forbids=True), self._matching(rule.until, counting, forbids=False)
        after = [] if rule.after is None else self._all(rule.after, forbids=True)
        findings: list[_Finding] = []
        for number in range(len(self.deeds)):
            if barred is not None and number in forbidden:
                instead = self._instead(rule.until, counting)
                text = f"{self._at(number)} came after {barred} with no {rule.until} in between{instead}"
                findings.append(_Finding("broken", text))
            if number in until:
                barred = None
            if number in after:
                barred = self._at(number)
        return findings

    def _named(self, action: ActionPattern, *, forbids: bool) -> Iterable[int]:
        return self._list.called(action.action, forbids=forbids)

    def _all(self, action: ActionPattern, *, forbids: bool = False) -> list[int]:
        return self._matching(action, _counting(action, forbids=forbids), forbids=forbids)

    def _triggers(self, action: ActionPattern) -> list[int]:
        """What happened under any meaning of the name: something must follow each of these."""
        return self._matching(action, _counting(action, forbids=False), forbids=True)

    def _matching(self, action: ActionPattern, counting: frozenset[ActionStatus], *, forbids: bool) -> list[int]:
        return [
            number
            for number in self._named(action, forbids=forbids)
            if is_by(action.agent, self.deeds[number].agent) and fits(self.deeds[number], action.params, counting)
        ]

    def _instead(self, action: ActionPattern, counting: frozenset[ActionStatus] | None = None) -> str:
        """If no action matches: the nearest one of that name, and how it differed."""
        counting = _counting(action, forbids=False) if counting is None else counting
        named = list(self._named(action, forbids=False))
        if not named or self._matching(action, counting, forbids=False):
            return ""
        different = {number: self._differences(action, self.deeds[number], counting) for number in named}
        number = min(named, key=lambda each: len(different[each]))
        return f" (in {self._at(number)}, {', and '.join(different[number])})"

    def _differences(self, action: ActionPattern, deed: Deed, counting: frozenset[ActionStatus]) -> list[str]:
        different = deed_differences(deed, action.params, counting)
        return (
            different if is_by(action.agent, deed.agent) else [*different, f"its agent was {deed.agent or 'unknown'}"]
        )

    def _at(self, number: int) -> str:
        deed = self.deeds[number]
        status = "" if deed.status in ("success", "unknown") else f", {deed.status}"
        return f"{deed.name} (action {number + 1}, {since_start_ms(deed, self._result):g} ms{status})"


def _counting(action: ActionPattern, *, forbids: bool) -> frozenset[ActionStatus]:
    return statuses(action.status, forbids=forbids)
