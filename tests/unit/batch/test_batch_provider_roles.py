"""A provider's limits apply to everyone who calls it: the agent, the simulated user and the judge."""

import json

import pytest

from steadyhand.batch.provider import ProviderGate, ProviderLimits
from steadyhand.builtin.agents.model import ModelAgent
from steadyhand.builtin.judges.llm import LlmJudge
from steadyhand.builtin.users.simulator import LlmUserSimulator
from steadyhand.plugins.plugin import AgentSettings
from steadyhand.records.chat import Attempt, ChatResponse, Usage
from steadyhand.records.evaluation import Verdict
from steadyhand.records.event import ModelCalled, Waited
from steadyhand.records.scenario import ConversationConfig
from steadyhand.testing import ScriptedChatModel, SettableClock
from support.conversation import USER, check, hold, scenario

JUDGED = json.dumps({"judgment": "yes", "confidence": 1.0, "reasoning": "so", "capabilities": {}})


@pytest.mark.parametrize(
    "limits",
    [ProviderLimits(requests_per_minute=2), ProviderLimits(tokens_per_minute=250)],
    ids=["requests", "tokens"],
)
async def test_no_part_goes_past_the_limit(tmp_path, limits):
    clock = SettableClock()
    gate = ProviderGate(clock=clock, limits={"openai": limits})
    calls = []

    def answer(request):
        calls.append((clock.now(), request.purpose))
        text = JUDGED if request.purpose == "judge" else f"Tell me more, please, of number {len(calls)}."
        usage = Usage(input_tokens=100, output_tokens=0)
        return ChatResponse(text=text, usage=usage, attempt=Attempt(started_ms=0, sent_ms=0, last_byte_ms=1))

    model = ScriptedChatModel(answer, name="openai/m")
    config = ConversationConfig(max_turns=6, user_simulator=USER)
    told = scenario(config, evaluations=[check("llm_judge", prompt="Was it polite?", expected="yes")])
    record = await hold(
        tmp_path,
        told,
        ModelAgent(AgentSettings(model=model, folder=tmp_path)),
        user=LlmUserSimulator(lambda _: model),
        judge=LlmJudge(lambda _: model, name=model.name),
        gate=gate,
    )
    assert record.judged.verdict is Verdict.PASSED, record.judged
    assert {purpose for _, purpose in calls} == {"agent", "user", "summary", "judge"}
    times = [at for at, _ in calls]
    assert all(later - first >= 60 for first, later in zip(times, times[2:], strict=False))
    waited = {event.purpose for event in record.events if isinstance(event, Waited)}
    assert {"agent", "judge"} <= waited
    assert waited & {"user", "summary"}
    assert len(times) == sum(isinstance(event, ModelCalled) for event in record.events)
