"""The MCP server of a trial, as the protocol has it: versions, errors, and messages that are not served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from steadyhand.gateway.server import GatewayServer
from steadyhand.records.scenario import Mock
from steadyhand.runtime.mocks import MockTable
from steadyhand.runtime.runtime import AgentRuntime
from support.trial import HERE, Clock, TrialStandIn, a_scenario

MOCKS = (Mock(method="greet", service="shop", place=HERE, response={"said": "Hello"}),)
VERSIONS = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
NEW = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}


@pytest.fixture
async def url(server: GatewayServer, tmp_path: Path) -> str:
    trial = TrialStandIn(tmp_path, a_scenario(mocks=MOCKS))
    table = MockTable(MOCKS, scripts=None, random=trial.random, clock=Clock())  # type: ignore[arg-type]
    trial.services = AgentRuntime(mocks=table)
    await trial.services.open(trial)  # type: ignore[arg-type]
    endpoint = await server.open_endpoint(trial)
    return server.addresses(endpoint.address).names["mcp_url"]


async def post(url: str, body: Any) -> tuple[int, Any]:
    text = {"data": body} if isinstance(body, bytes) else {"json": body}
    async with aiohttp.ClientSession() as client, client.post(url, **text) as answer:
        return answer.status, await answer.json() if await answer.read() else None


async def ask(url: str, method: str, **params: Any) -> tuple[int, Any]:
    status, answer = await post(url, {"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
    assert (answer.pop("jsonrpc"), answer.pop("id")) == ("2.0", 7)
    return status, answer


@pytest.mark.parametrize(
    ("asked", "agreed"), [*((each, each) for each in VERSIONS[1:]), ("2026-07-28", "2025-11-25"), (3, "2025-11-25")]
)
async def test_a_version_is_agreed_on(url: str, asked: Any, agreed: str) -> None:
    status, answer = await ask(url, "initialize", protocolVersion=asked)
    assert (status, answer["result"]["protocolVersion"]) == (200, agreed)


async def test_a_client_of_either_kind_lists_and_calls_tools(url: str) -> None:
    content = [{"type": "text", "text": '{"said":"Hello"}'}]
    called = {"content": content, "isError": False, "structuredContent": {"said": "Hello"}}
    assert await ask(url, "tools/call", name="greet") == (200, {"result": called})
    assert await ask(url, "tools/call", name="greet", **NEW) == (200, {"result": {"resultType": "complete", **called}})
    (tool,) = (await ask(url, "tools/list"))[1]["result"]["tools"]
    assert (tool["name"], tool["inputSchema"]["type"]) == ("greet", "object")
    listed = (await ask(url, "tools/list", **NEW))[1]["result"]
    assert listed == {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [tool]}
    assert (await ask(url, "server/discover", **NEW))[1]["result"]["supportedVersions"] == VERSIONS
    assert await ask(url, "ping") == (200, {"result": {}})


async def test_what_is_not_served_is_refused_as_the_protocol_says(url: str) -> None:
    assert await ask(url, "prompts/list") == (
        200,
        {"error": {"code": -32601, "message": "this server has no method 'prompts/list'"}},
    )
    assert (await ask(url, "prompts/list", **NEW))[0] == 404
    status, answer = await ask(url, "tools/list", _meta={"io.modelcontextprotocol/protocolVersion": "2031-01-01"})
    assert (status, answer["error"]["code"]) == (400, -32022)
    assert answer["error"]["data"] == {"supported": VERSIONS, "requested": "2031-01-01"}
    assert (await ask(url, "tools/call", arguments={}))[1]["error"]["code"] == -32602
    assert (await ask(url, "tools/call", name="greet", arguments=[1]))[1]["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("body", "code"), [(b"{", -32700), (b"\xff", -32700), ([{"id": 1}], -32600), ({"id": 1, "params": 3}, -32600)]
)
async def test_what_is_no_message_is_refused(url: str, body: Any, code: int) -> None:
    status, answer = await post(url, body)
    assert (status, answer["id"], answer["error"]["code"]) == (400, None, code)


@pytest.mark.parametrize("body", [{"jsonrpc": "2.0", "method": "notifications/initialized"}, {"id": 3, "result": {}}])
async def test_what_needs_no_answer_is_accepted(url: str, body: Any) -> None:
    assert await post(url, body) == (202, None)
