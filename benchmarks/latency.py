"""How far off is the latency we report, and what does a call cost?

A model server in its own process answers after 50 ms with 64 calls in flight, and after 300 ms with 512, so that it can
keep up with both; connections are opened in advance. Each call's reported latency is compared with what the server
itself measured (request received to last byte written), for our client and, at 64, for a bare aiohttp client in the
same run. One server takes its times in its event loop, when it gets round to reading; the other has requests stamped by
the kernel, so that what is left is our own error. CPU is this process's own, divided by the number of calls. The
quietest of several rounds counts, for both clients: another program on the machine can only ever add to a figure.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
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
DELAY_MS = {IN_FLIGHT: 50, 512: 300}
ROUNDS = 3
SERVERS = {"as it is": "steadyhand.testing.model_server", "stamped by the kernel": "benchmarks.stamped_server"}
TARGETS = {"as it is": (0.3, 3.0), "stamped by the kernel": (0.1, 0.5)}

Call = Callable[[str], Awaitable[float]]


def measure() -> list[Figure]:
    try:
        import uvloop
    except ImportError:
        runner: Callable[..., Any] = asyncio.run
    else:
        runner = uvloop.run
    figures: list[Figure] = []
    for kind, module in SERVERS.items():
        for in_flight, delay_ms in DELAY_MS.items():
            clients = ("ours", "bare") if in_flight == IN_FLIGHT else ("ours",)
            with model_server(delay_ms=delay_ms, module=module) as base_url:
                found: dict[str, float] = runner(_measure(base_url, clients, in_flight))
            figures += _figures(f"server {kind}, {in_flight} in flight", found, TARGETS[kind])
    return figures


def _figures(case: str, found: dict[str, float], targets: tuple[float, float]) -> list[Figure]:
    figures = [
        Figure(name=f"{case}: error, median", value=found["ours_error_median_ms"], unit="ms", at_most=targets[0]),
        Figure(name=f"{case}: error, p99", value=found["ours_error_p99_ms"], unit="ms", at_most=targets[1]),
        Figure(name=f"{case}: CPU per call", value=found["ours_cpu_ms"], unit="ms"),
    ]
    if "bare_cpu_ms" in found:
        figures += [
            Figure(name=f"{case}: error, median, bare client", value=found["bare_error_median_ms"], unit="ms"),
            Figure(name=f"{case}: error, p99, bare client", value=found["bare_error_p99_ms"], unit="ms"),
            Figure(name=f"{case}: CPU per call, bare client", value=found["bare_cpu_ms"], unit="ms"),
        ]
    return figures


@contextlib.contextmanager
def model_server(
    *, delay_ms: float, module: str = "steadyhand.testing.model_server", more: Sequence[str] = ()
) -> Iterator[str]:
    """A model server in its own process; its base URL."""
    command = [sys.executable, "-m", module, "--delay-ms", str(delay_ms), *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["base_url"]
        finally:
            process.terminate()


async def _measure(base_url: str, names: Sequence[str], in_flight: int) -> dict[str, float]:
    """Rounds of the clients in turn, so that a noisy moment does not hit only one of them."""
    errors: dict[str, list[list[float]]] = {name: [] for name in names}
    cpu: dict[str, list[float]] = {name: [] for name in names}
    clients = {name: {"ours": _our_client, "bare": _bare_client}[name] for name in names}
    for number in range(ROUNDS):
        for name, client in clients.items() if number % 2 == 0 else reversed(clients.items()):
            async with client(base_url) as call:
                await _run(call, in_flight, "warm", in_flight, spacing_s=0.0)
                await _server_log(base_url, "DELETE")
                began = time.process_time()
                reported = await _run(call, CALLS, name, in_flight, spacing_s=SPACING_S)
                cpu[name].append((time.process_time() - began) * 1000 / CALLS)
            own = await _server_log(base_url, "GET")
            errors[name].append([abs(latency - own[prompt]) for prompt, latency in reported.items()])
    figures: dict[str, float] = {}
    for name in clients:
        figures[f"{name}_error_median_ms"] = min(statistics.median(each) for each in errors[name])
        figures[f"{name}_error_p99_ms"] = min(statistics.quantiles(each, n=100)[98] for each in errors[name])
        figures[f"{name}_cpu_ms"] = min(cpu[name])
    return figures


async def _run(call: Call, calls: int, name: str, in_flight: int, *, spacing_s: float) -> dict[str, float]:
    """Latency in ms by prompt, with `in_flight` calls at a time and their starts at least `spacing_s` apart."""
    latency: dict[str, float] = {}
    slots = asyncio.Semaphore(in_flight)

    async def one(prompt: str) -> None:
        try:
            latency[prompt] = await call(prompt)
        finally:
            slots.release()

    async with asyncio.TaskGroup() as group:
        due = time.perf_counter()
        for number in range(calls):
            await slots.acquire()
            due = max(due + spacing_s, time.perf_counter())
            group.create_task(one(f"{name} {number}"))
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
    return latency


async def _server_log(base_url: str, method: str) -> dict[str, float]:
    """What the server measured: milliseconds from a request's last byte in to its answer's last byte out, by prompt."""
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
