"""`python:` agents in a child process and in ours: what a turn costs, and how much an agent that computes delays
everything else.

Both variants run alternately in this process, with the same agent in the same kind of trial. A sleeper that asks to be
woken every millisecond, and notes how late it is, stands for everything else in the event loop.

What a room costs: the start of an agent, and the CPU of a trial (ours, the agent's and what is around it), with and
without one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure

TURNS = 400
STARTS = 15
TRIALS = 40
COMPUTING = 20
AGENT = """
import time
async def quick(message): return "heard " + message
async def busy(message):
    until = time.perf_counter() + 0.05
    while time.perf_counter() < until: pass
    return "computed"
"""
PROGRAM = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"type": "reply", "text": "heard"}), flush=True)
"""


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "mine.py").write_text(AGENT)
        (Path(folder) / "program.py").write_text(PROGRAM)
        return [*asyncio.run(_measure(Path(folder))), *asyncio.run(_rooms(Path(folder)))]


async def _measure(folder: Path) -> list[Figure]:
    child_ms = statistics.median(await _turns(folder, "quick", TURNS, in_process=False))
    inside_ms = statistics.median(await _turns(folder, "quick", TURNS, in_process=True))
    disturbed = [await _lateness(folder, in_process=True) for _ in range(3)]
    apart = [await _lateness(folder, in_process=False) for _ in range(3)]
    inside_late, child_late = min(disturbed), min(apart)
    return [
        Figure(name="a turn in process, median", value=inside_ms, unit="ms"),
        Figure(name="a turn in a child, median", value=child_ms, unit="ms"),
        Figure(name="added to a turn by the child", value=child_ms - inside_ms, unit="ms", at_most=1),
        Figure(name="delay of others while one computes in process, p90", value=inside_late, unit="ms"),
        Figure(name="delay of others while one computes in a child, p90", value=child_late, unit="ms"),
        Figure(name="delay, child / in process", value=child_late / inside_late, unit="x", at_most=0.2),
    ]


async def _rooms(folder: Path) -> list[Figure]:
    from steadyhand.children.room import find_room
    from steadyhand.ports.isolation import NoIsolation
    from steadyhand.records.isolation import AnswerKey

    workspaces = folder / "workspaces"
    workspaces.mkdir(exist_ok=True)
    room = find_room(AnswerKey(files=(str(folder / "program.py.key"),), workspaces=str(workspaces)))
    figures: list[Figure] = []
    for agent in ("python", "command"):
        for where, isolation in (("no room", NoIsolation()), ("a room", room)):
            if isinstance(isolation, str):
                continue
            starts = [await _trials(folder, agent, isolation, 1) for _ in range(STARTS)]
            first_ms = statistics.median(start_ms for start_ms, _ in starts)
            first_cpu_ms = statistics.median(cpu_ms for _, cpu_ms in starts)
            _, cpu_ms = await _trials(folder, agent, isolation, TRIALS)
            warm = (cpu_ms * TRIALS - first_cpu_ms) / (TRIALS - 1)
            name = f"{agent}: agent in {where}"
            figures += [
                Figure(name=f"start of a {name}, median", value=first_ms, unit="ms"),
                Figure(name=f"CPU of the first trial of a {name}", value=first_cpu_ms, unit="ms"),
                Figure(name=f"CPU of each further trial of a {name}", value=warm, unit="ms"),
            ]
    return figures


async def _trials(folder: Path, kind: str, isolation: Any, count: int) -> tuple[float, float]:
    """How long the first took to open, and the CPU of each, in milliseconds."""
    from steadyhand.builtin.agents.command import CommandAgent
    from steadyhand.builtin.agents.python_process import python_agent
    from steadyhand.plugins.plugin import AgentSettings, RunScope
    from steadyhand.ports.agent import Turn, reserve_workspaces
    from steadyhand.records.chat import Message

    program = f"{shlex.quote(sys.executable)} ./program.py"
    make, target = (python_agent, "./mine.py:quick") if kind == "python" else (CommandAgent, program)
    turn = Turn(messages=(Message(role="user", content="hello"),))
    used_ms, began = -time.process_time() * 1000.0, time.perf_counter()
    scope = RunScope(concurrency=1, workspaces=folder / "workspaces", isolation=isolation)
    first_ms = 0.0
    for _ in range(count):
        agent = make(AgentSettings(target=target, folder=folder, run=scope))
        trial = a_trial(folder, reserve_workspaces(agent))
        await trial.environment.setup([])
        try:
            await agent.open(trial)
            first_ms = first_ms or (time.perf_counter() - began) * 1000.0
            await agent.respond(turn)
            used_ms += _cpu_below_ms() if kind == "command" else 0.0
        finally:
            await agent.close()
            await trial.environment.teardown()
    used_ms += _cpu_below_ms()
    await scope.close()
    return first_ms, (used_ms + time.process_time() * 1000.0) / count


def _cpu_below_ms() -> float:
    """What the processes below ours have used so far. Those in a room are not waited for by us."""
    from steadyhand.children.daemons import tree

    used = 0.0
    for pid in tree(os.getpid()):
        for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                used += int(thread.read_text().split()[0]) / 1e6
    return used


async def _turns(folder: Path, name: str, count: int, *, in_process: bool) -> list[float]:
    """How long each turn took, in milliseconds."""
    from steadyhand.builtin.agents.python_process import python_agent
    from steadyhand.plugins.plugin import AgentSettings
    from steadyhand.ports.agent import Turn
    from steadyhand.records.chat import Message

    settings = AgentSettings(target=f"./mine.py:{name}", folder=folder, options={"in_process": in_process})
    agent = python_agent(settings)
    trial = a_trial(folder)
    turn = Turn(messages=(Message(role="user", content="hello"),))
    took: list[float] = []
    try:
        await agent.open(trial)
        for _ in range(count):
            began = time.perf_counter()
            await agent.respond(turn)
            took.append((time.perf_counter() - began) * 1000.0)
            await asyncio.sleep(0.002)  # the others get their turn
    finally:
        await agent.close()
        await trial.environment.teardown()
    return took


async def _lateness(folder: Path, *, in_process: bool) -> float:
    """How late the sleeper was while an agent computed, at the ninetieth percentile, in milliseconds.

    Weighted by time, not by wake-ups: one wake-up that comes 50 ms late stands for fifty that did not come.
    """
    late: list[float] = []

    async def sleeper() -> None:
        while True:
            due = time.perf_counter() + 0.001
            await asyncio.sleep(0.001)
            over_ms = (time.perf_counter() - due) * 1000.0
            late.extend([over_ms] * max(1, round(over_ms)))

    computing = asyncio.create_task(_turns(folder, "busy", COMPUTING, in_process=in_process))
    await asyncio.sleep(0)
    sleeping = asyncio.create_task(sleeper())
    await computing
    sleeping.cancel()
    return statistics.quantiles(late, n=10)[-1]


def a_trial(folder: Path, root: Path | None = None):  # noqa: ANN201 - a trial of the engine's, imported late like everything that is measured
    from steadyhand.builtin.environments.local import LocalEnvironment
    from steadyhand.builtin.plugin import builtin_plugin
    from steadyhand.engine.context import RunningTrial, TrialParts
    from steadyhand.plugins.plugin import EnvironmentSettings
    from steadyhand.plugins.registry import Registry
    from steadyhand.records.location import Place
    from steadyhand.records.run import TrialKey
    from steadyhand.records.scenario import Scenario

    scenario = Scenario(id="a", name="A", description="", place=Place(file="a.yaml"), digest="", steps=())
    return RunningTrial(
        TrialParts(
            scenario=scenario,
            key=TrialKey(scenario_id="a"),
            environment=LocalEnvironment(EnvironmentSettings(root=root or folder / "workspaces", trial_id="t")),
            evaluator=Registry([builtin_plugin()]).evaluator,
        )
    )
