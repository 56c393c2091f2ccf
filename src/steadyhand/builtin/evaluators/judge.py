"""`llm_judge` and `judge`: a question to a judge about what the agent said and did. Also how other checks ask one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Self

from msgspec.structs import replace
from pydantic import Field, field_validator, model_validator

from steadyhand.judging.expected import AnswerComparison, ExpectedAnswer, check_answer_schema, compare, parse_expected
from steadyhand.judging.material import PARTS, Part, materials_of
from steadyhand.ports.agent import Judgement, Material, NoJudgement, Question
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams, Spoken
from steadyhand.records.base import shorten
from steadyhand.records.evaluation import EvaluationResult, Evidence, JudgeNote, failed, inconclusive, passed
from steadyhand.records.result import ExecutionResult
from steadyhand.spec.quoting import Written

SET_A_JUDGE = "name a judge with `--judge provider/model` or `judge` in steadyhand.toml"
NO_JUDGE = f"not judged: no judge is set; {SET_A_JUDGE}"


class LlmJudgeParams(EvaluationParams):
    not_negated: ClassVar[str] = "set `expected: no`"

    prompt: str = Field(min_length=1, description="Question to the judge")
    expected: str = Field(
        default="yes", description="The answer that passes: yes, no, or a confidence such as 0.8+, 0.3- or 0.2-0.9"
    )
    capabilities: list[str] = Field(
        default=[], min_length=1, description="Capabilities that the agent must have shown; a yes requires all of them"
    )
    json_schema: Annotated[dict[str, Any], Written("schema")] | None = Field(
        default=None, description="Schema of the judge's answer; it must allow a judgment"
    )
    looks_at: list[Part] = Field(default=list(PARTS), description="What the judge is shown")
    model_type: str | None = Field(
        default=None, description="The judge: provider/model, or an alias from the configuration"
    )
    temperature: float | None = Field(default=None, ge=0, le=2, description="Temperature of the judge")
    votes: int | None = Field(
        default=None, ge=1, description="Number of times the judge is asked; the majority decides"
    )

    @field_validator("prompt")
    @classmethod
    def _asks_something(cls, prompt: str) -> str:
        if not prompt.strip():
            raise ValueError("the prompt is blank; write the question for the judge")
        return prompt

    @field_validator("expected")
    @classmethod
    def _is_comparable(cls, expected: str) -> str:
        parse_expected(expected)
        return expected

    @field_validator("capabilities")
    @classmethod
    def _can_be_told_apart(cls, capabilities: list[str]) -> list[str]:
        plain = [capability.strip().casefold() for capability in capabilities]
        if "" in plain:
            raise ValueError("a capability is blank")
        for index, capability in enumerate(plain):
            if capability in plain[:index]:
                raise ValueError(f"the capability {capabilities[index]!r} is listed twice")
        return capabilities

    @model_validator(mode="after")
    def _can_be_answered(self) -> Self:
        expected = parse_expected(self.expected)
        if self.json_schema is not None:
            check_answer_schema(self.json_schema, expected, self.capabilities)
        elif expected.word is not None and expected.word[0] in ".0123456789" and _is_number(expected.word):
            raise ValueError(
                f"`expected` is the bare number {expected.text}; write `{expected.text}+` for at least that"
            )
        elif expected.word not in (None, "yes", "no"):
            raise ValueError(
                f"`expected` is {expected.text!r}, but the judge answers only 'yes' or 'no'; write one of those or a "
                "confidence such as `0.8+`, or give a `json_schema` whose `judgment` allows that word"
            )
        return self


class LlmJudgeEvaluator:
    type: ClassVar[str] = "llm_judge"
    params: ClassVar[type[EvaluationParams]] = LlmJudgeParams

    def reads_text(self, params: LlmJudgeParams) -> Spoken:
        return "reply"

    def needs_judge(self, params: LlmJudgeParams) -> bool:
        return True

    async def evaluate(
        self, params: LlmJudgeParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        question = Question(
            prompt=params.prompt,
            materials=materials_of(result, context.scenario.setup.virtual_fs, params.looks_at),
            capabilities=tuple(params.capabilities),
            json_schema=params.json_schema,
            model_type=params.model_type,
            temperature=params.temperature,
            votes=params.votes,
        )
        found = await judged(question, parse_expected(params.expected), context)
        if found.judge is None or not found.judge.not_shown:
            return found
        return replace(found, message=f"{found.message}; use `looks_at` to choose what the judge is shown")


class JudgeCriterionParams(EvaluationParams):
    judge_criterion: str = Field(min_length=1, description="What the reply must satisfy")

    @field_validator("judge_criterion")
    @classmethod
    def _asks_something(cls, criterion: str) -> str:
        if not criterion.strip():
            raise ValueError("the criterion is blank; write what must be true")
        return criterion


class JudgeCriterion:
    """Passes when the judge says that the criterion is met."""

    type: ClassVar[str] = "judge"
    params: ClassVar[type[EvaluationParams]] = JudgeCriterionParams

    def reads_text(self, params: JudgeCriterionParams) -> Spoken:
        return "reply"

    def needs_judge(self, params: JudgeCriterionParams) -> bool:
        return True

    async def evaluate(
        self, params: JudgeCriterionParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        question = Question(
            prompt=f"Does the agent's final reply meet this criterion?\n{params.judge_criterion.strip()}",
            materials=materials_of(result, context.scenario.setup.virtual_fs),
        )
        return await judged(question, parse_expected("yes"), context)


class Unjudged(Exception):
    """There is no judgement; `result` is inconclusive and says why."""

    def __init__(self, result: EvaluationResult) -> None:
        super().__init__(result.message)
        self.result: EvaluationResult = result


async def ask_judge(
    context: EvaluationContext, prompt: str, materials: Sequence[Material], capabilities: Sequence[str] = ()
) -> Judgement:
    """Ask the trial's judge. Raises `Unjudged` when there is no judge or it gave no judgement."""
    return await _ask(Question(prompt=prompt, materials=tuple(materials), capabilities=tuple(capabilities)), context)


async def _ask(question: Question, context: EvaluationContext) -> Judgement:
    evidence = Evidence(expected=question.prompt, found="not judged")
    judge = context.trial.judge
    if judge is None:
        raise Unjudged(inconclusive(NO_JUDGE, evidence=evidence))
    try:
        judgement = await judge.ask(question, context.trial)
    except NoJudgement as error:
        note = None if error.note is None else replace(error.note, question=question.prompt)
        raise Unjudged(replace(inconclusive(str(error), evidence=evidence), judge=note)) from error
    return replace(judgement, note=replace(judgement.note, question=question.prompt))


def says_yes(judgement: Judgement) -> bool:
    return judgement.judgment.strip().casefold() == "yes"


def noted(result: EvaluationResult, note: JudgeNote) -> EvaluationResult:
    """The result with the judge's note attached."""
    return replace(result, judge=note)


async def judged(question: Question, expected: ExpectedAnswer, context: EvaluationContext) -> EvaluationResult:
    """Ask the trial's judge and compare its answer with what is expected, which the judge never sees."""
    try:
        judgement = await _ask(question, context)
    except Unjudged as unjudged:
        return unjudged.result
    if judgement.needs_unseen:
        unseen = ", ".join(context.shows.only("not_seen"))
        message = f"the judge says that the answer depends on something this agent does not show ({unseen})"
        return replace(inconclusive(f"{message}; {context.shows.advice}"), judge=judgement.note)
    comparison = compare(
        expected, judgment=judgement.judgment, confidence=judgement.confidence, achieved=judgement.achieved
    )
    return _result(judgement, expected, comparison)


def _result(judgement: Judgement, expected: ExpectedAnswer, comparison: AnswerComparison) -> EvaluationResult:
    note = judgement.note
    make = {"met": passed, "missed": failed, "unknown": inconclusive}[comparison.outcome]
    message = comparison.reason
    if comparison.outcome == "missed":
        message += f"; expected {expected.text!r}"
    if judgement.reasoning:
        message += f": {_short(judgement.reasoning)}"
    if note.self_judged:
        message += " (self-judged)"
    found = judgement.judgment if judgement.confidence is None else f"{judgement.judgment} ({judgement.confidence:g})"
    evidence = Evidence(expected=expected.text, found=found, where=f"judge {note.model}", excerpt=judgement.reasoning)
    # Expecting `no`, or at most some confidence, expects that something did not happen.
    denied = expected.word == "no" or (expected.numeric and expected.low == 0.0)
    ground = "absence" if comparison.outcome == "met" and denied else None
    figures: dict[str, Any] = {}
    if judgement.confidence is not None:
        figures["confidence"] = judgement.confidence
    if note.votes:
        agreeing = sum(vote.casefold() == judgement.judgment.casefold() for vote in note.votes)
        figures["votes"] = len(note.votes)
        figures["agreement"] = round(agreeing / len(note.votes), 3)
    return replace(make(message, evidence=evidence, figures=figures), judge=note, rests_on=ground)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _short(text: str) -> str:
    return shorten(" ".join(text.split()), 300)
