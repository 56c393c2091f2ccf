"""`llm_judge`: ask a judge a question about what the agent said and did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import msgspec
from msgspec.structs import replace
from pydantic import Field, field_validator, model_validator

from steadyhand.judging.expected import Comparison, ExpectedAnswer, check_answer_schema, compare, parse_expected
from steadyhand.judging.material import PARTS, Part, materials_of
from steadyhand.ports.agent import Judgement, Material, NoJudgement, Question
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.evaluation import EvaluationResult, Evidence, JudgeNote, failed, inconclusive, passed
from steadyhand.records.result import ExecutionResult

NO_JUDGE = "there is no judge: set --judge provider/model, or `judge` in steadyhand.toml"


class LlmJudgeParams(EvaluationParams):
    prompt: str = Field(min_length=1)
    expected: str = "yes"
    capabilities: list[str] = Field(default=[], min_length=1)
    json_schema: dict[str, Any] | None = None
    looks_at: list[Part] = list(PARTS)
    model_type: str | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    votes: int | None = Field(default=None, ge=1)

    @field_validator("prompt")
    @classmethod
    def _asks_something(cls, prompt: str) -> str:
        if not prompt.strip():
            raise ValueError("the prompt is blank; write the question to the judge")
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
            raise ValueError(f"`expected` is the bare number {expected.text}: write `{expected.text}+` for at least")
        elif expected.word not in (None, "yes", "no"):
            raise ValueError(
                f"`expected` is {expected.text!r}, and the judge answers only 'yes' or 'no': write one of them, a "
                "confidence such as `0.8+`, or give a `json_schema` whose `judgment` has that word"
            )
        return self


class LlmJudgeEvaluator:
    type: ClassVar[str] = "llm_judge"
    params: ClassVar[type[EvaluationParams]] = LlmJudgeParams

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
        return replace(found, message=f"{found.message}; say with `looks_at` what the question is about")


async def judged(question: Question, expected: ExpectedAnswer, context: EvaluationContext) -> EvaluationResult:
    """Put the question to the trial's judge and hold its answer against what is expected. The judge never sees that."""
    judge = context.trial.judge
    if judge is None:
        return inconclusive(NO_JUDGE)
    try:
        judgement = await judge.ask(question, context.trial)
    except NoJudgement as error:
        return replace(inconclusive(str(error)), judge=error.note)
    if judgement.needs_unseen:
        unseen = ", ".join(context.shows.only("not_seen"))
        message = f"the judge says that the answer depends on what cannot be seen of the agent ({unseen})"
        return replace(inconclusive(f"{message}; {context.shows.advice}"), judge=judgement.note)
    comparison = compare(
        expected, judgment=judgement.judgment, confidence=judgement.confidence, achieved=judgement.achieved
    )
    return _result(judgement, expected, comparison)


def _result(judgement: Judgement, expected: ExpectedAnswer, comparison: Comparison) -> EvaluationResult:
    note = judgement.note
    make = {"met": passed, "missed": failed, "unknown": inconclusive}[comparison.outcome]
    said = comparison.reason
    if comparison.outcome == "missed":
        said += f"; expected {expected.text!r}"
    if judgement.reasoning:
        said += f": {_short(judgement.reasoning)}"
    if note.self_judged:
        said += " (self-judged)"
    found = judgement.judgment if judgement.confidence is None else f"{judgement.judgment} ({judgement.confidence:g})"
    evidence = Evidence(expected=expected.text, found=found, where=f"judge {note.model}", excerpt=judgement.reasoning)
    # A judge that is to say no, or to be none too sure of yes, finds that something did not happen.
    denied = expected.word == "no" or (expected.numeric and expected.low == 0.0)
    ground = "absence" if comparison.outcome == "met" and denied else None
    return replace(make(said, evidence=evidence, figures=_figures(judgement, note)), judge=note, rests_on=ground)


def _figures(judgement: Judgement, note: JudgeNote) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    if judgement.confidence is not None:
        figures["confidence"] = judgement.confidence
    if note.votes:
        agreeing = sum(vote.casefold() == judgement.judgment.casefold() for vote in note.votes)
        figures["votes"] = len(note.votes)
        figures["agreement"] = round(agreeing / len(note.votes), 3)
    return figures


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else f"{line[:300]}..."


class JudgeCriterionParams(EvaluationParams):
    judge_criterion: str = Field(min_length=1)

    @field_validator("judge_criterion")
    @classmethod
    def _asks_something(cls, criterion: str) -> str:
        if not criterion.strip():
            raise ValueError("the criterion is blank; write what must hold")
        return criterion


class JudgeCriterion:
    """Holds when the judge says that the criterion is met."""

    type: ClassVar[str] = "judge"
    params: ClassVar[type[EvaluationParams]] = JudgeCriterionParams

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


def no_judge(question: str) -> EvaluationResult:
    """Never a pass: what nobody has judged is not known."""
    return inconclusive(
        "no judge is set, so this was not judged; name one with `--judge provider/model` or `judge` in steadyhand.toml",
        evidence=Evidence(expected=question, found="not judged"),
    )


class Unjudged(Exception):
    """There was no judgement; `result` says why, and is inconclusive."""

    def __init__(self, result: EvaluationResult) -> None:
        super().__init__(result.message)
        self.result: EvaluationResult = result


async def ask_judge(
    context: EvaluationContext, prompt: str, materials: Sequence[Material], capabilities: Sequence[str] = ()
) -> Judgement:
    """Raises `Unjudged` where there is no judge or no judgement to be had."""
    judge = context.trial.judge
    if judge is None:
        raise Unjudged(no_judge(prompt))
    question = Question(prompt=prompt, materials=tuple(materials), capabilities=tuple(capabilities))
    try:
        return await judge.ask(question, context.trial)
    except NoJudgement as error:
        result = inconclusive(f"could not be judged: {error}", evidence=Evidence(expected=prompt, found="not judged"))
        raise Unjudged(msgspec.structs.replace(result, judge=error.note)) from error


def says_yes(judgement: Judgement) -> bool:
    return judgement.judgment.strip().casefold() == "yes"


def noted(result: EvaluationResult, note: JudgeNote) -> EvaluationResult:
    """The result with the judge's word beside it."""
    return msgspec.structs.replace(result, judge=note)
