"""Conversations: 100 of four turns, compared with as many bare calls to the same server.

A conversation of four turns is four calls of the agent and three of the simulated user, with a summary call for each
user turn that follows more than three turns (here none). Both sides run in this process, one after the other, against a
model server in its own process that answers at once. The quickest of several rounds counts, for both sides.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.latency import model_server

CONVERSATIONS = 100
TURNS = 4
CALLS = CONVERSATIONS * (TURNS + TURNS - 1)
IN_FLIGHT = 64
ROUNDS = 3
SCENARIO = f"""\
id: talk
name: A talk
description: Four turns.
environment: {{type: local}}
run:
  - input: Good morning, I have a question.
    conversation:
      max_turns: {TURNS}
      user_simulator: {{persona: a customer, objective: an answer}}
      final_evaluations:
        - {{type: conversation_length, min_turns: {TURNS}, max_turns: {TURNS}}}
judgment: {{strategy: all_pass}}
"""


def measure() -> list[Figure]:
    with model_server(delay_ms=0) as base_url, tempfile.TemporaryDirectory() as folder:
        ours: list[float] = []
        bare: list[float] = []
        for number in range(ROUNDS):
            ours.append(_ours(base_url, Path(folder) / str(number)))
            bare.append(asyncio.run(_bare(base_url)))
    return [
        Figure(name=f"{CALLS} bare calls", value=min(bare), unit="s"),
        Figure(name=f"{CONVERSATIONS} conversations of {TURNS} turns", value=min(ours), unit="s"),
        Figure(name="conversations / bare calls", value=min(ours) / min(bare), unit="x", at_most=6),
    ]


def _ours(base_url: str, folder: Path) -> float:
    from steadyhand.cli.run import attended, run_in_loop
    from steadyhand.compose.execution import Execution
    from steadyhand.compose.run import Run
    from steadyhand.records.config import RunOptions, Selection
    from steadyhand.records.evaluation import Verdict
    from steadyhand.store.reader import RunReader

    folder.mkdir()
    file = folder / "talk.scenario.yaml"
    file.write_text(SCENARIO)
    (folder / "steadyhand.toml").write_text(f'agent = "model"\n[providers.openai]\nbase_url = "{base_url}"\n')
    os.environ.setdefault("OPENAI_API_KEY", "none")
    options = RunOptions(
        model="openai/bench",
        config=folder / "steadyhand.toml",
        out=folder / "runs",
        concurrency=IN_FLIGHT,
        trials=CONVERSATIONS,
    )
    run = Run(Selection(paths=(str(file),)), options)
    began = time.perf_counter()
    record = run_in_loop(Execution(run).execute([], attend=attended), network=True)
    seconds = time.perf_counter() - began
    counts = RunReader.open(record).counts()
    assert counts[Verdict.PASSED] == CONVERSATIONS, counts
    return seconds


async def _bare(base_url: str) -> float:
    import aiohttp

    url = base_url + "/chat/completions"
    body = {"model": "bench", "messages": [{"role": "user", "content": "Good morning."}], "stream": True}
    slots = asyncio.Semaphore(IN_FLIGHT)

    async def call(session: aiohttp.ClientSession) -> None:
        async with slots, session.post(url, json=body) as response:
            await response.read()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(CALLS):
                group.create_task(call(session))
        return time.perf_counter() - began
