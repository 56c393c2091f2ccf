"""The limits of a provider hold for whoever calls it: the agent, the simulated user and the judge."""

import json

import pytest

from holdfast.batch.gate import ProviderGate
from holdfast.batch.provider import ProviderLimits
from holdfast.builtin.agents.model import ModelAgent
from holdfast.builtin.judges.llm import LlmJudge
from holdfast.builtin.users.simulator import LlmUserSimulator
from holdfast.plugins.factories import AgentSettings
from holdfast.records.event import ModelCalled, Waited
from holdfast.records.model import ChatResponse, Usage
from holdfast.records.scenario import ConversationConfig
from holdfast.records.timing import Attempt
from holdfast.records.verdict import Verdict
from holdfast.testing import SettableClock
from unit.engine_conversation.talking import USER, check, hold, scenario

JUDGED = json.dumps({"judgment": "yes", "confidence": 1.0, "reasoning": "so", "capabilities": {}})


class Provider:
    """One model for all parts, which notes when it was called."""

    name = "openai/m"

    def __init__(self, clock):
        self._clock = clock
        self.calls = []

    async def attempt(self, request, *, zero):
        self.calls.append((self._clock.now(), request.purpose))
        text = JUDGED if request.purpose == "judge" else f"Tell me more, please, of number {len(self.calls)}."
        usage = Usage(input_tokens=100, output_tokens=0)
        return ChatResponse(text=text, usage=usage, attempt=Attempt(started_ms=0, sent_ms=0, last_byte_ms=1))

    async def close(self): ...


@pytest.mark.parametrize(
    "limits",
    [ProviderLimits(requests_per_minute=2), ProviderLimits(tokens_per_minute=250)],
    ids=["requests", "tokens"],
)
async def test_no_part_goes_past_the_limit(tmp_path, limits):
    clock = SettableClock()
    gate = ProviderGate(clock=clock, limits={"openai": limits})
    model = Provider(clock)
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
    assert {purpose for _, purpose in model.calls} == {"agent", "user", "summary", "judge"}
    times = [at for at, _ in model.calls]
    assert all(later - first >= 60 for first, later in zip(times, times[2:], strict=False))
    waited = {event.purpose for event in record.events if isinstance(event, Waited)}
    assert {"agent", "judge"} <= waited
    assert waited & {"user", "summary"}
    assert len(times) == sum(isinstance(event, ModelCalled) for event in record.events)
