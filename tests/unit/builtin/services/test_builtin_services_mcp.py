"""A real MCP server behind the mocks: a real process over stdio, and over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from steadyhand.builtin.environments.local import LocalEnvironment
from steadyhand.errors import ServiceError, SetupError
from steadyhand.gateway.run import run_gateway
from steadyhand.plugins.plugin import EnvironmentSettings
from steadyhand.ports.services import ServiceFault
from steadyhand.records.event import ActionTaken, Noted, ServiceCalled
from steadyhand.records.scenario import Mock, MockFault, MockWhen, RealService
from steadyhand.runtime.mocks import MockTable
from steadyhand.runtime.runtime import AgentRuntime
from support.late import Late
from support.loopback import free_port
from support.trial import HERE, Clock, TrialStandIn, a_scenario
from support.warm_program import warm

mcp = Late("mcp")
mcp_http = Late("mcp.client.streamable_http")
mcp_connection = Late("steadyhand.builtin.services.mcp_connection")

SHOP = Path(__file__).parents[3] / "support" / "mcp_shop.py"
# `make test-mcp` runs this file again, with servers that use the other major of the package.
PYTHON = os.environ.get("STEADYHAND_MCP_PYTHON", sys.executable)
PROGRAM = shlex.join([PYTHON, str(SHOP)])
OWN_SCHEMA = {"type": "object", "properties": {"number": {"type": "string", "pattern": "A-.*"}}}


def shop_command() -> str:
    return warm("mcp_shop", PYTHON)


class Shop:
    """A trial with the shop behind its mocks."""

    def __init__(self, runtime: AgentRuntime, trial: TrialStandIn) -> None:
        self.runtime = runtime
        self.trial = trial

    async def call(self, method: str, *args: Any, **named: Any) -> Any:
        return await self.runtime.call("shop", method, list(args), named)

    async def broken(self) -> str:
        return str(await self.runtime.broken())


def url_of_shop(*options: str) -> tuple[str, subprocess.Popen[str]]:
    command = [*shlex.split(shop_command()), "--http", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process.stdout.readline().strip(), process


@dataclass(frozen=True)
class Standing:
    """Where a shop is, and what it has logged since."""

    mcp: str
    log: Path
    before: int = 0

    @property
    def reached(self) -> list[dict[str, Any]]:
        """The calls that reached the real server."""
        return [json.loads(line) for line in self.log.read_text().splitlines()[self.before :]]

    @property
    def headers(self) -> list[dict[str, str]]:
        """The headers of every request so far."""
        return [json.loads(line) for line in Path(f"{self.log}.headers").read_text().splitlines()]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    """One shop at a URL, shared by all tests that do it no harm."""
    log = tmp_path_factory.mktemp("shop") / "log"
    log.touch()
    Path(f"{log}.headers").touch()
    url, process = url_of_shop("--log", str(log))
    yield Standing(url, log)
    process.kill()
    process.communicate()


@pytest.fixture
def at_url(served: Standing) -> Standing:
    return Standing(served.mcp, served.log, len(served.log.read_text().splitlines()))


@pytest.fixture(params=["stdio", "http"])
def where(request: pytest.FixtureRequest, at_url: Standing, tmp_path: Path) -> Standing:
    if request.param == "http":
        return at_url
    log = tmp_path / "log"
    log.touch()
    return Standing(f"{shop_command()} --log {log}", log)


@asynccontextmanager
async def opened(
    folder: Path,
    mcp: str,
    *mocks: Mock,
    timeout_ms: float = 20_000,
    options: dict[str, Any] | None = None,
    variables: dict[str, str] | None = None,
    live: bool = False,
) -> AsyncIterator[Shop]:
    service = RealService(name="shop", mcp=mcp, place=HERE, timeout_ms=timeout_ms)
    provided = mcp_connection.mcp_service(
        service, folder=folder, variables=variables or dict(os.environ), options=options or {}
    )
    trial = TrialStandIn(folder, a_scenario(mocks=mocks), live=live)
    environment = LocalEnvironment(EnvironmentSettings(root=folder / "workspaces", trial_id="t"))
    trial.environment = environment  # type: ignore[assignment]
    table = MockTable(mocks, scripts=None, random=trial.random, clock=Clock())  # type: ignore[arg-type]
    runtime = AgentRuntime(mocks=table, services={"shop": provided})
    trial.services = runtime
    try:
        await environment.setup([])
        await runtime.open(trial)  # type: ignore[arg-type]
        yield Shop(runtime, trial)
    finally:
        await runtime.close()
        await environment.teardown()


@asynccontextmanager
async def served_by(handle: Any) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/mcp", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        await runner.cleanup()


def mock(method: str, **fields: Any) -> Mock:
    return Mock(method=method, service="shop", place=HERE, **fields)


async def test_what_no_mock_matches_goes_to_the_real_server_and_is_recorded(where: Standing, tmp_path: Path) -> None:
    mocked = mock("lookup", when=MockWhen(input={"number": "A-1"}), response={"state": "mocked"})
    failing = mock("refund", error=MockFault(code="LIMIT", message="too much", status=409))
    async with opened(tmp_path, where.mcp, mocked, failing) as shop:
        assert await shop.call("lookup", number="A-1") == {"state": "mocked"}
        assert await shop.call("lookup", number="B-2") == {"number": "B-2", "state": "sent"}
        assert await shop.call("lookup", {"number": "C-3"}) == {"number": "C-3", "state": "sent"}
        assert await shop.call("greet", name="Ann") == "Hello, Ann"
        with pytest.raises(ServiceFault, match="too much"):
            await shop.call("refund", number="A-1")
        assert where.reached == [
            {"tool": "lookup", "number": "B-2"},
            {"tool": "lookup", "number": "C-3"},
            {"tool": "greet", "name": "Ann"},
        ]
        calls = shop.trial.of(ServiceCalled)
        assert [(call.method, call.input, call.result, call.mock is not None) for call in calls] == [
            ("lookup", {"number": "A-1"}, {"state": "mocked"}, True),
            ("lookup", {"number": "B-2"}, {"number": "B-2", "state": "sent"}, False),
            ("lookup", {}, {"number": "C-3", "state": "sent"}, False),
            ("greet", {"name": "Ann"}, "Hello, Ann", False),
            ("refund", {"number": "A-1"}, None, True),
        ]
        assert all(call.duration_ms > 0 for call in calls)
        assert await shop.runtime.broken() is None


async def test_live_asks_the_real_server_only(at_url: Standing, tmp_path: Path) -> None:
    async with opened(
        tmp_path, at_url.mcp, mock("greet", response="mocked"), mock("own", response=1), live=True
    ) as shop:
        assert await shop.call("greet", name="Ann") == "Hello, Ann"
        assert "own" not in {method.method for method in await shop.runtime.offered()}


async def test_the_tools_are_those_of_both_and_mocks_win(at_url: Standing, tmp_path: Path) -> None:
    mocks = (
        mock("lookup", response=1, description="Our own words.", parameters=OWN_SCHEMA),
        mock("greet", response="hi"),
        mock("cancel", response=True),
        Mock(method="words", place=HERE, response=0),
        Mock(method="anywhere", place=HERE, response=0),
    )
    async with opened(tmp_path, at_url.mcp, *mocks) as shop:
        offered = {(each.service, each.method): each for each in await shop.runtime.offered()}
    assert ("shop", "cancel") in offered
    assert ("", "anywhere") in offered
    assert ("", "words") not in offered, "the mock covers the tool that is there"
    told = offered["shop", "lookup"]
    assert (told.description, told.parameters) == ("Our own words.", OWN_SCHEMA)
    real = offered["shop", "greet"]
    assert (real.description, real.parameters["required"]) == ("Says hello.", ["name"])
    assert real.parameters["properties"]["name"]["type"] == "string"


async def test_what_a_tool_refuses_is_for_the_agent_to_handle(at_url: Standing, tmp_path: Path) -> None:
    async with opened(tmp_path, at_url.mcp) as shop:
        with pytest.raises(ServiceFault, match="the till is empty") as refused:
            await shop.call("refund", number="A-1")
        assert refused.value.code == "TOOL_ERROR"
        with pytest.raises(ServiceFault, match="name"):
            await shop.call("greet", nam="Ann")
        with pytest.raises(ServiceFault, match=r"has no method 'delete' \(it has: lookup") as unknown:
            await shop.call("delete")
        assert unknown.value.code == "METHOD_NOT_FOUND"
        with pytest.raises(ServiceFault, match="named parameters only"):
            await shop.call("greet", "Ann")
        assert await shop.runtime.broken() is None
        assert shop.trial.of(ServiceCalled)[0].error == "Error executing tool refund: the till is empty"


async def test_a_parameter_that_is_called_args_reaches_the_tool(where: Standing, tmp_path: Path) -> None:
    async with opened(tmp_path, where.mcp) as shop:
        assert await shop.call("words", "a", "b") == 2
        assert await shop.call("words") == 0
        assert [call["args"] for call in where.reached] == [["a", "b"], []]


async def test_tools_that_are_added_are_found(at_url: Standing, tmp_path: Path) -> None:
    async with opened(tmp_path, at_url.mcp) as shop:
        assert await shop.call("open_the_back_room") == "open"
        assert "secret" in {each.method for each in await shop.runtime.offered()}
        assert await shop.call("secret") == "found"


async def test_an_agent_that_speaks_mcp_gets_what_the_server_said(where: Standing, tmp_path: Path) -> None:
    server = run_gateway()
    async with opened(
        tmp_path, where.mcp, mock("lookup", when=MockWhen(input={"number": "A-1"}), response="ours")
    ) as shop:
        endpoint = await server.open_endpoint(shop.trial)  # type: ignore[arg-type]
        url = server.addresses(endpoint.address).names["mcp_url"]
        async with mcp_http.streamable_http_client(url) as (read, write, _), mcp.ClientSession(read, write) as client:
            await client.initialize()
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert tools["greet"].inputSchema["required"] == ["name"]
            greeted = await client.call_tool("greet", {"name": "Ann"})
            assert (greeted.content[0].text, greeted.structuredContent) == ("Hello, Ann", {"result": "Hello, Ann"})
            assert (await client.call_tool("lookup", {"number": "A-1"})).content[0].text == "ours"
            (image,) = (await client.call_tool("picture", {})).content
            assert (image.type, image.mimeType) == ("image", "image/png")
            assert (await client.call_tool("words", {"args": ["a"]})).content[0].text == "1"
            refused = await client.call_tool("refund", {"number": "A-1"})
            assert (refused.isError, "the till is empty" in refused.content[0].text) == (True, True)
        mocks_url = server.addresses(endpoint.address).names["mocks_url"]
        async with aiohttp.ClientSession() as http, http.post(f"{mocks_url}/shop/greet", json={"name": "Bo"}) as answer:
            assert await answer.json() == {"result": "Hello, Bo"}
        assert [action.name for action in shop.trial.of(ActionTaken)] == [
            "greet",
            "lookup",
            "picture",
            "words",
            "refund",
        ]
        await server.close()


async def test_the_program_runs_in_the_workspace_without_our_keys_and_ends_with_the_trial(tmp_path: Path) -> None:
    variables = {**os.environ, "OPENAI_API_KEY": "sk-secret-of-ours", "TOKEN": "for-the-shop"}
    async with opened(tmp_path, f"SHOP_TOKEN=$TOKEN {PROGRAM}", variables=variables) as shop:
        seen = await shop.call("surroundings")
        assert Path(seen["folder"]).is_relative_to(tmp_path / "workspaces")
        assert seen["env"]["SHOP_TOKEN"] == "for-the-shop"
        assert "sk-secret-of-ours" not in json.dumps(seen)
        os.kill(seen["pid"], 0)
    with pytest.raises(ProcessLookupError):
        os.kill(seen["pid"], 0)


async def test_each_trial_has_a_process_of_its_own(tmp_path: Path) -> None:
    async with opened(tmp_path, shop_command()) as one, opened(tmp_path, shop_command()) as other:
        assert (await one.call("surroundings"))["pid"] != (await other.call("surroundings"))["pid"]


FAILING = [
    ("die", {}, "exited with code 7; stderr: the shop burns"),
    ("flood", {"mib": 17}, "sent an answer of more than 16 MiB"),
    ("wait", {"seconds": 30}, "did not answer 'wait' within 1 s"),
    ("say", {"line": '{"jsonrpc": "2.0", "broken": '}, "to stdout, which is not an MCP message"),
    ("say", {"line": "DEBUG: found 3 orders"}, "to stdout, which is not an MCP message"),
]


@pytest.mark.parametrize(
    ("tool", "given", "reason"), FAILING, ids=[f"{each[0]} {number}" for number, each in enumerate(FAILING)]
)
async def test_a_server_that_fails_is_an_error_of_the_trial(
    tmp_path: Path, tool: str, given: dict[str, Any], reason: str
) -> None:
    if tool == "say" and sys.executable != PYTHON:
        pytest.skip("version 2 of the package keeps what its tools print off stdout")
    async with opened(tmp_path, shop_command(), timeout_ms=1_000 if tool == "wait" else 20_000) as shop:
        with pytest.raises(ServiceError) as failed:
            await shop.call(tool, **given)
        assert str(failed.value).startswith(f"service 'shop': the MCP server `{shop_command()}` ")
        assert reason in str(failed.value)
        with pytest.raises(ServiceError) as again:
            await shop.call("greet", name="Ann")
        assert str(again.value) == str(failed.value), "what follows is told by its cause"
        assert await shop.broken() == str(failed.value)
        assert shop.trial.of(ServiceCalled)[0].error == str(failed.value)


@pytest.mark.parametrize(("tool", "given", "reason"), FAILING[1:3], ids=[each[0] for each in FAILING[1:3]])
async def test_so_is_one_at_a_url(
    at_url: Standing, tmp_path: Path, tool: str, given: dict[str, Any], reason: str
) -> None:
    async with opened(tmp_path, at_url.mcp, timeout_ms=1_000 if tool == "wait" else 20_000) as shop:
        with pytest.raises(ServiceError, match=f"service 'shop': the MCP server at {at_url.mcp} {reason}"):
            await shop.call(tool, **given)
        assert reason in await shop.broken()


async def test_so_is_one_at_a_url_that_dies(tmp_path: Path) -> None:
    url, process = url_of_shop()
    try:
        async with opened(tmp_path, url) as shop:
            with pytest.raises(ServiceError, match="did not finish its answer"):
                await shop.call("die")
    finally:
        process.kill()
        process.communicate()


async def test_an_agent_that_gives_up_on_a_hanging_server_does_not_hide_it(tmp_path: Path) -> None:
    async with opened(tmp_path, shop_command(), timeout_ms=1_500) as shop:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await shop.call("wait", seconds=30)
        assert "did not answer 'wait' within 1.5 s" in await shop.broken()


async def test_an_agent_that_gives_up_on_a_slow_server_has_itself_to_blame(tmp_path: Path) -> None:
    async with opened(tmp_path, shop_command()) as shop:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await shop.call("wait", seconds=0.5)
        assert await shop.runtime.broken() is None
        assert shop.trial.of(ServiceCalled)[0].error == "interrupted before it answered"


async def test_a_greeting_on_stdout_is_noted(tmp_path: Path) -> None:
    async with opened(tmp_path, f"{shop_command()} --greet-first") as shop:
        assert await shop.call("greet", name="Ann") == "Hello, Ann"
        (note,) = shop.trial.of(Noted)
    assert (note.level, "wrote 'The shop is open.' to stdout" in note.message) == ("warning", True)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (
            f"{sys.executable} -c 'import sys; sys.exit(\"no shop today\")'",
            "exited with code 1; stderr: no",
        ),
        (f"{sys.executable} -c 'import time; time.sleep(60)'", "did not start within 1 s"),
        (f"{sys.executable} -c 'print(chr(123), flush=True); input()'", "to stdout, which is not an MCP message"),
    ],
)
async def test_a_program_that_is_not_a_server(tmp_path: Path, command: str, reason: str) -> None:
    limit = 1.0 if "sleep" in command else 30.0
    with pytest.raises(ServiceError) as failed:
        async with opened(tmp_path, command, options={"start_timeout_s": limit}):
            pass
    assert reason in str(failed.value)


async def test_nobody_is_at_the_url(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}/mcp?key=secret"
    with pytest.raises(ServiceError, match="cannot be reached") as failed:
        async with opened(tmp_path, url):
            pass
    assert "secret" not in str(failed.value)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (web.Response(status=401), "answered with status 401"),
        (web.Response(status=503), "answered with status 503"),
        (web.Response(status=307, headers={"Location": "http://127.0.0.1:9/mcp"}), "answered with status 307"),
        (web.Response(text="<html>", content_type="text/html"), "sent a message that cannot be read"),
        (web.Response(text="{}", content_type="application/json"), "sent a message that cannot be read"),
    ],
)
async def test_something_else_is_at_the_url(tmp_path: Path, answer: web.Response, reason: str) -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(status=answer.status, body=answer.body, headers=answer.headers)

    with pytest.raises(ServiceError) as failed:
        async with served_by(handle) as url, opened(tmp_path, url, options={"start_timeout_s": 5}):
            pass
    assert reason in str(failed.value)


async def test_a_url_gets_the_headers_that_are_configured_for_it(at_url: Standing, tmp_path: Path) -> None:
    before = len(at_url.headers)
    options = {"api_key_env": "SHOP_KEY", "headers": {"X-Team": "desk"}}
    async with opened(tmp_path, at_url.mcp, options=options, variables={"SHOP_KEY": "k-1234567"}) as shop:
        assert await shop.call("greet", name="Ann") == "Hello, Ann"
    asked = at_url.headers[before:]
    assert {(each["authorization"], each["x-team"]) for each in asked} == {("Bearer k-1234567", "desk")}


@pytest.mark.parametrize(
    ("mcp", "options", "message"),
    [
        ("no-such-shop --now", {}, r"service shop: no-such-shop --now: program not found: 'no-such-shop'"),
        ("python ./nowhere.py", {}, "file not found: './nowhere.py'"),
        ("KEY=$NOWHERE python x", {}, r"KEY uses \$NOWHERE, which is not set"),
        (PROGRAM, {"api_key_env": "SHOP_KEY"}, "option api_key_env is for an MCP server at a URL"),
        ("http://127.0.0.1:9/mcp", {"api_key_env": "SHOP_KEY"}, "option api_key_env: SHOP_KEY is not set"),
        (PROGRAM, {"timeout": 1}, "option timeout: unknown"),
    ],
)
def test_what_cannot_be_set_up(tmp_path: Path, mcp: str, options: dict[str, Any], message: str) -> None:
    service = RealService(name="shop", mcp=mcp, place=HERE)
    with pytest.raises(SetupError, match=message):
        mcp_connection.mcp_service(service, folder=tmp_path, variables={"PATH": os.environ["PATH"]}, options=options)


class Modern:
    """A server that speaks only the version of the protocol in which each request names its version."""

    def __init__(self) -> None:
        self.asked: list[tuple[dict[str, Any], dict[str, str]]] = []

    async def handle(self, request: web.Request) -> web.Response:
        message = await request.json()
        self.asked.append((message, {name.lower(): value for name, value in request.headers.items()}))
        about: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] == "initialize":
            error = {"code": -32022, "message": "another version", "data": {"supported": ["2026-07-28"]}}
            return web.json_response({**about, "error": error}, status=400)
        results: dict[str, Any] = {
            "tools/list": {"tools": [{"name": "greet", "inputSchema": {"type": "object"}}]},
            "tools/call": {"resultType": "complete", "content": [{"type": "text", "text": "Hello"}]},
        }
        return web.json_response({**about, "result": results[message["method"]]})


async def test_a_server_without_sessions_is_asked_in_its_version(tmp_path: Path) -> None:
    server = Modern()
    async with served_by(server.handle) as url, opened(tmp_path, url) as shop:
        assert await shop.call("greet", name="Ann") == "Hello"
    message, headers = server.asked[-1]
    assert [message["method"] for message, _ in server.asked] == ["initialize", "tools/list", "tools/call"]
    assert message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert [headers[name] for name in ("mcp-protocol-version", "mcp-method", "mcp-name")] == [
        "2026-07-28",
        "tools/call",
        "greet",
    ]


async def test_what_a_server_asks_of_us_is_answered(tmp_path: Path) -> None:
    asked = '{"jsonrpc": "2.0", "id": "p-1", "method": "ping"}'
    program = f"""import json, sys
def say(message): print(json.dumps(message), flush=True)
def answer(line, result): say({{"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": result}})
answer(sys.stdin.readline(), {{"protocolVersion": "2025-03-26", "capabilities": {{}}, "serverInfo": {{}}}})
assert "initialized" in sys.stdin.readline()
answer(sys.stdin.readline(), {{"tools": [{{"name": "pinged", "inputSchema": {{}}}}]}})
call = sys.stdin.readline()
print({asked!r}, flush=True)
ping = json.loads(sys.stdin.readline())
answer(call, {{"content": [{{"type": "text", "text": json.dumps(ping)}}]}})
sys.stdin.read()
"""
    (tmp_path / "server.py").write_text(program)
    async with opened(tmp_path, f"{shlex.quote(sys.executable)} ./server.py") as shop:
        assert json.loads(await shop.call("pinged")) == {"jsonrpc": "2.0", "id": "p-1", "result": {}}


async def test_what_the_client_does_not_know_stays_off_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    odd = '{"jsonrpc": "2.0", "id": 99, "method": "foo/bar", "params": {"secret": "hunter2"}}'
    async with opened(tmp_path, shop_command()) as shop:
        await shop.call("say", line=odd)
        assert await shop.call("greet", name="Ann") == "Hello, Ann"
    assert "hunter2" not in capfd.readouterr().err
