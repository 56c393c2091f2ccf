"""What does each layer of a trial cost? CPU of a call or trial, from a bare socket up.

One process, 64 in flight, a model server in its own process that answers at once. Every rung does all of what the one
below does, and more. For comparison, there are a bare aiohttp client that reads the stream of each answer and one that
does not look at it. Rungs take turns, and of several rounds the best of each counts: another program on the machine can
only ever add to a figure.

A trial is part of a run: it includes its share of opening the connections, of the plan and of the record's file, which
the bare clients do not need. `throughput` compares whole runs, and has the target.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, chdir
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

from benchmarks.figures import Figure
from benchmarks.latency import model_server
from benchmarks.throughput import cpu_s, measure_ours, text_of
from steadyhand.batch.provider import ProviderGate, ProviderLimits
from steadyhand.builtin.models.openai import OpenAIModel
from steadyhand.engine.limits import LagMonitor, SystemClock
from steadyhand.engine.model_call import Caller, RetryPolicy
from steadyhand.http.client import HttpClient
from steadyhand.http.stamps import Stamps
from steadyhand.plugins.plugin import ModelSettings
from steadyhand.records.chat import ChatRequest, Message
from steadyhand.wire.dialect import RequestSettings
from steadyhand.wire.openai_chat import ChatCompletions

CALLS = 5_000
IN_FLIGHT = 64
ROUNDS = 5
LIMIT = 1 << 20
REQUEST = ChatRequest(
    messages=(
        Message(role="system", content="You run a pump station. Answer with the next action only."),
        Message(role="user", content="Pressure is at 140 % and rising. What now?"),
    )
)
WIRE = ChatCompletions(settings=RequestSettings(model="bench"))

Call = Callable[[], Awaitable[object]]
"""One worker's next call."""


@asynccontextmanager
async def _raw_socket(base_url: str) -> AsyncIterator[Callable[[], Call]]:
    """A request's bytes out, an answer's bytes in, on a kept connection; nothing is parsed."""
    host, port = base_url.removeprefix("http://").removesuffix("/v1").split(":")
    body = WIRE.encode(REQUEST)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
    request = head.encode() + body
    loop = asyncio.get_running_loop()
    opened: list[socket.socket] = []

    def worker() -> Call:
        made = socket.create_connection((host, int(port)))
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.append(made)

        async def call() -> None:
            made.send(request)
            answer = b""
            while not answer.endswith(b"0\r\n\r\n"):
                answer += await loop.sock_recv(made, 65536)

        return call

    yield worker
    for each in opened:
        each.close()


@asynccontextmanager
async def _connection(base_url: str, *, read: bool = False) -> AsyncIterator[Callable[[], Call]]:
    client = HttpClient(base_url + "/chat/completions", {"Accept": "text/event-stream"})
    body = WIRE.encode(REQUEST)
    loop = asyncio.get_running_loop()

    async def call() -> None:
        connection, response = await client.post(body, Stamps(), deadline=loop.time() + 60)
        reader = WIRE.reader(REQUEST)
        block = await response.body(reader.ends, limit=LIMIT)
        if read:
            reader.feed(block)
        if not response.complete:
            await response.end(1.0)
        connection.release()

    yield lambda: call
    await client.close()


@asynccontextmanager
async def _attempt(base_url: str) -> AsyncIterator[Callable[[], Call]]:
    model = _model(base_url)
    yield lambda: lambda: model.attempt(REQUEST, zero=time.perf_counter())
    await model.close()


@asynccontextmanager
async def _caller(base_url: str) -> AsyncIterator[Callable[[], Call]]:
    model = _model(base_url)
    gate = ProviderGate(clock=SystemClock(), limits={"openai": ProviderLimits()})
    with LagMonitor() as lag:

        def call() -> Awaitable[object]:
            caller = Caller(
                policy=RetryPolicy(),
                gate=gate,
                clock=SystemClock(),
                lag=lag,
                now_ms=lambda: 0.0,
                emit=lambda event: None,
            )
            return caller.call(model, REQUEST)

        yield lambda: call
    await model.close()


@asynccontextmanager
async def _bare(base_url: str, *, read: bool) -> AsyncIterator[Callable[[], Call]]:
    url = base_url + "/chat/completions"
    messages = [{"role": each.role, "content": each.content} for each in REQUEST.messages]
    body = {"model": "bench", "messages": messages, "stream": True}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def call() -> None:
            async with session.post(url, json=body) as response:
                await (text_of(response) if read else response.read())

        yield lambda: call


def _model(base_url: str) -> OpenAIModel:
    return OpenAIModel(ModelSettings(name="bench", folder=Path(), options={"base_url": base_url}))


async def _spend(rung: Any, base_url: str) -> float:
    """CPU in microseconds per call, without opening the connections."""
    async with rung(base_url) as worker:
        calls = [worker() for _ in range(IN_FLIGHT)]
        await _run(calls, IN_FLIGHT)
        began = cpu_s()
        await _run(calls, CALLS)
        return (cpu_s() - began) * 1e6 / CALLS


async def _run(calls: list[Call], count: int) -> None:
    numbers = iter(range(count))

    async def work(call: Call) -> None:
        for _ in numbers:
            await call()

    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(work(call))


def _trial(base_url: str) -> float:
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        return measure_ours(base_url, CALLS, Path(folder))["cpu_ms"] * 1000


def measure() -> list[Figure]:
    rungs: dict[str, Any] = {
        "raw socket": _raw_socket,
        "our connection": _connection,
        "with the answer read": lambda url: _connection(url, read=True),
        "a whole timed attempt": _attempt,
        "with retries and gate": _caller,
        "bare client that does not read": lambda url: _bare(url, read=False),
        "bare client that reads": lambda url: _bare(url, read=True),
    }
    best: dict[str, float] = {}
    with model_server(delay_ms=0) as base_url:
        for _ in range(ROUNDS):
            found = {name: uvloop.run(_spend(rung, base_url)) for name, rung in rungs.items()}
            found["a whole trial"] = _trial(base_url)
            best = {name: min(best.get(name, value), value) for name, value in found.items()}
    order = [name for name in rungs if "bare" not in name] + ["a whole trial"] + [n for n in rungs if "bare" in n]
    figures = [Figure(name=f"CPU, {name}", value=best[name], unit="us") for name in order]
    ratio = best["a whole trial"] / best["bare client that reads"]
    return [*figures, Figure(name="a whole trial / bare client that reads", value=ratio, unit="x")]


if __name__ == "__main__":
    print(json.dumps({figure.name: round(figure.value, 2) for figure in measure()}, indent=1), os.getloadavg())
