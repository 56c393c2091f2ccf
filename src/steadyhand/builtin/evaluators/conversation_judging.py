"""Asking the judge about a conversation."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from steadyhand.builtin.evaluators.no_judge import no_judge
from steadyhand.ports.agent import Judgement, Material, NoJudgement, Question
from steadyhand.ports.evaluator import EvaluationContext
from steadyhand.records.evaluation import EvaluationResult, Evidence, JudgeNote, inconclusive


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
