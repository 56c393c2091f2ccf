"""A scripted chat model and the least trial that a judge can be asked in."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from steadyhand.builtin.judges.llm import LlmJudge
from steadyhand.errors import ModelError
from steadyhand.ports.agent import EVERYTHING_SEEN, Judge
from steadyhand.ports.evaluator import EvaluationContext
from steadyhand.records.chat import ChatRequest, ChatResponse, Message
from steadyhand.records.evaluation import EvaluationResult, EvaluationSpec
from steadyhand.records.location import Place
from steadyhand.records.result import ExecutionResult
from steadyhand.records.scenario import Scenario, Setup
from steadyhand.records.timing import Attempt

Line = str | ModelError | ChatResponse
PLACE = Place(file="s.yaml", line=3, column=5)


class ScriptedChat:
    """Answers from a list, the last entry for ever, or with what a function makes of the request."""

    def __init__(self, script: Sequence[Line] | Callable[[ChatRequest], Line], name: str = "test/judge") -> None:
        self._script = script
        self.name = name
        self.requests: list[ChatRequest] = []

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        self.requests.append(request)
        if callable(self._script):
            line = self._script(request)
        else:
            line = self._script[min(len(self.requests), len(self._script)) - 1]
        if isinstance(line, ModelError):
            raise line
        return line if isinstance(line, ChatResponse) else said(line)

    async def close(self) -> None:
        pass


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

    async def call(self, model: ScriptedChat, request: ChatRequest) -> ChatResponse:
        return await model.attempt(request, zero=0.0)


def answer(judgment: Any = "yes", confidence: Any = "fitting", reasoning: Any = "because", **more: Any) -> str:
    if confidence == "fitting":
        confidence = 0.1 if judgment == "no" else 0.9
    return json.dumps({"judgment": judgment, "confidence": confidence, "reasoning": reasoning, **more})


def judge_with(model: ScriptedChat, **options: Any) -> LlmJudge:
    return LlmJudge(lambda _: model, name=model.name, **options)


def replied(text: str, question: str = "What shall I do?") -> ExecutionResult:
    messages = (Message(role="user", content=question), Message(role="assistant", content=text))
    return ExecutionResult(reply=text, stdout=text, messages=messages)


async def evaluate(evaluator: Any, params: dict[str, Any], result: ExecutionResult, trial: Any) -> EvaluationResult:
    spec = EvaluationSpec(type=evaluator.type, place=PLACE, params=params)
    checked = evaluator.params.model_validate(params)
    return await evaluator().evaluate(checked, result, EvaluationContext(trial=trial, spec=spec))
