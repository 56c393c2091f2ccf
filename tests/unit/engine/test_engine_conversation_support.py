"""The specification's conversation, end to end: agent, user and judge are models behind a real server."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, ClassVar

from steadyhand.builtin.agents.model import ModelAgent
from steadyhand.builtin.models.openai import OpenAIModel
from steadyhand.builtin.plugin import EVALUATORS
from steadyhand.builtin.users.simulator import LlmUserSimulator
from steadyhand.plugins.plugin import AgentSettings, ModelSettings, Plugin
from steadyhand.plugins.registry import EvaluationCatalogue, Registry
from steadyhand.ports.agent import Judgement, Question
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.chat import ChatRequest, Message, Usage
from steadyhand.records.evaluation import EvaluationResult, Verdict, failed, passed
from steadyhand.records.event import ModelCalled, Said
from steadyhand.records.result import ExecutionResult
from steadyhand.spec.load import load
from steadyhand.testing import Answer, ModelServer, Served
from support.conversation import hold, notes
from support.judges import NOTE

EXAMPLE = Path(__file__).parents[1] / "spec" / "examples" / "conversation.yaml"
HEAD = "name: Example\ndescription: An example\nenvironment:\n  type: local\njudgment:\n  strategy: all_pass\n"


class AskedParams(EvaluationParams):
    prompt: str
    expected: str = "yes"
    capabilities: list[str] = []


class AskedJudge:
    """`llm_judge` in its simplest form: asks the trial's judge and compares its answer."""

    type: ClassVar[str] = "llm_judge"
    params: ClassVar[type[EvaluationParams]] = AskedParams

    def needs_judge(self, params: AskedParams) -> bool:
        return True

    async def evaluate(
        self, params: AskedParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        assert context.trial.judge is not None
        word = await context.trial.judge.ask(Question(prompt=params.prompt, materials=()), context.trial)
        return (passed if word.judgment == params.expected else failed)(word.reasoning)


class ModelJudge:
    self_judged = False

    def __init__(self, model: OpenAIModel) -> None:
        self.model = model
        self.name = model.name

    async def ask(self, question: Question, trial: Any) -> Judgement:
        request = ChatRequest(messages=(Message(role="user", content=question.prompt),), purpose="judge")
        word = json.loads((await trial.call(self.model, request)).text)
        return Judgement(judgment=word["judgment"], confidence=1.0, reasoning=word["reasoning"], note=NOTE)


def behaviour(user_lines: list[str], agent_lines: list[str], last: str):
    lines = {"user": list(user_lines), "agent": list(agent_lines)}

    def answer(served: Served) -> Answer:
        who = served.body["model"]
        usage = Usage(input_tokens=10, output_tokens=1)
        if who == "judge":
            verdict = last if "resolved" in served.prompt else "yes"
            return Answer(text=json.dumps({"judgment": verdict, "reasoning": "r"}), usage=usage)
        return Answer(text=lines[who].pop(0), usage=usage)

    return answer


async def run(folder: Path, answers: Any) -> tuple[Any, list[Served]]:
    plugin = Plugin(name="builtin", evaluators={**EVALUATORS, "llm_judge": AskedJudge})
    registry = Registry([plugin])
    file = folder / "support.scenario.yaml"
    file.write_text(HEAD + EXAMPLE.read_text())
    loaded = load([str(file)], catalogue=EvaluationCatalogue(registry))
    assert loaded.problems == ()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ModelServer(answers))
        models = {}
        for name in ("agent", "user", "judge"):
            settings = ModelSettings(name=name, folder=folder, options={"base_url": server.base_url})
            models[name] = OpenAIModel(settings)
            stack.push_async_callback(models[name].close)
        record = await hold(
            folder / "work", loaded.scenarios[0], ModelAgent(AgentSettings(model=models["agent"], folder=folder)),
            registry, user=LlmUserSimulator(lambda _: models["user"]), judge=ModelJudge(models["judge"]),
        )  # fmt: skip
        return record, server.log


AGENT = ["Which card was it?", "One charge is a deposit and comes back tomorrow.", "never asked"]


async def test_it_passes_when_the_judge_is_content_at_every_turn(tmp_path):
    answers = behaviour(["Agent: which card?", "User: The blue card.", '"Thank you, that explains it."'], AGENT, "yes")
    record, log = await run(tmp_path, answers)
    assert record.judged.verdict is Verdict.PASSED, record.judged.reason
    said = [(event.message.role, event.message.content) for event in record.events if isinstance(event, Said)]
    assert said == [
        ("user", "Hi, I need help with billing"),
        ("assistant", "Which card was it?"),
        ("user", "The blue card."),
        ("assistant", "One charge is a deposit and comes back tomorrow."),
        ("user", "Thank you, that explains it."),
        ("assistant", "never asked"),
    ]
    assert notes(record, "conversation_ended")[0]["reason"] == "user_expresses_satisfaction"
    assert [(result.stage, result.turn) for result in record.evaluations] == [
        ("turn", 1), ("turn", 2), ("turn", 3), ("final", None)
    ]  # fmt: skip
    user = next(served.body for served in log if served.body["model"] == "user")
    assert (user["temperature"], user.get("max_tokens") or user.get("max_completion_tokens")) == (0.6, 200)


async def test_its_figures_are_counted(tmp_path):
    answers = behaviour(["Agent: which card?", "The blue card.", "Thank you."], AGENT, "yes")
    record, log = await run(tmp_path, answers)
    metrics = record.metrics
    calls = [event for event in record.events if isinstance(event, ModelCalled)]
    assert len(calls) == len(log) == 10
    assert metrics.turn_count == 3
    assert metrics.llm_calls_per_turn == 3.0
    usage = metrics.token_usage
    assert (usage.agent_responses, usage.user_simulation, usage.evaluations) == (33, 33, 44)
    assert (usage.total, usage.complete) == (110, True)
    quality = metrics.simulator_quality
    assert (quality.turns_simulated, quality.asked_again, quality.reasons) == (2, 1, {"speaks_for_agent": 1})
    assert metrics.avg_turn_duration_ms <= metrics.total_duration_ms


async def test_tokens_that_nobody_counted_are_flagged_and_not_made_up(tmp_path):
    counted = behaviour(["The blue card.", "Thank you."], AGENT, "yes")

    def answers(served: Served) -> Answer:
        answer = counted(served)
        return Answer(text=answer.text, usage=None if served.body["model"] == "user" else answer.usage)

    record, _ = await run(tmp_path, answers)
    usage = record.metrics.token_usage
    assert (usage.user_simulation, usage.agent_responses, usage.complete) == (0, 33, False)


async def test_it_fails_when_the_judge_finds_the_issue_open(tmp_path):
    record, _ = await run(
        tmp_path, behaviour(["The blue card.", "It is still unresolved.", "Perfect."], [*AGENT, "x"], "no")
    )
    assert record.judged.verdict is Verdict.FAILED
    assert [result.stage for result in record.evaluations if result.verdict is Verdict.FAILED] == ["final"]
    assert record.metrics.turn_count == 4
