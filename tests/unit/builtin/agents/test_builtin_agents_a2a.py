"""The `a2a` agent, against a real agent built with the official SDK on loopback."""

from __future__ import annotations

import asyncio
import json
import tomllib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from google.protobuf.struct_pb2 import Value

from steadyhand.engine.context import RunningTrial
from steadyhand.errors import AgentError, ModelError, SetupError
from steadyhand.plugins.extras import WANTED
from steadyhand.ports.agent import Addresses, Agent, shows_of
from steadyhand.records.chat import FinishReason, Message
from steadyhand.records.event import ModelCalled, Noted
from support.agents import a_trial, an_agent, turn
from support.late import Late
from support.loopback import free_port

if TYPE_CHECKING:
    from support.a2a_server import A2aServer, Heard, Work

a2a_types = Late("a2a.types")
agents = Late("support.a2a_server")

ROOT = Path(__file__).parents[4]


@asynccontextmanager
async def talking(
    folder: Path,
    work: Work,
    *,
    options: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    **at: Any,
) -> AsyncIterator[tuple[Agent, RunningTrial, A2aServer]]:
    trial = a_trial(folder)
    await trial.environment.setup([])
    async with agents.a2a_server(work, **at) as server:
        agent = an_agent(f"a2a:{server.url}", folder, options=options or {}, **(settings or {}))
        try:
            await agent.open(trial)
            yield agent, trial, server
        finally:
            await agent.close()
            await trial.environment.teardown()


def calls(trial: RunningTrial) -> list[ModelCalled]:
    return [event for event in trial.events if isinstance(event, ModelCalled)]


def notes(trial: RunningTrial) -> list[str]:
    return [event.message for event in trial.events if isinstance(event, Noted)]


async def in_pieces(heard: Heard) -> None:
    await heard.begin()
    await heard.updater.start_work(heard.message("looking it up"))
    await heard.hand_over(a2a_types.Part(text="It was "))
    await asyncio.sleep(0.05)
    await heard.hand_over(a2a_types.Part(text="sent."), append=True)
    await heard.updater.complete()


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("streaming", [True, False])
async def test_a_task_is_answered_whole_or_in_pieces(tmp_path: Path, streaming: bool, binding: str) -> None:
    async with talking(tmp_path, in_pieces, streaming=streaming, binding=binding) as (agent, trial, server):
        assert (await agent.respond(turn("Where is it?"))).text == "It was sent."
        (call,) = calls(trial)
        attempt = call.timing.attempts[-1]
        assert (call.text, attempt.streamed) == ("It was sent.", streaming)
        assert attempt.sent_ms is not None
        assert attempt.first_token_ms is not None
        assert attempt.last_byte_ms is not None
        if streaming:
            assert attempt.first_token_ms < attempt.last_byte_ms, "the first piece has a time of its own"
            assert any("reported while working: looking it up" in note for note in notes(trial))
        assert server.heard[0].headers["x-steadyhand-trial"].startswith("a#")


async def test_a_message_alone_is_an_answer_and_the_context_is_kept(tmp_path: Path) -> None:
    async def work(heard: Heard) -> None:
        await heard.say(f"You said {heard.text}.")

    async with talking(tmp_path, work) as (agent, trial, server):
        first = await agent.respond(turn("one"))
        assert first.text == "You said one."
        assert (await agent.respond(turn("one", first.text, "two"))).text == "You said two."
        assert [heard.text for heard in server.heard] == ["one", "two"]
        assert len({heard.context_id for heard in server.heard}) == 1
        assert notes(trial) == []


async def test_a_question_of_the_agent_is_its_reply_and_the_next_turn_goes_on_with_its_task(tmp_path: Path) -> None:
    async def work(heard: Heard) -> None:
        await heard.begin()
        if not heard.continues:
            await heard.hand_over(a2a_types.Part(text="Noted."), artifact="first")
            await heard.updater.requires_input(heard.message("Which order?"))
            return
        await heard.hand_over(a2a_types.Part(text=f"{heard.text} is sent."), artifact="second")
        await heard.updater.complete()

    async with talking(tmp_path, work) as (agent, _, server):
        first = await agent.respond(turn("Where is it?"))
        assert first.text == "Which order?\nNoted."
        second = await agent.respond(turn("Where is it?", first.text, "A-1"))
        assert second.text == "A-1 is sent.", "what it handed over in an earlier turn is not told again"
        assert [heard.continues for heard in server.heard] == [False, True]


ENDINGS = {
    "failed": "its task failed: no luck",
    "cancel": "its task was cancelled: no luck",
    "requires_auth": r"it asks for credentials \(auth-required\): no luck",
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("streaming", [True, False])
async def test_a_task_that_does_not_end_well_is_an_error(tmp_path: Path, ending: str, streaming: bool) -> None:
    async def work(heard: Heard) -> None:
        await heard.begin()
        await getattr(heard.updater, ending)(heard.message("no luck"))

    async with talking(tmp_path, work, streaming=streaming) as (agent, _, _):
        with pytest.raises(AgentError, match=ENDINGS[ending]):
            await agent.respond(turn("Go."))


async def test_a_rejection_is_graded_as_a_refusal(tmp_path: Path) -> None:
    async def work(heard: Heard) -> None:
        await heard.begin()
        await heard.updater.reject(heard.message("I do not do that."))

    async with talking(tmp_path, work) as (agent, trial, _):
        assert (await agent.respond(turn("Go."))).text == "I do not do that."
        (call,) = calls(trial)
        assert call.finish is not None
        assert (call.finish.reason, call.finish.raw) == (FinishReason.REFUSAL, "rejected")


def _card(url: str) -> dict[str, Any]:
    interface = {"url": f"{url}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    return {"name": "x", "supportedInterfaces": [interface], "capabilities": {}, "version": "1"}


async def test_an_agent_that_answers_before_it_is_done_is_waited_for(tmp_path: Path) -> None:
    """A server may answer with a task that is still in progress."""
    asked = 0

    async def handle(request: web.Request) -> web.Response:
        nonlocal asked
        if request.method == "GET":
            return web.json_response(card)
        body = await request.json()
        asked += 1
        state = "TASK_STATE_COMPLETED" if asked == 3 else "TASK_STATE_WORKING"
        task: dict[str, Any] = {"id": "t", "contextId": "c", "status": {"state": state}}
        if asked == 3:
            task["artifacts"] = [{"artifactId": "a", "parts": [{"text": "Done."}]}]
        result = task if body["method"] == "GetTask" else {"task": task}
        return web.json_response({"jsonrpc": "2.0", "id": body["id"], "result": result})

    async with _app(handle) as url:
        card = _card(url)
        trial = a_trial(tmp_path)
        agent = an_agent(f"a2a:{url}", tmp_path)
        await agent.open(trial)
        assert (await agent.respond(turn("Go."))).text == "Done."
        await agent.close()
        assert asked == 3


@asynccontextmanager
async def _app(handle: Callable[[web.Request], Any]) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


async def test_what_it_hands_over_becomes_text_and_files(tmp_path: Path) -> None:
    async def work(heard: Heard) -> None:
        await heard.begin()
        data = Value()
        data.struct_value["total"] = 48
        await heard.hand_over(a2a_types.Part(data=data), artifact="data")
        await heard.hand_over(a2a_types.Part(text="a,b\n", filename="out/report.csv"), artifact="table")
        await heard.hand_over(
            a2a_types.Part(raw=b"\x89PNG", filename="../../plot.png", media_type="image/png"), artifact="plot"
        )
        await heard.hand_over(a2a_types.Part(url="https://shop.example/A-1"), artifact="link")
        await heard.updater.complete(heard.message("Here it is."))

    async with talking(tmp_path, work) as (agent, trial, _):
        assert shows_of(agent).files == "not_seen"
        with pytest.raises(AgentError, match="a file it returned cannot be saved"):
            await agent.respond(turn("Go."))
        assert await trial.environment.read("out/report.csv") == b"a,b\n"

    async def well(heard: Heard) -> None:
        await heard.begin()
        await heard.hand_over(a2a_types.Part(text="a,b\n", filename="/out/report.csv"), artifact="table")
        await heard.hand_over(a2a_types.Part(url="https://shop.example/A-1"), artifact="link")
        await heard.updater.complete(heard.message("Here it is."))

    async with talking(tmp_path, well) as (agent, trial, _):
        assert (await agent.respond(turn("Go."))).text == "Here it is.\nhttps://shop.example/A-1"
        assert await trial.environment.read("out/report.csv") == b"a,b\n"
        assert shows_of(agent).files == "self_reported"


async def test_a_system_message_is_sent_along_as_text(tmp_path: Path) -> None:
    async def work(heard: Heard) -> None:
        await heard.say("Yes.")

    asked = turn("Hello")
    asked = type(asked)(messages=(Message(role="system", content="Be brief."), *asked.messages), number=1)
    async with talking(tmp_path, work) as (agent, trial, server):
        await agent.respond(asked)
        assert server.heard[0].text == "system: Be brief.\n\nuser: Hello"
        assert any("2 messages were sent as one text" in note for note in notes(trial))


async def test_an_agent_that_takes_too_long_is_asked_to_stop(tmp_path: Path) -> None:
    async def work(heard: Heard) -> None:
        await heard.begin()
        await asyncio.Event().wait()

    async with talking(tmp_path, work, options={"timeout_s": 0.3}) as (agent, _, server):
        with pytest.raises(ModelError, match=r"no reply within 0.3 s; its task is working"):
            await agent.respond(turn("Go."))
        assert len(server.cancelled) == 1
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await agent.respond(turn("Go.", "?", "Go on.", deadline=1e12))
        assert len({heard.context_id for heard in server.heard}) == 2, "what was given up is not mistaken for this"


async def test_the_trial_and_its_trace_are_in_every_request(tmp_path: Path) -> None:
    async def work(heard: Heard) -> None:
        await heard.say("Yes.")

    options = {"headers": {"X-Tools": "{mcp_url}", "X-Team": "desk"}, "traces": "tools", "api_key_env": "DESK_KEY"}
    trial = a_trial(tmp_path)
    trial.addresses = Addresses(names={"mcp_url": "http://127.0.0.1:1/T/mcp", "trace_id": "ab" * 16})
    async with agents.a2a_server(work) as server:
        agent = an_agent(f"a2a:{server.url}", tmp_path, options=options, variables={"DESK_KEY": "k-1234567"})
        assert (shows_of(agent).services, shows_of(agent).traced, shows_of(agent).actions) == ("seen", True, "not_seen")
        await agent.open(trial)
        await agent.respond(turn("Go."))
        await agent.close()
        headers = server.heard[0].headers
    assert headers["x-tools"] == "http://127.0.0.1:1/T/mcp"
    assert (headers["x-team"], headers["authorization"]) == ("desk", "Bearer k-1234567")
    assert headers["traceparent"] == trial.addresses.traceparent(1)


@pytest.mark.parametrize(("chosen", "sent"), [(True, True), (False, False)])
async def test_the_general_key_goes_only_where_the_user_says(tmp_path: Path, chosen: bool, sent: bool) -> None:
    async def work(heard: Heard) -> None:
        await heard.say("Yes.")

    settings = {"variables": {"STEADYHAND_AGENT_KEY": "k-1234567"}, "default_key": chosen}
    async with talking(tmp_path, work, settings=settings) as (agent, _, server):
        await agent.respond(turn("Go."))
        assert ("authorization" in server.heard[0].headers) is sent


async def test_a_card_does_not_lead_a_key_to_another_server(tmp_path: Path) -> None:
    async def work(heard: Heard) -> None:
        raise AssertionError

    settings = {"variables": {"STEADYHAND_AGENT_KEY": "k-1234567"}}
    with pytest.raises(
        AgentError, match=r"its card points to a different server, http://127.0.0.2:1/rpc, which is sent no key"
    ):
        async with talking(tmp_path, work, elsewhere="http://127.0.0.2:1/rpc", settings=settings):
            pass


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"status": 404}, "its agent card cannot be read: .*404"),
        ({"status": 200, "text": "<html>"}, "its agent card cannot be read"),
        ({"status": 200, "text": '{"name": "x"}'}, "its card offers none; expected JSONRPC or"),
    ],
)
async def test_what_is_not_an_agent(tmp_path: Path, answer: dict[str, Any], reason: str) -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(**answer)

    async with _app(handle) as url:
        agent = an_agent(f"a2a:{url}", tmp_path)
        with pytest.raises(AgentError, match=reason):
            await agent.open(a_trial(tmp_path))
        await agent.close()


async def test_nobody_is_there(tmp_path: Path) -> None:
    agent = an_agent(f"a2a:http://127.0.0.1:{free_port()}", tmp_path)
    with pytest.raises(AgentError, match="its agent card cannot be read"):
        await agent.open(a_trial(tmp_path))
    await agent.close()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({"status": 500}, "server"),
        ({"status": 401}, "auth"),
        ({"status": 200, "text": "no json", "content_type": "application/json"}, "malformed"),
        ({"status": 200, "body": b"x" * (33 * 2**20), "content_type": "application/json"}, "stream"),
    ],
)
async def test_an_invalid_answer(tmp_path: Path, answer: dict[str, Any], kind: str) -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.json_response(card) if request.method == "GET" else web.Response(**answer)

    async with _app(handle) as url:
        card = _card(url)
        trial = a_trial(tmp_path)
        agent = an_agent(f"a2a:{url}", tmp_path)
        await agent.open(trial)
        with pytest.raises(ModelError) as failed:
            await agent.respond(turn("Go."))
        assert failed.value.kind == kind, str(failed.value)
        await agent.close()


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("rpc_id", ["another", None, "left out", "the call's"])
async def test_an_answer_must_have_the_id_of_its_call(tmp_path: Path, rpc_id: str | None, streaming: bool) -> None:
    async def handle(request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response(card)
        asked = (await request.json())["id"]
        message = {"messageId": "1", "role": "ROLE_AGENT", "parts": [{"text": "done"}]}
        answer = {"jsonrpc": "2.0", "id": asked if rpc_id == "the call's" else rpc_id, "result": {"message": message}}
        if rpc_id == "left out":
            del answer["id"]
        text = json.dumps(answer, indent=None if streaming else 2)
        kind = "text/event-stream" if streaming else "application/json"
        return web.Response(text=f"data: {text}\r\n\r\n" if streaming else text, content_type=kind)

    async with _app(handle) as url:
        card = {**_card(url), "capabilities": {"streaming": streaming}}
        agent = an_agent(f"a2a:{url}", tmp_path)
        await agent.open(a_trial(tmp_path))
        if rpc_id == "the call's":
            assert (await agent.respond(turn("Go."))).text == "done"
        else:
            with pytest.raises(ModelError, match="may belong to another call"):
                await agent.respond(turn("Go."))
        await agent.close()


@pytest.mark.parametrize("target", ["", "nowhere", "ftp://x", "http://ann:pw@host"])
def test_what_is_not_a_url(tmp_path: Path, target: str) -> None:
    with pytest.raises(SetupError, match="expected a2a:URL, such as"):
        an_agent(f"a2a:{target}", tmp_path)


def test_the_versions_that_we_ask_for_are_those_of_the_extras() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {extra: [f"{package}{versions}"] for extra, (package, versions) in WANTED.items()} == {
        extra: extras[extra] for extra in WANTED
    }
