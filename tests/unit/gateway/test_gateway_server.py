"""The server of a run: every request reaches the trial whose address it was sent to, and no other."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest

from steadyhand.children.daemons import limit_mark
from steadyhand.errors import SetupError
from steadyhand.gateway.connection import GatewayRequest, GatewayResponse, json_response
from steadyhand.gateway.server import Address, GatewayServer, TrialEndpoint, TrialGateway
from steadyhand.ports.agent import Addresses, AgentProcess
from steadyhand.records.event import Noted
from support.loopback import free_port
from support.trial import TrialStandIn


class Echo:
    """Answers with the request, and notes it in the trial."""

    def __init__(self) -> None:
        self.waiting = asyncio.Event()
        self.go_on = asyncio.Event()
        self.left: list[TrialEndpoint] = []

    def addresses(self, address: Address) -> Addresses:
        return Addresses(names={"echo_url": address.url("echo")})

    async def serve(self, request: GatewayRequest, endpoint: TrialEndpoint) -> GatewayResponse:
        if request.path == "slow":
            self.waiting.set()
            await self.go_on.wait()
        if request.path == "broken":
            raise ValueError("a bug")
        endpoint.trial.emit(Noted(at_ms=0.0, message=request.body.decode()))
        if request.path == "stream":
            return GatewayResponse(stream=self._pieces(), content_type="text/event-stream")
        return json_response({"path": request.path, "query": request.query, "body": request.body.decode()})

    async def _pieces(self) -> AsyncIterator[bytes]:
        for number in range(3):
            yield f"data: {number}\n\n".encode()
            await asyncio.sleep(0)

    async def settle(self, endpoint: TrialEndpoint) -> None: ...

    async def leave(self, endpoint: TrialEndpoint) -> None:
        self.left.append(endpoint)


@pytest.fixture
async def served() -> AsyncIterator[tuple[GatewayServer, Echo, aiohttp.ClientSession]]:
    server, echo = GatewayServer(), Echo()
    server.mount("echo", echo)
    async with aiohttp.ClientSession() as client:
        yield server, echo, client
        await server.close()


Served = tuple[GatewayServer, Echo, aiohttp.ClientSession]


async def test_a_request_reaches_the_trial_of_its_address(served: Served, tmp_path: Path) -> None:
    server, _, client = served
    trials = [TrialStandIn(tmp_path) for _ in range(3)]
    gateways = [TrialGateway(server) for _ in trials]
    urls = [(await gateway.open(trial)).names["echo_url"] for gateway, trial in zip(gateways, trials, strict=True)]

    async def talk(number: int) -> None:
        for turn in range(20):
            async with client.post(f"{urls[number]}/a/b?c=d", data=f"{number}:{turn}") as answer:
                assert await answer.json() == {"path": "a/b", "query": "c=d", "body": f"{number}:{turn}"}

    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(talk(number))
    for number, trial in enumerate(trials):
        assert [note.message for note in trial.of(Noted)] == [f"{number}:{turn}" for turn in range(20)]


async def test_a_stream_comes_piece_by_piece(served: Served, tmp_path: Path) -> None:
    server, _, client = served
    endpoint = await server.open_endpoint(TrialStandIn(tmp_path))
    async with client.post(f"{endpoint.url('echo')}/stream") as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert await answer.text() == "data: 0\n\ndata: 1\n\ndata: 2\n\n"


async def test_a_call_after_the_end_is_refused_and_counted(served: Served, tmp_path: Path) -> None:
    server, echo, client = served
    trial = TrialStandIn(tmp_path)
    endpoint = await server.open_endpoint(trial)
    await server.close_endpoint(endpoint)
    assert echo.left == [endpoint]
    async with client.post(f"{endpoint.url('echo')}/a", data="late") as answer:
        assert answer.status == 410
        assert "has ended" in (await answer.json())["error"]["message"]
    assert trial.events == []
    assert server.late == {"a#0": 1}


async def test_what_is_under_way_ends_with_the_trial_and_is_noted(served: Served, tmp_path: Path) -> None:
    server, echo, client = served
    trial = TrialStandIn(tmp_path)
    endpoint = await server.open_endpoint(trial)
    asked = asyncio.create_task(client.post(f"{endpoint.url('echo')}/slow", data="x"))
    await echo.waiting.wait()
    await server.close_endpoint(endpoint)
    echo.go_on.set()
    with pytest.raises(aiohttp.ClientError):
        await asked
    assert [note.message for note in trial.of(Noted)] == [
        "1 request to the gateway was still under way when the trial ended"
    ]


async def test_what_a_client_asked_for_happens_though_it_hangs_up(served: Served, tmp_path: Path) -> None:
    server, echo, client = served
    trial = TrialStandIn(tmp_path)
    endpoint = await server.open_endpoint(trial)
    asked = asyncio.create_task(client.post(f"{endpoint.url('echo')}/slow", data="asked"))
    await echo.waiting.wait()
    asked.cancel()
    await asyncio.wait([asked])
    echo.go_on.set()
    while endpoint.at_work:
        await asyncio.wait(tuple(endpoint.at_work))
    assert [note.message for note in trial.of(Noted)] == ["asked"]


async def test_a_bug_is_told_to_the_agent_and_noted(served: Served, tmp_path: Path) -> None:
    server, _, client = served
    trial = TrialStandIn(tmp_path)
    endpoint = await server.open_endpoint(trial)
    async with client.post(f"{endpoint.url('echo')}/broken") as answer:
        assert answer.status == 500
    assert [note.level for note in trial.of(Noted)] == ["warning"]


async def test_an_address_that_is_nobodys_is_refused(served: Served, tmp_path: Path) -> None:
    server, _, client = served
    endpoint = await server.open_endpoint(TrialStandIn(tmp_path))
    for url, status in ((endpoint.address.base_url[:-1] + "/echo/a", 404), (endpoint.url("other") + "/a", 404)):
        async with client.get(url) as answer:
            assert answer.status == status


async def test_requests_without_an_address_go_to_what_is_open(served: Served, tmp_path: Path) -> None:
    server, _, client = served

    async def traces(request: GatewayRequest) -> GatewayResponse:
        return json_response({"path": request.path})

    server.mount_in_the_open("v1", traces)
    port = free_port()
    await server.listen(port)
    async with client.post(f"http://127.0.0.1:{port}/v1/traces", data="{}") as answer:
        assert await answer.json() == {"path": "v1/traces"}
    with pytest.raises(SetupError, match=f"cannot listen on 127.0.0.1:{port}"):
        await server.listen(port)


@pytest.mark.parametrize("chunked", [True, False])
async def test_bodies_of_any_framing_arrive_whole(served: Served, tmp_path: Path, chunked: bool) -> None:
    server, _, client = served
    endpoint = await server.open_endpoint(TrialStandIn(tmp_path))
    text = "x" * 300_000
    async with client.post(f"{endpoint.url('echo')}/a", data=text, chunked=chunked or None) as answer:
        assert (await answer.json())["body"] == text


async def test_a_standing_address_leads_to_the_trial_it_is_pointed_at(served: Served, tmp_path: Path) -> None:
    server, _, client = served
    reusable = server.reusable(None)
    url = reusable.names["echo_url"]
    first, second = TrialStandIn(tmp_path), TrialStandIn(tmp_path)
    endpoints = [await server.open_endpoint(first), await server.open_endpoint(second)]

    async def status(said: str) -> int:
        async with client.post(f"{url}/a", data=said) as answer:
            return answer.status

    us = AgentProcess(os.getpid(), "no-mark")
    assert await status("nobody's") == 404
    server.point(reusable, first, us)
    assert await status("one") == 200
    await server.close_endpoint(endpoints[0])
    await _settled()
    assert await status("late") == 410
    server.point(reusable, second, us)
    assert await status("two") == 200
    server.rest(reusable)
    await _settled()
    assert await status("over") == 410
    assert server.late.total() == 2
    assert [note.message for note in first.of(Noted)] == ["one"]
    assert [note.message for note in second.of(Noted)] == ["two"]


async def _settled() -> None:
    """The client, which runs on our loop, has noticed that its connection was closed."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_connection_serves_one_trial_whoever_holds_it(served: Served, tmp_path: Path) -> None:
    """The agent opens two in the first trial, uses one and leaves both to somebody else."""
    server, _, _ = served
    reusable = server.reusable(None)
    path = reusable.names["echo_url"].partition("127.0.0.1:")[2].partition("/")[2]
    port = int(reusable.names["echo_url"].rpartition(":")[2].partition("/")[0])
    asking = f"POST /{path}/a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nsaid".encode()
    us = AgentProcess(os.getpid(), "no-mark")
    first, second = TrialStandIn(tmp_path), TrialStandIn(tmp_path)
    endpoint = await server.open_endpoint(first)
    server.point(reusable, first, us)
    used, unused = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]

    async def answer(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> bytes:
        connection[1].write(asking)
        return (await connection[0].read(4096)).partition(b"\r\n")[0]

    assert await answer(used) == b"HTTP/1.1 200 OK"
    server.rest(reusable)
    await server.close_endpoint(endpoint)
    await server.open_endpoint(second)
    server.point(reusable, second, us)
    new = used
    try:
        assert await answer(used) == b""
        assert await answer(unused) == b"HTTP/1.1 403 Forbidden"
        new = await asyncio.open_connection("127.0.0.1", port)
        assert await answer(new) == b"HTTP/1.1 200 OK"
    finally:
        for _, writer in (used, unused, new):
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
    assert len([note for note in second.of(Noted) if note.message == "said"]) == 1


SEND = """
import sys, urllib.request, urllib.error
try:
    print(urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/a", data=b"said")).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


async def _sent_by_another_process(url: str, *, below: str = "") -> list[str]:
    """What a process of ours is told, and one that it starts, given `below`."""
    indirect = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SEND!r}, *sys.argv[1:]])"
    program = indirect if below else SEND
    started = await asyncio.create_subprocess_exec(sys.executable, "-c", program, url, stdout=asyncio.subprocess.PIPE)
    out, _ = await started.communicate()
    return out.decode().split()


async def test_an_address_is_for_the_process_that_claims_it_and_what_it_starts(served: Served, tmp_path: Path) -> None:
    server, _, client = served
    trial = TrialStandIn(tmp_path)
    endpoint = await server.open_endpoint(trial)
    url = endpoint.url("echo")
    other = await asyncio.create_subprocess_exec("sleep", "60")
    try:
        server.expect(trial)
        server.claim(trial, AgentProcess(other.pid, "no-mark"))
        assert await _sent_by_another_process(url) == ["403"]
        async with client.post(f"{url}/a", data="ours") as answer:
            assert answer.status == 403
        server.expect(trial)
        server.claim(trial, AgentProcess(os.getpid(), "no-mark"))
        assert await _sent_by_another_process(url) == ["200"]
        assert await _sent_by_another_process(url, below="yes") == ["200"]
        await _settled()
        async with client.post(f"{url}/a", data="ours") as answer:
            assert answer.status == 200
    finally:
        other.kill()
        await other.wait()
    assert [note.message for note in trial.of(Noted) if note.level == "warning"] == [
        "a request to the gateway was refused: it came from a process that this agent did not start"
    ]


FORGE = """
import resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_RSS, (int(sys.argv[1]),) * 2)
sys.exit(subprocess.run([sys.executable, "-c", sys.argv[2], sys.argv[3]]).returncode)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there are no marks")
@pytest.mark.parametrize("others", [True, False])
async def test_a_mark_that_another_agent_could_have_copied_is_a_doubt(
    served: Served, tmp_path: Path, others: bool
) -> None:
    """The sender is not below the process of the agent, and carries its mark."""
    server, _, _ = served
    trial, other = TrialStandIn(tmp_path), TrialStandIn(tmp_path)
    endpoint = await server.open_endpoint(trial)
    await server.open_endpoint(other)
    child = await asyncio.create_subprocess_exec("sleep", "60")
    try:
        for each in (trial, other) if others else (trial,):
            server.expect(each)
        server.claim(trial, AgentProcess(child.pid, "victim"))
        forge = await asyncio.create_subprocess_exec(
            sys.executable, "-c", FORGE, str(limit_mark("victim")), SEND, endpoint.url("echo"),
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, _ = await forge.communicate()
    finally:
        child.kill()
        await child.wait()
    assert out.split() == [b"200"]
    doubt = (
        "a request to the gateway came from a process that is no longer below that of the agent, and could be another's"
    )
    assert endpoint.doubts == ([doubt] if others else [])


async def test_a_request_waits_until_the_process_is_known(served: Served, tmp_path: Path) -> None:
    server, _, client = served
    trial = TrialStandIn(tmp_path)
    endpoint = await server.open_endpoint(trial)
    server.expect(trial)
    asking = asyncio.ensure_future(client.post(f"{endpoint.url('echo')}/a", data="early"))
    await asyncio.wait([asking], timeout=0.05)
    assert not asking.done()
    server.claim(trial, AgentProcess(os.getpid(), "no-mark"))
    async with await asking as answer:
        assert answer.status == 200


async def test_what_is_not_http_is_refused(served: Served, tmp_path: Path) -> None:
    server, _, _ = served
    port = free_port()
    await server.listen(port)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"\x16\x03\x01 not http\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 400 Bad Request")
    writer.close()
