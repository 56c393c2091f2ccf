from __future__ import annotations

import asyncio

import pytest

from steadyhand.engine.model_call import RetryPolicy
from steadyhand.errors import AgentError, ModelError, SetupError
from steadyhand.records.chat import ToolCall
from steadyhand.records.event import ModelCalled
from steadyhand.records.scenario import Character
from steadyhand.testing import Answer, ModelServer
from support.agents import a_trial, an_agent, turn
from support.trial import a_scenario


async def answer(tmp_path, url: str, asked=None, trial=None, **settings):
    agent = an_agent(f"http:{url}", tmp_path, **settings)
    trial = trial or a_trial(tmp_path)
    try:
        await agent.open(trial)
        return (await agent.respond(asked or turn("hi"))).text, trial
    finally:
        await agent.close()
        await agent.close()


async def test_the_whole_exchange_is_sent_and_the_answer_is_timed(tmp_path):
    async with ModelServer(Answer(text="Hello there.", piece_s=0.01)) as server:
        scenario = a_scenario(character=Character(system="you are somebody else"))
        trial = a_trial(tmp_path, scenario=scenario)
        text, _ = await answer(tmp_path, server.base_url, turn("a", "b", "c"), trial=trial)
        sent = server.log[0].body
    assert text == "Hello there."
    assert [(m["role"], m["content"]) for m in sent["messages"]] == [("user", "a"), ("assistant", "b"), ("user", "c")]
    assert sent["model"] == "agent"
    (call,) = [event for event in trial.events if isinstance(event, ModelCalled)]
    assert call.model == f"http:{server.base_url}"
    assert call.timing.latency_ms > 0
    assert len(call.timing.chunks) >= 1


@pytest.mark.parametrize("spelt", ["http://{}/v1", "//{}/v1", "http://{}/v1/chat/completions", "http://{}/v1/"])
async def test_every_spelling_of_the_address_works(tmp_path, spelt):
    async with ModelServer(Answer(text="yes")) as server:
        text, _ = await answer(tmp_path, spelt.format(f"127.0.0.1:{server.port}"))
        assert (text, server.log[0].path) == ("yes", "/v1/chat/completions")


async def test_a_name_and_a_key_are_sent_and_a_foreign_key_is_not(tmp_path):
    variables = {"STEADYHAND_AGENT_KEY": "k-1", "OPENAI_API_KEY": "sk-canary", "OPENAI_BASE_URL": "http://127.0.0.1:1"}
    async with ModelServer(Answer(text="yes")) as server:
        await answer(tmp_path, f"{server.base_url}#support", variables=variables)
        assert server.log[0].body["model"] == "support"
        assert server.log[0].headers["authorization"] == "Bearer k-1"
        await answer(tmp_path, server.base_url, variables={"OPENAI_API_KEY": "sk-canary"})
        assert "authorization" not in server.log[1].headers


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        (Answer(body=b"<html><body>Welcome</body></html>"), "html|JSON"),
        (Answer(body=b"<html>gone</html>", status=404), "404"),
        (Answer(status=500, error="the agent fell over"), "the agent fell over"),
        (Answer(status=401, error="who are you"), "STEADYHAND_AGENT_KEY"),
        (Answer(fault="reset"), "127.0.0.1"),
        (Answer(text="Hello there, friend.", cut_after=1), "127.0.0.1"),
    ],
)
async def test_a_wrong_endpoint_is_one_error_and_asked_once(tmp_path, behaviour, said):
    async with ModelServer(behaviour) as server:
        trial = a_trial(tmp_path, retry=RetryPolicy(retries=2, first_wait_s=0.001))
        with pytest.raises(ModelError, match=f"(?i){said}") as raised:
            await answer(tmp_path, server.base_url, trial=trial)
        assert server.received == 1
        assert not raised.value.retryable


async def test_one_that_limits_the_rate_has_not_begun_and_is_asked_again(tmp_path):
    async with ModelServer([Answer(status=429), Answer(text="now")]) as server:
        trial = a_trial(tmp_path, retry=RetryPolicy(retries=1, first_wait_s=0.001))
        assert (await answer(tmp_path, server.base_url, trial=trial))[0] == "now"


async def test_one_that_hangs_is_an_error_after_its_limit(tmp_path):
    async with ModelServer(Answer(fault="hang")) as server:
        with pytest.raises(ModelError, match=r"0\.2") as raised:
            await answer(tmp_path, server.base_url, options={"timeout_s": 0.2})
        assert raised.value.kind == "timeout"


async def test_nobody_there_is_an_error(tmp_path):
    async with ModelServer() as server:
        url = server.base_url
    with pytest.raises(ModelError) as raised:
        await answer(tmp_path, url)
    assert raised.value.kind == "connect"


async def test_an_answer_that_wants_tools_run_is_an_error(tmp_path):
    async with ModelServer(Answer(text="hm", tool_calls=(ToolCall(id="1", name="look"),))) as server:
        with pytest.raises(AgentError, match="asks for the tools look to be run"):
            await answer(tmp_path, server.base_url)


async def test_cancelling_hangs_up(tmp_path):
    async with ModelServer(Answer(fault="hang")) as server:
        asking = asyncio.create_task(answer(tmp_path, server.base_url))
        await server.until_received(1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await server.until_disconnected()


def test_what_reports_show_has_no_query(tmp_path):
    assert an_agent("http:http://host/v1?key=canary#support", tmp_path).name == "http:http://host/v1#support"


@pytest.mark.parametrize("target", ["", "localhost:8000", "ftp://x", "http://", "http://user:pass@host/v1"])
def test_an_invalid_address_is_reported_before_anything_runs(tmp_path, target):
    with pytest.raises(SetupError, match=r"^agent http:"):
        an_agent(f"http:{target}", tmp_path)
