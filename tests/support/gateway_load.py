"""Many trials at once behind one gateway, and whether every event is in the trial of the agent that caused it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from steadyhand.gateway.run import run_gateway
from steadyhand.gateway.server import GatewayServer, TrialGateway
from steadyhand.ports.model import Listener
from steadyhand.records.chat import Attempt, ChatRequest, ChatResponse, FinishReason
from steadyhand.records.event import ActionTaken, ServiceCalled
from steadyhand.runtime.runtime import AgentRuntime
from support.trial import TrialStandIn

CALLS = 3


class Echo:
    """A model that says who called it."""

    name = "own/echo"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        await asyncio.sleep(0)
        self.asked.append(request.messages[-1].content)
        text = f"model {request.messages[-1].content}"
        return ChatResponse(text=text, attempt=Attempt(started_ms=0.0), finish_reason=FinishReason.STOP)

    async def relay(self, request: ChatRequest, listener: Listener, *, zero: float) -> ChatResponse:
        answer = await self.attempt(request, zero=zero)
        for character in answer.text:
            listener.say(character)
            await asyncio.sleep(0)
        return answer

    async def close(self) -> None: ...


class Worker:
    """A process with light agents."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls) -> Worker:
        tests = Path(__file__).parents[1]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "support.gateway_clients",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=tests,
            env={**os.environ, "PYTHONPATH": str(tests)},
        )  # fmt: skip
        return cls(process)

    async def ask(self, trial: int, job: dict[str, Any]) -> list[list[str]]:
        waiting = self._waiting[trial] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"trial": trial, **job}).encode() + b"\n")
        return await waiting

    async def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()
        await self._reading

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            done = json.loads(line)
            self._waiting.pop(done["trial"]).set_result(done["log"])


async def wrong_trials(folder: Path, *, trials: int, at_once: int = 64, processes: int = 2) -> list[int]:
    """The trials whose events are not exactly what their agent's own log says."""
    server = run_gateway()
    workers = [await Worker.start() for _ in range(processes)]
    places = asyncio.Semaphore(at_once)
    wrong: list[int] = []

    async def one(number: int) -> None:
        async with places:
            if not await _as_logged(server, workers[number % processes], number, folder):
                wrong.append(number)

    try:
        async with asyncio.TaskGroup() as group:
            for number in range(trials):
                group.create_task(one(number))
    finally:
        for worker in workers:
            await worker.end()
        await server.close()
    return wrong


async def _as_logged(server: GatewayServer, worker: Worker, number: int, folder: Path) -> bool:
    trial, model, runtime = TrialStandIn(folder), Echo(), AgentRuntime()
    trial.services = runtime
    await runtime.open(trial)
    runtime.register_mock("shop.say", lambda text: f"service {text}")
    gateway = TrialGateway(server, model)
    told = (await gateway.open(trial)).names
    job = {"openai": told["openai_base_url"], "mocks": told["mocks_url"], "otlp": told["otlp_endpoint"]}
    log = await worker.ask(number, {**job, "calls": CALLS})
    await gateway.settle()
    await gateway.close()
    said = [f"{number}:{turn}" for turn in range(CALLS)]
    return (
        log
        == [
            entry
            for each in said
            for entry in (["model", each, f"model {each}"], ["service", each, f"service {each}"], ["span", each, ""])
        ]
        and model.asked == said
        and [event.input["text"] for event in trial.of(ServiceCalled)] == said
        and [event.name for event in trial.of(ActionTaken)] == said
        and len(trial.events) == 2 * CALLS + 2  # and what was offered, twice
    )
