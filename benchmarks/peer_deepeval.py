"""deepeval: goldens through its iterator, an observed function with the call, two metrics, its own run file.

It has no client for the application under test, so the call is the plain aiohttp one. Its pattern metric matches whole
answers, so the patterns include what may surround a match. As installed, it rewrites its whole run file after each case
(`write-each`); if told not to write a cache, it writes the file once, at the end (`write-once`).
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import datetime
from typing import Any

import aiohttp
from deepeval.dataset import EvaluationDataset, Golden
from deepeval.evaluate.configs import AsyncConfig, CacheConfig, DisplayConfig
from deepeval.metrics import PatternMatchMetric
from deepeval.tracing import observe

from benchmarks import peer_run

RUN_FILE = peer_run.RECORD / ".latest_run_full.json"


def run(base_url: str, cases: list[str]) -> None:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    session = loop.run_until_complete(_session())

    @observe()
    async def decide(prompt: str) -> str:
        return await peer_run.ask(session, base_url, prompt)

    dataset = EvaluationDataset(goldens=[Golden(input=case) for case in cases])
    goldens = dataset.evals_iterator(
        metrics=[PatternMatchMetric(r"(?is).*\bstop\b.*"), PatternMatchMetric("(?is)(?!.*wait).*")],
        async_config=AsyncConfig(max_concurrent=peer_run.IN_FLIGHT),
        cache_config=CacheConfig(write_cache="write-once" not in sys.argv),
        display_config=DisplayConfig(show_indicator=False, print_results=False),
    )
    for golden in goldens:
        dataset.evaluate(asyncio.create_task(decide(golden.input)))
    loop.run_until_complete(session.close())


async def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))


def reported(_: None) -> dict[int, float]:
    """How long the trace of a case took, which a user reads as its latency."""
    latency: dict[int, float] = {}
    for case in json.loads(RUN_FILE.read_text())["testCases"]:
        metrics: list[dict[str, Any]] = case["metricsData"]
        if len(metrics) == 2 and all(metric["success"] for metric in metrics):
            began, ended = (datetime.fromisoformat(case["trace"][key]) for key in ("startTime", "endTime"))
            latency[peer_run.number_of(case["input"])] = (ended - began).total_seconds() * 1000
    return latency


if __name__ == "__main__":
    peer_run.main(run, reported)
