"""What the gateway adds to a model call: the same client asks the same server directly and through it, by turns.

Server, client and gateway are three processes. The client keeps its connections, as every vendor's does.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from benchmarks.agents import a_trial
from benchmarks.figures import Figure

CALLS = 600
CLIENT = """
import http.client, json, sys, time
from urllib.parse import urlsplit
direct, through, calls, streamed = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "streamed"
body = json.dumps({"model": "m", "stream": streamed, "messages": [{"role": "user", "content": "What now? " * 40}]})
headers = {"Content-Type": "application/json", "Authorization": "Bearer none"}
ways = []
for url in (direct, through):
    parts = urlsplit(url)
    ways.append((http.client.HTTPConnection(parts.hostname, parts.port), parts.path + "/chat/completions", []))
for number in range(calls):
    for connection, path, took in ways if number % 2 else ways[::-1]:
        began = time.perf_counter()
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        text = answer.read()
        took.append((time.perf_counter() - began) * 1000)
        assert answer.status == 200 and b'"stop"' in text, text
print(json.dumps([took[50:] for _, _, took in ways]))
"""


def measure() -> list[Figure]:
    server = subprocess.Popen(
        [sys.executable, "-m", "steadyhand.testing.model_server", "--text", "Stop the pump.", "--piece-chars", "4"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["base_url"]
        figures: list[Figure] = []
        with tempfile.TemporaryDirectory() as folder:
            for how in ("whole", "streamed"):
                direct, through = _run(_ask(url, Path(folder), how))
                direct_ms, through_ms = statistics.median(direct), statistics.median(through)
                added = through_ms - direct_ms
                figures += [
                    Figure(name=f"a call without the gateway, {how}, median", value=direct_ms, unit="ms"),
                    Figure(name=f"a call through the gateway, {how}, median", value=through_ms, unit="ms"),
                    Figure(name=f"what the gateway adds, {how}, of 1 ms", value=added, unit="x", at_most=1),
                ]
        return figures
    finally:
        server.kill()
        server.wait()


def _run(work: Coroutine[Any, Any, list[list[float]]]) -> list[list[float]]:
    from steadyhand.compose.run import quick_loop

    with asyncio.Runner(loop_factory=quick_loop()) as runner:
        return runner.run(work)


async def _ask(url: str, folder: Path, how: str) -> list[list[float]]:
    from steadyhand.builtin.models.openai import OpenAIModel
    from steadyhand.gateway.run import run_gateway
    from steadyhand.plugins.plugin import ModelSettings

    model = OpenAIModel(ModelSettings(name="m", folder=folder, options={"base_url": url}))
    gateway = run_gateway()
    try:
        door = await gateway.open_door(a_trial(folder), model)
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CLIENT, url, door.url("openai"), str(CALLS), how, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await child.communicate()
        return json.loads(out)
    finally:
        await gateway.close()
        await model.close()
