from __future__ import annotations

import asyncio
import sys

import pytest

from steadyhand.errors import AgentError, SetupError
from steadyhand.ports.agent import Turn
from steadyhand.records.chat import Message
from steadyhand.records.event import ActionTaken, Noted, Observed, Thought
from steadyhand.testing import SettableClock
from support.agents import a_trial, an_agent, gateway_of, turn
from support.elizaos_server import ElizaosAction, ElizaosAnswer, ElizaosServer


async def replies(tmp_path, target: str, *turns, **settings):
    agent, trial = an_agent(f"elizaos:{target}", tmp_path, **settings), a_trial(tmp_path)
    try:
        await agent.open(trial)
        return [await agent.respond(each) for each in turns or (turn("hi"),)], trial
    finally:
        await agent.close()
        await agent.close()


async def test_a_conversation_is_one_session_and_only_the_news_is_sent(tmp_path):
    async with ElizaosServer(lambda heard: ElizaosAnswer(text=f"heard {len(heard)}")) as server:
        first, second = (await replies(tmp_path, server.url, turn("a"), turn("a", "heard 1", "b")))[0]
        assert (first.text, second.text) == ("heard 1", "heard 2")
        assert list(server.heard.values()) == [["a", "b"]]
        assert server.deleted == list(server.sessions)


async def test_what_it_did_is_read_from_its_run(tmp_path):
    answer = ElizaosAnswer(
        text="done",
        thought="I should look",
        actions=(
            ElizaosAction(name="LOOK", result={"found": 3}),
            ElizaosAction(name="JUMP", success=False, result="too high"),
            ElizaosAction(name="WAIT", ends=False),
        ),
    )
    async with ElizaosServer(answer) as server:
        (reply,), trial = await replies(tmp_path, server.url)
    taken = [event for event in trial.events if isinstance(event, ActionTaken)]
    assert [(event.name, event.status) for event in taken] == [
        ("LOOK", "success"),
        ("JUMP", "error"),
        ("WAIT", "error"),
    ]
    assert [event.duration_ms for event in taken] == [5, 5, 0]
    assert taken[1].at_ms - taken[0].at_ms == pytest.approx(10, abs=0.01)
    seen = [event.content for event in trial.events if isinstance(event, Observed)]
    assert seen == [{"found": 3}, "too high", "it started but did not finish"]
    assert [event.text for event in trial.events if isinstance(event, Thought)] == ["I should look"]
    assert "TEXT_LARGE (12 ms)" in next(event.message for event in trial.events if isinstance(event, Noted))
    assert reply.duration_ms > 0


async def test_a_list_of_runs_that_is_behind_is_asked_again_and_not_counted_as_the_agents_time(tmp_path):
    def say(heard):
        return ElizaosAnswer(text="x", actions=(ElizaosAction(name=heard[-1]),), list_behind=2)

    clock = SettableClock()
    trial = a_trial(tmp_path, clock=clock)
    async with ElizaosServer(say) as server:
        agent = an_agent(f"elizaos:{server.url}", tmp_path)
        await agent.open(trial)
        both = [await agent.respond(each) for each in (turn("ONE"), turn("ONE", "x", "TWO"))]
        await agent.close()
    assert [event.name for event in trial.events if isinstance(event, ActionTaken)] == ["ONE", "TWO"]
    assert clock.now() > 0
    assert [reply.duration_ms for reply in both] == [0, 0]


async def test_an_agent_that_says_nothing_replies_with_nothing(tmp_path):
    async with ElizaosServer(ElizaosAnswer(silent=True)) as server:
        (reply,), _ = await replies(tmp_path, server.url)
    assert reply.text == ""


async def test_a_token_is_sent_and_its_absence_explained(tmp_path):
    async with ElizaosServer(ElizaosAnswer(text="x"), token="t-1") as server:
        await replies(tmp_path, server.url, variables={"ELIZA_SERVER_AUTH_TOKEN": "t-1"})
        with pytest.raises(AgentError, match="answered 401; set ELIZA_SERVER_AUTH_TOKEN"):
            await replies(tmp_path, server.url)


async def test_it_waits_until_the_agent_is_active(tmp_path):
    async with ElizaosServer(ElizaosAnswer(text="up"), starting=2) as server:
        assert (await replies(tmp_path, server.url))[0][0].text == "up"


async def test_a_server_without_agents_is_an_error_in_the_end(tmp_path):
    async with ElizaosServer(ElizaosAnswer(text="up"), names=()) as server:
        agent, trial = an_agent(f"elizaos:{server.url}", tmp_path), a_trial(tmp_path, clock=SettableClock())
        with pytest.raises(AgentError, match="there is no agent, after 30 s"):
            await agent.open(trial)
        await agent.close()


async def test_one_of_several_agents_is_named(tmp_path):
    async with ElizaosServer(ElizaosAnswer(text="x"), names=("Ada", "Bob")) as server:
        await replies(tmp_path, f"{server.url}#bob")
        with pytest.raises(AgentError, match=r"2 matching agents \(its agents: Ada, Bob\); name one"):
            await replies(tmp_path, server.url)
        with pytest.raises(AgentError, match="no agent 'Eve'"):
            await replies(tmp_path, f"{server.url}#Eve")


async def test_an_exchange_that_was_had_elsewhere_is_written_down(tmp_path):
    asked = Turn(messages=(Message(role="system", content="be brief"), Message(role="user", content="hi")))
    async with ElizaosServer(ElizaosAnswer(text="x")) as server:
        _, trial = await replies(tmp_path, server.url, asked)
        assert list(server.heard.values()) == [["system: be brief\n\nuser: hi"]]
    assert any("2 messages were sent as one text" in e.message for e in trial.events if isinstance(e, Noted))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ElizaosAnswer(body=b"<html>Welcome</html>"), "without a JSON object: '<html>Welcome"),
        (ElizaosAnswer(status=500, text="it fell over"), "answered 500: it fell over"),
        (ElizaosAnswer(status=502, body=b"<html>Bad gateway</html>"), "answered 502 without a JSON object"),
    ],
)
async def test_what_goes_wrong_is_one_error_that_names_the_call(tmp_path, answer, said):
    async with ElizaosServer(answer) as server:
        with pytest.raises(AgentError, match=said) as raised:
            await replies(tmp_path, server.url)
    assert "/messages" in str(raised.value)


async def test_a_page_instead_of_the_api_is_an_error(tmp_path):
    async with ElizaosServer(ElizaosAnswer(text="x")) as server:
        with pytest.raises(AgentError, match="answered 404: no such path"):
            await replies(tmp_path, f"{server.url}/elsewhere")
        url = server.url
    with pytest.raises(AgentError, match=f"GET {url}/api/agents: nothing listens at"):
        await replies(tmp_path, url)


@pytest.mark.parametrize("runs", ["lost", "empty", "begun"])
@pytest.mark.parametrize("answer", [ElizaosAnswer(text="x"), ElizaosAnswer(silent=True)], ids=["says", "silent"])
async def test_actions_that_cannot_be_known_are_not_taken_for_none(tmp_path, answer, runs):
    async with ElizaosServer(answer, runs=runs) as server:
        agent, trial = an_agent(f"elizaos:{server.url}", tmp_path), a_trial(tmp_path)
        await agent.open(trial)
        with pytest.raises(AgentError, match="it is unknown what the agent did"):
            await agent.respond(turn("hi", deadline=trial.clock.now() + 0.5))
        await agent.close()


async def test_one_that_hangs_is_an_error_after_its_limit(tmp_path):
    async with ElizaosServer(ElizaosAnswer(hang=True)) as server:
        with pytest.raises(AgentError, match=r"within 0\.2 s"):
            await replies(tmp_path, server.url, options={"timeout_s": 0.2})


async def test_a_cancelled_turn_is_left_to_its_session_and_the_next_has_its_own(tmp_path):
    def say(heard):
        return ElizaosAnswer(hang=True) if heard == ["hang"] else ElizaosAnswer(text="fresh")

    async with ElizaosServer(say) as server:
        agent, trial = an_agent(f"elizaos:{server.url}", tmp_path), a_trial(tmp_path)
        await agent.open(trial)
        hanging = asyncio.create_task(agent.respond(turn("hang")))
        await server.until_heard()
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        assert (await agent.respond(turn("hang", "", "go on"))).text == "fresh"
        assert len(server.sessions) == 2
        await agent.close()
        await asyncio.sleep(0.01)
        assert server.open_connections == 0


@pytest.mark.parametrize("target", ["", "localhost:3000", "ftp://x", "http://u:p@host", "http://host?key=k"])
def test_an_invalid_address_is_reported_before_anything_runs(tmp_path, target):
    with pytest.raises(SetupError, match=r"^agent elizaos:.*expected elizaos:URL"):
        an_agent(f"elizaos:{target}", tmp_path)


def test_without_aiohttp_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(SetupError, match=r"needs the package aiohttp .*steadyhand\[elizaos\]"):
        an_agent("elizaos:http://127.0.0.1:3000", tmp_path)


async def test_what_its_last_action_says_is_part_of_the_reply(tmp_path):
    async with ElizaosServer(ElizaosAnswer(text="Looking.", later="It is on its way.")) as server:
        (reply,), _ = await replies(tmp_path, server.url)
    assert reply.text == "Looking.\n\nIt is on its way."
    async with ElizaosServer(ElizaosAnswer(text="Done.", later="Done.")) as server:
        (reply,), _ = await replies(tmp_path, server.url)
    assert reply.text == "Done."


SETTINGS = {"secrets": {"URL": "{mocks_url}"}, "mcp": {"servers": {"shop": {"args": ["mcp", "{mcp_url}"], "retry": 3}}}}


async def test_with_settings_each_trial_has_a_copy_of_the_agent_that_leads_to_it(tmp_path):
    async with ElizaosServer(ElizaosAnswer(text="hello")) as server, gateway_of(tmp_path) as (gateway, trial):
        options = {"settings": SETTINGS, "settle_s": 0}
        agent = an_agent(f"elizaos:{server.url}#Eliza", tmp_path, options=options, gateway=gateway)
        beside = an_agent(f"elizaos:{server.url}", tmp_path, options=options, gateway=gateway)
        await agent.open(trial)
        await beside.open(trial)  # it copies the agent, not the other copy
        await agent.respond(turn("hi"))
        ids = list(server.characters)
        assert len(ids) == 2
        made = server.characters[ids[0]]
        assert (made["name"], made["plugins"], made["settings"]["secrets"]) == (
            "Eliza", ["sql"], {"KEY": "iv:kept", "URL": trial.addresses.names["mocks_url"]},
        )  # fmt: skip
        shop = {"args": ["mcp", trial.addresses.names["mcp_url"]], "retry": 3}
        assert made["settings"]["mcp"]["servers"] == {"shop": shop}
        assert "status" not in made
        assert (agent.shows.services, agent.shows.database, agent.shows.model_calls) == ("seen", "seen", "not_seen")
        await agent.close()
        await agent.close()
        await beside.close()
        assert server.removed == ids


async def test_settings_with_an_address_that_there_is_not_stop_the_run_before_it_starts(tmp_path):
    with pytest.raises(
        SetupError, match=r"settings\.secrets\.URL: unknown address \{mocks_url\} \(available in this run"
    ):
        an_agent("elizaos:http://127.0.0.1:3000", tmp_path, options={"settings": SETTINGS})
