"""Judges that say what they are told, models for real ones, and the smallest trial in which a judge can be asked."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from steadyhand.builtin.judges.llm import LlmJudge
from steadyhand.ports.agent import EVERYTHING_SEEN, Judge, Judgement, Question, TrialContext
from steadyhand.ports.evaluator import EvaluationContext
from steadyhand.records.chat import Attempt, ChatRequest, ChatResponse, Message
from steadyhand.records.evaluation import EvaluationResult, EvaluationSpec, JudgeNote
from steadyhand.records.location import Place
from steadyhand.records.result import ExecutionResult
from steadyhand.records.scenario import Scenario, Setup
from steadyhand.testing import ScriptedChatModel
from steadyhand.testing.fakes import ScriptedAnswer

PLACE = Place(file="s.yaml", line=3, column=5)


NOTE = JudgeNote(model="test/judge", prompt_hash="h", raw="{}")
Told = tuple[str, float | None] | Judgement | Exception


class ScriptedJudge:
    """Implements `ports.agent.Judge`. Answers in turn with a word and a confidence, a whole judgement, or by raising;
    a function answers every question."""

    name = "test/judge"
    self_judged = False

    def __init__(self, *script: Told | Callable[[Question], Told]) -> None:
        self._script = list(script)
        self.asked: list[Question] = []

    async def ask(self, question: Question, trial: TrialContext) -> Judgement:
        self.asked.append(question)
        told = self._script[0] if callable(self._script[0]) else self._script.pop(0)
        if callable(told):
            told = told(question)
        if isinstance(told, Exception):
            raise told
        if isinstance(told, Judgement):
            return told
        return Judgement(judgment=told[0], confidence=told[1], reasoning="it seems so", note=NOTE)


def judge_model(
    script: Sequence[ScriptedAnswer] | Callable[[ChatRequest], ScriptedAnswer], name: str = "test/judge"
) -> ScriptedChatModel:
    return ScriptedChatModel(script, name=name, repeat=True)


def said(text: str, finish_reason: str | None = "stop") -> ChatResponse:
    return ChatResponse(text=text, attempt=Attempt(started_ms=0.0), finish_reason=finish_reason)


class LeastTrial:
    """Implements as much of `TrialContext` as a judge may use."""

    def __init__(self, judge: Judge | None = None, files: dict[str, str] | None = None) -> None:
        self.judge = judge
        self.seed = 7
        self.trial_id = "s#0"
        self.live = False
        self.shows = EVERYTHING_SEEN
        self.random = random.Random(7)
        self.variables: dict[str, Any] = {}
        self.clock: Any = None
        self.environment: Any = None
        self.scenario = Scenario(
            id="s",
            name="a scenario",
            description="what it is about",
            place=PLACE,
            digest="d",
            steps=(),
            setup=Setup(virtual_fs=files or {}),
            expected_action="Call for help.",
        )

    def elapsed_ms(self) -> float:
        return 0.0

    def emit(self, event: Any) -> None:
        pass

    async def call(self, model: ScriptedChatModel, request: ChatRequest) -> ChatResponse:
        return await model.attempt(request, zero=0.0)


def answer(judgment: Any = "yes", confidence: Any = "fitting", reasoning: Any = "because", **more: Any) -> str:
    if confidence == "fitting":
        confidence = 0.1 if judgment == "no" else 0.9
    return json.dumps({"judgment": judgment, "confidence": confidence, "reasoning": reasoning, **more})


def judge_with(model: ScriptedChatModel, **options: Any) -> LlmJudge:
    return LlmJudge(lambda _: model, name=model.name, **options)


def replied(text: str, question: str = "What shall I do?") -> ExecutionResult:
    messages = (Message(role="user", content=question), Message(role="assistant", content=text))
    return ExecutionResult(reply=text, stdout=text, messages=messages)


async def evaluate(evaluator: Any, params: dict[str, Any], result: ExecutionResult, trial: Any) -> EvaluationResult:
    spec = EvaluationSpec(type=evaluator.type, place=PLACE, params=params)
    checked = evaluator.params.model_validate(params)
    return await evaluator().evaluate(checked, result, EvaluationContext(trial=trial, spec=spec))
