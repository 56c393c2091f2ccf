"""`http` agents whose interface is described in the configuration, against a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from steadyhand.errors import AgentError, ModelError, SetupError
from steadyhand.ports.agent import Addresses
from steadyhand.records.event import ActionTaken, ModelCalled, Observed
from support.agents import a_trial, an_agent, turn
from support.desk import Desk, serving_desk


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with serving_desk() as desk:
        yield desk


async def _turns(tmp_path, desk: Desk, options: dict[str, Any], *said: Any, path: str = "/chat", addresses=None):
    agent = an_agent(f"http:{desk.url}{path}", tmp_path, options=options)
    trial = a_trial(tmp_path)
    trial.addresses = addresses or Addresses()
    try:
        await agent.open(trial)
        return [(await agent.respond(each)).text for each in said], trial
    finally:
        await agent.close()


async def test_the_body_is_made_of_the_template_and_the_reply_found_by_its_path(tmp_path, desk):
    desk.answers["PUT", "/chat"] = {"data": [{"text": "Hello."}]}
    body = {
        "q": "{message}", "all": "{messages}", "id": "s-{session}", "n": "{turn}", "seed": "{seed}",
        "fixed": [1, True, None],
    }  # fmt: skip
    options = {"method": "PUT", "body": body, "reply": "data.0.text", "headers": {"X-Team": "desk"}}
    texts, trial = await _turns(tmp_path, desk, options, turn("a", "b", "c"), turn("again"))
    assert texts == ["Hello.", "Hello."]
    (_, _, headers, sent), (_, _, _, later) = desk.asked
    assert sent["q"] == "c"
    assert sent["all"][1] == {"role": "assistant", "content": "b"}
    assert (sent["seed"], sent["fixed"], sent["n"], later["n"]) == (7, [1, True, None], 1, 2)
    assert sent["id"] == later["id"] == f"s-{headers['X-Steadyhand-Session']}"
    assert headers["X-Steadyhand-Trial"] == trial.trial_id
    assert headers["X-Team"] == "desk"
    (first, _) = [event for event in trial.events if isinstance(event, ModelCalled)]
    assert first.timing.latency_ms > 0


async def test_trial_and_session_are_in_every_request_of_the_openai_shape_too(tmp_path, desk):
    desk.answers["POST", "/v1/chat/completions"] = {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}]
    }
    trace = Addresses(names={"trace_id": "ab" * 16})
    await _turns(tmp_path, desk, {}, turn("a"), turn("b"), path="/v1", addresses=trace)
    first, second = [headers for _, _, headers, _ in desk.asked]
    assert first["X-Steadyhand-Session"] == second["X-Steadyhand-Session"] != ""
    assert first["traceparent"].startswith(f"00-{'ab' * 16}-")
    assert first["traceparent"] != second["traceparent"]


async def test_tool_calls_in_the_answer_are_actions_as_the_agent_reports_them(tmp_path, desk):
    calls = [
        {"name": "find_order", "arguments": {"number": "A-1"}, "result": {"state": "late"}},
        {"name": "refund", "arguments": '{"number": "A-1"}', "error": "not allowed"},
    ]
    desk.answers["POST", "/chat"] = {"text": "Done.", "trace": {"calls": calls}}
    options = {"reply": "text", "tool_calls": "trace.calls"}
    agent = an_agent(f"http:{desk.url}/chat", tmp_path, options=options)
    assert agent.shows.actions == "self_reported"
    _, trial = await _turns(tmp_path, desk, options, turn("a"))
    actions = [event for event in trial.events if isinstance(event, ActionTaken)]
    assert [(each.name, each.params, each.status) for each in actions] == [
        ("find_order", {"number": "A-1"}, "unknown"),
        ("refund", {"number": "A-1"}, "error"),
    ]
    observed = [event.content for event in trial.events if isinstance(event, Observed)]
    assert observed == [{"state": "late"}, "not allowed"]
    assert desk.asked[0][3] == {"message": "a"}


@pytest.mark.parametrize(
    "ending", [{"status": "FAILED"}, {"status": "denied"}, {"isError": True}, {"success": False}, {"ok": False}]
)
async def test_a_tool_call_that_failed_says_so_in_one_of_the_usual_ways(tmp_path, desk, ending):
    desk.answers["POST", "/chat"] = {"text": "Done.", "calls": [{"name": "refund", "arguments": {}, **ending}]}
    _, trial = await _turns(tmp_path, desk, {"reply": "text", "tool_calls": "calls"}, turn("a"))
    assert [event.status for event in trial.events if isinstance(event, ActionTaken)] == ["error"]


@pytest.mark.parametrize(
    ("word", "reason"), [("SAFETY", "content_filter"), ("length", "length"), ("end_turn", "stop"), ("solved", "stop")]
)
async def test_how_the_answer_ended_is_read_beside_the_reply(tmp_path, desk, word, reason):
    desk.answers["POST", "/chat"] = {"data": [{"out": {"text": "Hi."}, "finish_reason": word}]}
    _, trial = await _turns(tmp_path, desk, {"reply": "data.0.out.text"}, turn("a"))
    (called,) = [event for event in trial.events if isinstance(event, ModelCalled)]
    assert called.finish.reason == reason


async def test_a_session_is_begun_and_ended(tmp_path, desk):
    desk.answers["POST", "/chat/sessions"] = web.json_response({"id": 17}, status=201)
    desk.answers["POST", "/chat"] = {"text": "Hi."}
    desk.answers["DELETE", "/chat/sessions"] = web.Response(status=204)
    options = {
        "reply": "text", "session": "id", "body": {"m": "{message}", "session": "{session}"},
        "start": {"path": "sessions", "body": {"trial": "{trial}"}}, "end": {"method": "DELETE", "path": "sessions"},
    }  # fmt: skip
    _, trial = await _turns(tmp_path, desk, options, turn("a"))
    assert [(method, path) for method, path, _, _ in desk.asked] == [
        ("POST", "/chat/sessions"), ("POST", "/chat"), ("DELETE", "/chat/sessions"),
    ]  # fmt: skip
    assert desk.asked[0][3] == {"trial": trial.trial_id}
    assert desk.asked[1][3]["session"] == "17"
    assert desk.asked[2][2]["X-Steadyhand-Session"] == "17"


async def test_a_session_can_come_with_the_first_answer(tmp_path, desk):
    desk.answers["POST", "/chat"] = {"text": "Hi.", "sid": "abc"}
    options = {"reply": "text", "session": "sid", "body": {"s": "{session}"}}
    await _turns(tmp_path, desk, options, turn("a"), turn("b"))
    assert desk.asked[1][3] == {"s": "abc"}


async def test_addresses_of_the_trial_reach_headers_and_body(tmp_path, desk):
    desk.answers["POST", "/chat"] = {"text": "Hi."}
    options = {"reply": "text", "headers": {"X-Shop": "{mocks_url}/v2"}}
    names = {"mocks_url": "http://127.0.0.1:1/t/mocks"}
    await _turns(tmp_path, desk, options, turn("a"), addresses=Addresses(names=names))
    assert desk.asked[0][2]["X-Shop"] == "http://127.0.0.1:1/t/mocks/v2"
    assert an_agent(f"http:{desk.url}", tmp_path, options=options).shows.services == "seen"


@pytest.mark.parametrize(
    ("answer", "options", "said"),
    [
        ({"text": "x"}, {"reply": "reply.text"}, r"there is no 'reply' in the answer, which has text"),
        ({"a": []}, {"reply": "a.0"}, r"a has 0 entries, so there is no 0"),
        ({"a": 7}, {"reply": "a"}, r"'a' points to a int; expected text"),
        (web.Response(text="<html>", content_type="text/html"), {"reply": "a"}, "not JSON"),
        (web.Response(status=500, text="fell over"), {"reply": "a"}, "500"),
        ({"text": "x"}, {"reply": "text", "session": "sid"}, "option session: there is no 'sid'"),
        ({"text": "x", "t": 3}, {"reply": "text", "tool_calls": "t"}, "as `tool_calls`; expected a list"),
        ({"text": "x"}, {"reply": "text", "tool_calls": "trace.calls"}, "option tool_calls: there is no 'trace'"),
        (
            {"text": "x", "toolCalls": []},
            {"reply": "text", "tool_calls": "tool_calls"},
            "option tool_calls: there is no 'tool_calls' in the answer, which has text, toolCalls",
        ),
    ],
)
async def test_an_answer_that_is_not_as_described_is_an_error(tmp_path, desk, answer, options, said):
    desk.answers["POST", "/chat"] = answer
    with pytest.raises((AgentError, ModelError), match=said):
        await _turns(tmp_path, desk, options, turn("a"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"body": {"q": "{message}"}}, "option body needs option reply"),
        ({"method": "PUT"}, "option method needs option reply"),
        ({"reply": "a", "body": {"q": "{massage}"}}, r"\{massage\} is not a known placeholder; available: \{message\}"),
        ({"reply": "a", "traces": "yes"}, "traces"),
    ],
)
def test_a_wrong_description_stops_the_run_before_it_starts(tmp_path, options, said):
    with pytest.raises(SetupError, match=said):
        an_agent("http:http://127.0.0.1:1/chat", tmp_path, options=options)
