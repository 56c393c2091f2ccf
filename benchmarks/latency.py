"""How far off is the latency we report, and what does a call cost?

A model server in a process of its own answers after 50 ms; 64 calls are in flight. Each call's reported latency is set
against what the server itself noted for it (request received to last byte written), for our client and for a bare
aiohttp client in the same run. CPU is this process's own, divided by the calls. Of several rounds the quietest counts,
for both clients alike: another program on the machine can only ever add to a figure.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.figures import Figure
from steadyhand.builtin.models.openai import OpenAIModel
from steadyhand.plugins.plugin import ModelSettings
from steadyhand.records.chat import ChatRequest, Message

CALLS = 1000
IN_FLIGHT = 64
SPACING_S = 0.0005
DELAY_MS = 50
ROUNDS = 3

Call = Callable[[str], Awaitable[float]]


def measure() -> list[Figure]:
    try:
        import uvloop
    except ImportError:
        runner: Callable[..., Any] = asyncio.run
    else:
        runner = uvloop.run
    with model_server(delay_ms=DELAY_MS) as base_url:
        found: dict[str, float] = runner(_measure(base_url, CALLS))
    at = f"{IN_FLIGHT} in flight, {DELAY_MS} ms delay"
    return [
        Figure(
            name=f"|reported - server's own|, median, {at}", value=found["ours_error_median_ms"], unit="ms", at_most=2
        ),
        Figure(name=f"|reported - server's own|, p99, {at}", value=found["ours_error_p99_ms"], unit="ms", at_most=8),
        Figure(name="the same around a bare client, median", value=found["bare_error_median_ms"], unit="ms"),
        Figure(name="the same around a bare client, p99", value=found["bare_error_p99_ms"], unit="ms"),
        Figure(name="CPU per call", value=found["ours_cpu_ms"], unit="ms"),
        Figure(name="CPU per call of the bare client", value=found["bare_cpu_ms"], unit="ms"),
    ]


@contextlib.contextmanager
def model_server(*, delay_ms: float) -> Iterator[str]:
    """A model server in its own process; its base URL."""
    command = [sys.executable, "-m", "steadyhand.testing.model_server", "--delay-ms", str(delay_ms)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["base_url"]
        finally:
            process.terminate()


async def _measure(base_url: str, calls: int) -> dict[str, float]:
    """Rounds of both clients in turn, so that a noisy moment of the machine does not fall on one of them only."""
    errors: dict[str, list[list[float]]] = {"ours": [], "bare": []}
    cpu: dict[str, list[float]] = {"ours": [], "bare": []}
    clients = {"ours": _our_client, "bare": _bare_client}
    for number in range(ROUNDS):
        for name, client in clients.items() if number % 2 == 0 else reversed(clients.items()):
            async with client(base_url) as call:
                await _run(call, IN_FLIGHT, "warm")
                await _server_log(base_url, "DELETE")
                began = time.process_time()
                reported = await _run(call, calls, name)
                cpu[name].append((time.process_time() - began) * 1000 / calls)
            own = await _server_log(base_url, "GET")
            errors[name].append([abs(latency - own[prompt]) for prompt, latency in reported.items()])
    figures: dict[str, float] = {}
    for name in clients:
        figures[f"{name}_error_median_ms"] = min(statistics.median(each) for each in errors[name])
        figures[f"{name}_error_p99_ms"] = min(statistics.quantiles(each, n=100)[98] for each in errors[name])
        figures[f"{name}_cpu_ms"] = min(cpu[name])
    return figures


async def _run(call: Call, calls: int, name: str) -> dict[str, float]:
    """Latency in ms by prompt, with `IN_FLIGHT` calls at a time and their starts half a millisecond apart."""
    latency: dict[str, float] = {}
    slots = asyncio.Semaphore(IN_FLIGHT)

    async def one(prompt: str) -> None:
        try:
            latency[prompt] = await call(prompt)
        finally:
            slots.release()

    async with asyncio.TaskGroup() as group:
        due = time.perf_counter()
        for number in range(calls):
            await slots.acquire()
            due = max(due + SPACING_S, time.perf_counter())
            group.create_task(one(f"{name} {number}"))
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
    return latency


async def _server_log(base_url: str, method: str) -> dict[str, float]:
    """What the server noted: milliseconds from a request's last byte in to its answer's last byte out, by prompt."""
    url = base_url.removesuffix("/v1") + "/log"
    async with aiohttp.ClientSession() as session, session.request(method, url) as response:
        log = await response.json()
    return {entry["prompt"]: (entry["times"]["last_write"] - entry["times"]["received"]) * 1000 for entry in log}


@contextlib.asynccontextmanager
async def _our_client(base_url: str) -> AsyncIterator[Call]:
    model = OpenAIModel(ModelSettings(name="bench", folder=Path(), options={"base_url": base_url}))

    async def call(prompt: str) -> float:
        request = ChatRequest(messages=(Message(role="user", content=prompt),))
        response = await model.attempt(request, zero=time.perf_counter())
        assert response.attempt.latency_ms is not None
        return response.attempt.latency_ms

    try:
        yield call
    finally:
        await model.close()


@contextlib.asynccontextmanager
async def _bare_client(base_url: str) -> AsyncIterator[Call]:
    """What a script would do: post, read, look at the clock before and after."""
    url = base_url + "/chat/completions"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def call(prompt: str) -> float:
            body = {"model": "bench", "messages": [{"role": "user", "content": prompt}], "stream": True}
            began = time.perf_counter()
            async with session.post(url, json=body) as response:
                await response.read()
            return (time.perf_counter() - began) * 1000

        yield call


if __name__ == "__main__":
    for figure in measure():
        print(figure)
