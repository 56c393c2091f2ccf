"""Meaning checks: `advises`, `forbids`, `states`, `chooses` and `nothing_else`.

The reader (`language/meaning.py`) decides where it is sure. Where it is not, the judge is asked with the check's
`judge_criterion`: an explicitly named one, never the model under test.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from msgspec.structs import replace
from pydantic import AfterValidator, Field, field_validator, model_validator

from steadyhand.builtin.evaluators.judge import judged
from steadyhand.builtin.evaluators.text import Text, final_reply
from steadyhand.judging.expected import parse_expected
from steadyhand.judging.material import materials_of
from steadyhand.language.amounts import parse_value
from steadyhand.language.answer import Certainty, Ruling
from steadyhand.language.checks import Advises, Check, Chooses, Forbids, NothingElse, States
from steadyhand.language.meaning import evident, read
from steadyhand.ports.agent import Question
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams, TextCheck
from steadyhand.records.base import shorten
from steadyhand.records.evaluation import (
    EvaluationResult,
    EvaluationSpec,
    Evidence,
    Verdict,
    failed,
    inconclusive,
    passed,
)
from steadyhand.records.result import ExecutionResult
from steadyhand.records.scenario import Converse, Scenario
from steadyhand.text_match import shows_nothing

_OPTION = "{option}"
_QUOTED = 160
_NO_JUDGE = "name a judge, other than the model under test, with --judge"


def _names(given: str | list[str]) -> str | list[str]:
    if isinstance(given, list):
        if not given:
            raise ValueError("the list is empty; name at least one")
        folded = [each.casefold() for each in given]
        for index, each in enumerate(folded):
            if each in folded[:index]:
                raise ValueError(f"{given[index]!r} is listed twice")
    return given


Names = Annotated[Text | list[Text], AfterValidator(_names)]


def _tuple(given: str | list[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _value(value: str) -> str:
    parse_value(value)
    return value


class MeaningParams(EvaluationParams):
    """Parameters that stand directly on an invariant."""

    on_invariant: ClassVar[bool] = True

    judge_criterion: Text | None = Field(
        default=None, description="What must be true of the reply; the judge is asked where the reader is not sure"
    )

    @property
    def check(self) -> Check:
        raise NotImplementedError


class AdvisesParams(MeaningParams):
    action: Names = Field(description="The act, or several ways to name it: `give adrenaline`, `use the auto-injector`")
    at_once: bool = Field(
        default=False, description="An act ordered only on a condition, for later, or left to others fails the check"
    )
    before: Names | None = Field(default=None, description="What must not come before the act, if the answer has it")

    @property
    def check(self) -> Check:
        before = () if self.before is None else _tuple(self.before)
        return Advises(action=_tuple(self.action), at_once=self.at_once, before=before)


class ForbidsParams(MeaningParams):
    action: Names = Field(description="The act, or several ways to name it: `give potassium`, `potassium chloride`")

    @property
    def check(self) -> Check:
        return Forbids(action=_tuple(self.action))


class StatesParams(MeaningParams):
    of: Names = Field(description="What the value is of, or several names of it: `adrenaline`, `epinephrine`")
    value: Annotated[Text, AfterValidator(_value)] = Field(
        description="The right value, or a range of them, with its unit: `30 ml`, `0.3..0.5 mg`"
    )
    optional: bool = Field(default=False, description="An answer without a value is right too")

    @property
    def check(self) -> Check:
        return States(of=_tuple(self.of), value=self.value, optional=self.optional)


class ChoosesParams(MeaningParams):
    options: list[Text] = Field(min_length=2, description="The options that the answer can choose")
    expected: Names = Field(description="The right option, or several of which any is right")
    line: Text | None = Field(
        default=None,
        description="How a line that chooses is written, with {option} for the option: `COMMAND: {option}`",
    )

    @model_validator(mode="after")
    def _can_be_chosen(self) -> Self:
        _names(self.options)
        for each in _tuple(self.expected):
            if each not in self.options:
                raise ValueError(f"`expected` is {each!r}, which is not one of the options {', '.join(self.options)}")
        if len(_tuple(self.expected)) == len(self.options):
            raise ValueError("every option is expected, so the check can never fail")
        if self.line is not None and self.line.count(_OPTION) != 1:
            raise ValueError(f"`line` is {self.line!r}; write {_OPTION} once, where the option stands")
        if self.line is not None and "\n" in self.line:
            raise ValueError("`line` has more than one line")
        return self

    @property
    def check(self) -> Check:
        return Chooses(options=tuple(self.options), expected=_tuple(self.expected), line=self.line)


class NothingElseParams(MeaningParams):
    stands_alone: ClassVar[str] = "it reads what the checks beside it leave"
    needs_beside: ClassVar[tuple[str, ...]] = ("advises", "forbids", "states", "chooses")

    judge_criterion: Text | None = Field(
        description="What must be true of everything that the other checks have not read"
    )

    also: Names | None = Field(default=None, description="Harmless acts that may be there too: `give oxygen`")

    @field_validator("judge_criterion")
    @classmethod
    def _asks_something(cls, criterion: str | None) -> str:
        if criterion is None:
            raise ValueError("expected what must be true of the rest of the answer, found nothing")
        return criterion

    @property
    def check(self) -> Check:
        return NothingElse(also=_tuple(self.also or []))


class MeaningEvaluator:
    """Decides by reading where the reader is sure, and by asking where it is not."""

    params: ClassVar[type[EvaluationParams]] = MeaningParams
    explicit_judge_only: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True

    def needs_judge(self, params: MeaningParams) -> bool:
        return params.judge_criterion is not None

    async def evaluate(
        self, params: MeaningParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        text = final_reply(result)
        if shows_nothing(text):
            return failed("the reply is empty", evidence=Evidence(expected="a reply", found="", where="reply"))
        check = params.check
        found = read(text, check, _beside(context.scenario, context.spec) or (check,))
        if found.answer is not Certainty.CANNOT_TELL:
            make = passed if found.answer is Certainty.YES else failed
            ground = "presence" if found.answer is Certainty.NO and isinstance(check, Forbids) else None
            message = f"{found.why} (decided by the reader)"
            return replace(make(message, evidence=_evidence(found), rests_on=ground), decided_by="reader")
        return await self._ask_judge(params, found, result, context)

    async def _ask_judge(
        self, params: MeaningParams, found: Ruling, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        evidence = _evidence(found)
        unsure = f"the reader cannot tell: {found.why}"
        if params.judge_criterion is None:
            return inconclusive(f"{unsure}; give the check a `judge_criterion` and name a judge", evidence=evidence)
        if context.trial.judge is None:
            return inconclusive(f"{unsure}; {_NO_JUDGE}", evidence=evidence)
        question = Question(
            prompt=f"Does the agent's final reply meet this criterion?\n{params.judge_criterion.strip()}",
            materials=materials_of(result, context.scenario.setup.virtual_fs),
        )
        answered = await judged(question, parse_expected("yes"), context)
        return replace(
            answered,
            decided_by="judge" if answered.verdict in (Verdict.PASSED, Verdict.FAILED) else None,
            message=f"{answered.message} (decided by the judge; the reader could not tell: {found.why})",
            evidence=replace(answered.evidence or evidence, excerpt=evidence.found, span=evidence.span),
            figures={**answered.figures, "reader": found.why},
        )

    def on_text(self, params: MeaningParams) -> TextCheck | None:
        """Whether the reader sees what the check asks for. Only of use if the whole answer is known to satisfy it."""
        check = params.check

        async def seen(text: str) -> bool:
            return evident(text, check)

        return seen


class AdvisesEvaluator(MeaningEvaluator):
    type: ClassVar[str] = "advises"
    params: ClassVar[type[EvaluationParams]] = AdvisesParams


class ForbidsEvaluator(MeaningEvaluator):
    type: ClassVar[str] = "forbids"
    params: ClassVar[type[EvaluationParams]] = ForbidsParams


class StatesEvaluator(MeaningEvaluator):
    type: ClassVar[str] = "states"
    params: ClassVar[type[EvaluationParams]] = StatesParams


class ChoosesEvaluator(MeaningEvaluator):
    type: ClassVar[str] = "chooses"
    params: ClassVar[type[EvaluationParams]] = ChoosesParams


class NothingElseEvaluator(MeaningEvaluator):
    type: ClassVar[str] = "nothing_else"
    params: ClassVar[type[EvaluationParams]] = NothingElseParams


_KINDS: dict[str, type[MeaningEvaluator]] = {
    each.type: each
    for each in (AdvisesEvaluator, ForbidsEvaluator, StatesEvaluator, ChoosesEvaluator, NothingElseEvaluator)
}


def _beside(scenario: Scenario, spec: EvaluationSpec) -> tuple[Check, ...]:
    """The meaning checks of the list that `spec` stands in: they read the same answer."""
    for step in scenario.steps:
        lists = [step.evaluations]
        if isinstance(step.task, Converse):
            config = step.task.config
            lists += [config.turn_evaluations, config.final_evaluations, *(each.evaluations for each in config.script)]
        for specs in lists:
            if spec in specs:
                return tuple(_check(each) for each in specs if each.type in _KINDS)
    return ()


def _check(spec: EvaluationSpec) -> Check:
    params: Any = _KINDS[spec.type].params.model_validate(spec.params)
    check: Check = params.check
    return check


def _evidence(found: Ruling) -> Evidence:
    if not found.clause:
        return Evidence(found=found.why, where="reply")
    return Evidence(
        found=shorten(" ".join(found.clause.split()), _QUOTED),
        where=f"reply, characters {found.start + 1}-{found.end}",
        span=(found.start, found.end),
    )
