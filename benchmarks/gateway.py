"""What the gateway adds to a model call: the same client asks the same server directly and through it, alternately.

Server, client and gateway are three processes. The client keeps its connections open, as every vendor's does. A
streamed answer has four pieces, two milliseconds apart; what counts is when the first and the last one arrive.
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
Ways = list[list[tuple[float, float]]]
"""For both routes, the milliseconds until the first and the last piece of every call."""
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
        text = answer.read1()
        first = (time.perf_counter() - began) * 1000
        text += answer.read()
        took.append((first, (time.perf_counter() - began) * 1000))
        assert answer.status == 200 and b'"stop"' in text, text
print(json.dumps([took[50:] for _, _, took in ways]))
"""


def measure() -> list[Figure]:
    server = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "steadyhand.testing.model_server",
            "--text",
            "Stop the pump.",
            "--piece-chars",
            "4",
            "--piece-ms",
            "2",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["base_url"]
        figures: list[Figure] = []
        with tempfile.TemporaryDirectory() as folder:
            whole = _run(_ask(url, Path(folder), "whole"))
            figures += _figures("whole answer", whole, 1)
            streamed = _run(_ask(url, Path(folder), "streamed"))
            figures += _figures("first piece of a stream", streamed, 0)
            figures += _figures("end of a stream", streamed, 1)
        return figures
    finally:
        server.kill()
        server.wait()


def _figures(what: str, ways: Ways, moment: int) -> list[Figure]:
    direct, through = ([each[moment] for each in way] for way in ways)
    added = statistics.median(through) - statistics.median(direct)
    return [
        Figure(name=f"{what}, without the gateway, median", value=statistics.median(direct), unit="ms"),
        Figure(name=f"{what}, through the gateway, median", value=statistics.median(through), unit="ms"),
        Figure(name=f"{what}: added by the gateway", value=added, unit="ms", at_most=1),
    ]


def _run(work: Coroutine[Any, Any, Ways]) -> Ways:
    from steadyhand.compose.run import quick_loop

    with asyncio.Runner(loop_factory=quick_loop()) as runner:
        return runner.run(work)


async def _ask(url: str, folder: Path, how: str) -> Ways:
    from steadyhand.builtin.models.openai import OpenAIModel
    from steadyhand.gateway.run import run_gateway
    from steadyhand.plugins.plugin import ModelSettings

    model = OpenAIModel(ModelSettings(name="m", folder=folder, options={"base_url": url}))
    gateway = run_gateway()
    try:
        endpoint = await gateway.open_endpoint(a_trial(folder), model)
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CLIENT, url, endpoint.url("openai"), str(CALLS), how, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await child.communicate()
        return json.loads(out)
    finally:
        await gateway.close()
        await model.close()
