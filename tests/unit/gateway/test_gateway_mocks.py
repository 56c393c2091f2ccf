"""Mocks over HTTP and over MCP: the same matching, delays and faults, and every call in the record."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from steadyhand.gateway.server import GatewayServer
from steadyhand.ports.services import Action
from steadyhand.records.event import ActionTaken, Observed, ServiceCalled
from steadyhand.records.scenario import Mock, MockFault, MockWhen
from steadyhand.runtime.mocks import MockTable
from steadyhand.runtime.runtime import AgentRuntime
from support.late import Late
from support.trial import HERE, Clock, TrialStandIn, a_scenario

mcp = Late("mcp")
http = Late("mcp.client.streamable_http")
mcp_types = Late("mcp.types")

SCHEMA = {"type": "object", "properties": {"number": {"type": "string"}}, "required": ["number"]}
MOCKS = (
    Mock(method="lookup", service="orders", place=HERE, when=MockWhen(input={"number": "A-1"}),
         response={"state": "sent"}, description="The state of an order.", parameters=SCHEMA),
    Mock(method="total", service="orders", place=HERE, when=MockWhen(args=["A-1", 2]), response=48),
    Mock(method="refund", service="payments", place=HERE,
         error=MockFault(code="LIMIT", message="too much", status=409)),
    Mock(method="ping", service="orders", place=HERE, response="orders"),
    Mock(method="ping", service="payments", place=HERE, response="payments"),
)  # fmt: skip


async def _opened(
    server: GatewayServer, folder: Path, *, mocks: Sequence[Mock] = MOCKS, **parts: Any
) -> tuple[TrialStandIn, dict[str, str]]:
    trial = TrialStandIn(folder, a_scenario(mocks=mocks))
    table = MockTable(mocks, scripts=None, random=trial.random, clock=Clock())  # type: ignore[arg-type]
    runtime = AgentRuntime(mocks=table, **parts)
    trial.services = runtime
    await runtime.open(trial)
    endpoint = await server.open_endpoint(trial)
    return trial, server.addresses(endpoint.address).names


async def _post(url: str, body: Any) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as client, client.post(url, json=body) as answer:
        return answer.status, await answer.json()


async def test_services_are_called_over_http(server: GatewayServer, tmp_path: Path) -> None:
    trial, names = await _opened(server, tmp_path)
    url = names["mocks_url"]
    assert await _post(f"{url}/orders/lookup", {"number": "A-1"}) == (200, {"result": {"state": "sent"}})
    assert await _post(f"{url}/orders/total", ["A-1", 2]) == (200, {"result": 48})
    assert await _post(f"{url}/orders/total", {"args": ["A-1", 2]}) == (200, {"result": 48})
    status, told = await _post(f"{url}/payments/refund", {"number": "A-1"})
    assert (status, told["error"]) == (409, {"message": "too much", "code": "LIMIT", "status": 409})
    status, told = await _post(f"{url}/orders/lookup", {"number": "B-2"})
    assert (status, told["error"]["code"]) == (404, "SERVICE_NOT_FOUND")
    assert [(call.method, call.input, call.args, call.mock is not None) for call in trial.of(ServiceCalled)] == [
        ("lookup", {"number": "A-1"}, [], True),
        ("total", {}, ["A-1", 2], True),
        ("total", {}, ["A-1", 2], True),
        ("refund", {"number": "A-1"}, [], True),
        ("lookup", {"number": "B-2"}, [], False),
    ]


@pytest.mark.parametrize(
    ("path", "body", "status"), [("/orders", {}, 404), ("/orders/a/b", {}, 404), ("/orders/lookup", "text", 400)]
)
async def test_an_invalid_call_is_refused(
    server: GatewayServer, tmp_path: Path, path: str, body: Any, status: int
) -> None:
    trial, names = await _opened(server, tmp_path)
    assert (await _post(names["mocks_url"] + path, body))[0] == status
    tried = [(call.service, call.method, call.outcome) for call in trial.of(ServiceCalled)]
    assert tried == ([("orders", "lookup", "invalid")] if status == 400 else [])


async def test_tools_are_called_over_mcp(server: GatewayServer, tmp_path: Path) -> None:
    trial, names = await _opened(server, tmp_path)
    async with (
        http.streamable_http_client(names["mcp_url"]) as (read, write, _),
        mcp.ClientSession(read, write) as client,
    ):
        await client.initialize()
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert sorted(tools) == ["lookup", "orders_ping", "payments_ping", "refund", "total"]
        assert (tools["lookup"].inputSchema, tools["lookup"].description) == (SCHEMA, "The state of an order.")
        found = await client.call_tool("lookup", {"number": "A-1"})
        assert (found.isError, found.structuredContent) == (False, {"state": "sent"})
        assert (await client.call_tool("orders_ping", {})).content[0].text == "orders"
        refused = await client.call_tool("refund", {"amount": 9})
        assert (refused.isError, refused.content[0].text) == (True, "too much")
        unknown = await client.call_tool("delete_everything", {"really": True})
        assert unknown.isError
        assert "the tools are: lookup" in unknown.content[0].text
    assert [(each.name, each.params, each.status) for each in trial.of(ActionTaken)] == [
        ("lookup", {"number": "A-1"}, "success"),
        ("ping", {}, "success"),
        ("refund", {"amount": 9}, "error"),
        ("delete_everything", {"really": True}, "rejected"),
    ]
    assert [call.method for call in trial.of(ServiceCalled)] == ["lookup", "ping", "refund"]
    assert [each.content for each in trial.of(Observed)][:2] == [{"state": "sent"}, "orders"]


async def test_one_service_has_an_address_of_its_own(server: GatewayServer, tmp_path: Path) -> None:
    _, names = await _opened(server, tmp_path)
    url = names["mcp_url"] + "/payments"
    async with http.streamable_http_client(url) as (read, write, _), mcp.ClientSession(read, write) as client:
        await client.initialize()
        assert [tool.name for tool in (await client.list_tools()).tools] == ["refund", "ping"]
        assert (await client.call_tool("ping", {})).content[0].text == "payments"


async def test_a_plugins_action_is_a_tool_with_its_schema(server: GatewayServer, tmp_path: Path) -> None:
    async def greet(params: dict[str, Any], _: Any) -> str:
        return f"Hello, {params['number']}"

    action = Action(name="GREET", handler=greet, description="Greets.", parameters=SCHEMA)
    trial, names = await _opened(server, tmp_path, actions={"GREET": action})
    async with (
        http.streamable_http_client(names["mcp_url"]) as (read, write, _),
        mcp.ClientSession(read, write) as client,
    ):
        await client.initialize()
        tool = (await client.list_tools()).tools[0]
        assert (tool.name, tool.description, tool.inputSchema) == ("GREET", "Greets.", SCHEMA)
        assert (await client.call_tool("GREET", {"number": "A-1"})).content[0].text == "Hello, A-1"
    assert [each.name for each in trial.of(ActionTaken)] == ["GREET"]


async def test_delays_and_faults_are_those_of_the_mocks_over_mcp_too(server: GatewayServer, tmp_path: Path) -> None:
    slow = Mock(method="slow", service="orders", place=HERE, delay_ms=80, error=MockFault(message="no luck"))
    trial, names = await _opened(server, tmp_path, mocks=(slow,))
    async with (
        http.streamable_http_client(names["mcp_url"]) as (read, write, _),
        mcp.ClientSession(read, write) as client,
    ):
        await client.initialize()
        answered = await client.call_tool("slow", {})
    assert (answered.isError, answered.content[0].text) == (True, "no luck")
    (action,), (call,) = trial.of(ActionTaken), trial.of(ServiceCalled)
    assert (action.status, call.error, call.mock is not None) == ("error", "no luck", True)
    assert min(action.duration_ms, call.duration_ms) >= 80


async def test_a_mock_that_goes_wrong_does_so_over_http_and_mcp(server: GatewayServer, tmp_path: Path) -> None:
    mocks = [
        Mock(method=fault, service="orders", place=HERE, response={"state": "sent"}, fault=fault)
        for fault in ("timeout", "error", "empty", "truncated", "twice")
    ]
    trial, names = await _opened(server, tmp_path, mocks=mocks)
    url = names["mocks_url"]
    status, told = await _post(f"{url}/orders/timeout", {})
    assert (status, told["error"]["code"], told["error"]["message"]) == (504, "TIMEOUT", "orders.timeout timed out")
    assert (await _post(f"{url}/orders/error", {}))[0] == 503
    assert await _post(f"{url}/orders/empty", {}) == (200, {"result": {}})
    assert await _post(f"{url}/orders/truncated", {}) == (200, {"result": '{"state"'})
    async with (
        http.streamable_http_client(names["mcp_url"]) as (read, write, _),
        mcp.ClientSession(read, write) as client,
    ):
        await client.initialize()
        refused = await client.call_tool("timeout", {})
        assert (refused.isError, refused.content[0].text) == (True, "orders.timeout timed out")
        assert "sent" in (await client.call_tool("twice", {})).content[0].text
    assert {each.mock for each in trial.of(ServiceCalled)} == {str(HERE)}


async def test_a_call_that_the_client_gives_up_has_happened(server: GatewayServer, tmp_path: Path) -> None:
    slow = Mock(method="slow", service="orders", place=HERE, delay_ms=400, response="done")
    trial, names = await _opened(server, tmp_path, mocks=(slow,))
    async with (
        http.streamable_http_client(names["mcp_url"]) as (read, write, _),
        mcp.ClientSession(read, write) as client,
    ):
        await client.initialize()
        with pytest.raises(mcp.McpError, match="Timed out"):
            await client.call_tool("slow", {}, read_timeout_seconds=timedelta(milliseconds=50))
        late = mcp_types.CancelledNotificationParams(requestId=1, reason="late")
        await client.send_notification(mcp_types.ClientNotification(mcp_types.CancelledNotification(params=late)))
        assert [tool.name for tool in (await client.list_tools()).tools] == ["slow"], "the address still answers"
        while not trial.of(ActionTaken):  # noqa: ASYNC110 - the record is what is waited for
            await asyncio.sleep(0.01)
    assert [(each.name, each.status) for each in trial.of(ActionTaken)] == [("slow", "success")]
    assert [call.result for call in trial.of(ServiceCalled)] == ["done"]


async def test_many_trials_over_mcp_do_not_mix(server: GatewayServer, tmp_path: Path) -> None:
    """Sixty-four at once, each with its own client that says who it is."""
    free = asyncio.Semaphore(64)

    async def one(number: int) -> tuple[list[Any], list[Any]]:
        async with free:
            mock = Mock(method="whose", service="orders", place=HERE, response=number)
            trial, names = await _opened(server, tmp_path, mocks=(mock,))
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
            body["params"] = {"name": "whose", "arguments": {"caller": number}}
            told = []
            async with aiohttp.ClientSession(headers={"Accept": "application/json"}) as client:
                for _ in range(2):
                    async with client.post(names["mcp_url"], json=body) as answer:
                        told.append((await answer.json())["result"]["content"][0]["text"])
            assert told == [str(number)] * 2
            return (
                [each.params for each in trial.of(ActionTaken)],
                [(each.input, each.result) for each in trial.of(ServiceCalled)],
            )

    found = await asyncio.gather(*(one(number) for number in range(150)))
    expected = [([{"caller": n}] * 2, [({"caller": n}, n)] * 2) for n in range(150)]
    assert found == expected


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:80"}, 200),
        ({"Origin": "http://127.0.0.1:3000"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": ""}, 403),
        ({"Host": "[evil"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
async def test_tools_are_not_served_to_pages_of_other_sites(
    server: GatewayServer, tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    _, names = await _opened(server, tmp_path)
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accepts = {"Accept": "application/json, text/event-stream", **headers}
    async with aiohttp.ClientSession() as client, client.post(names["mcp_url"], json=asked, headers=accepts) as answer:
        assert answer.status == status
