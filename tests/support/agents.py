"""A real trial for agents to take part in, and the turns they are given."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from steadyhand.builtin.environments.local import LocalEnvironment
from steadyhand.builtin.mocks.javascript import QuickJsSandbox
from steadyhand.builtin.plugin import builtin_plugin
from steadyhand.builtin.services.database import make_database
from steadyhand.engine.context import RunningTrial, TrialParts
from steadyhand.engine.model_call import RetryPolicy
from steadyhand.engine.trial import run_trial
from steadyhand.gateway.run import run_gateway
from steadyhand.gateway.server import GatewayServer, TrialGateway
from steadyhand.plugins.plugin import AgentSettings, EnvironmentSettings
from steadyhand.plugins.registry import Registry
from steadyhand.ports.agent import Agent, Turn
from steadyhand.records.chat import Message
from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.run import TrialKey, TrialRecord
from steadyhand.records.scenario import Ask, DatabaseSeed, Mock, Step
from steadyhand.runtime.mocks import MockTable
from steadyhand.runtime.runtime import AgentRuntime
from support.trial import HERE, a_scenario


def a_trial(folder: Path, **parts: Any) -> RunningTrial:
    registry = Registry([builtin_plugin()])
    scenario = parts.pop("scenario", None) or a_scenario()
    return RunningTrial(
        TrialParts(
            scenario=scenario,
            key=TrialKey(scenario_id=scenario.id),
            environment=LocalEnvironment(EnvironmentSettings(root=folder / "workspaces", trial_id="t")),
            evaluator=registry.evaluator,
            seed=7,
            **{"retry": RetryPolicy(retries=0), **parts},
        )
    )


async def refund_trial(
    agent: Agent, folder: Path, checks: Sequence[EvaluationSpec], said: str = "refund"
) -> TrialRecord:
    """A whole trial with these checks, a workspace, a mock of `orders.refund` and a database with the table `done`."""
    mock = Mock(method="refund", service="orders", place=HERE, response={"refunded": True})
    seed = DatabaseSeed(url="sqlite:///done.sqlite")
    task = Ask(messages=(Message(role="user", content=said),))
    scenario = a_scenario(mocks=[mock])
    scenario = msgspec.structs.replace(
        scenario,
        setup=msgspec.structs.replace(scenario.setup, database=seed),
        steps=(Step(index=0, name="one", place=HERE, task=task, evaluations=tuple(checks)),),
    )
    parts = a_trial(folder, scenario=scenario, agent=agent).parts
    with contextlib.closing(sqlite3.connect(folder / "done.sqlite")) as made:
        made.execute("CREATE TABLE done (id INTEGER)")
    # In place: copying, seeding and removing it would start three more processes.
    parts.database = make_database(seed, environment=parts.environment, folder=folder, live=True)
    assert parts.database is not None
    mocks = MockTable([mock], scripts=QuickJsSandbox(), random=random.Random(7), clock=parts.clock)
    parts.services = AgentRuntime(mocks=mocks, services={"database": parts.database.service()})
    return await run_trial(parts)


def an_agent(kind: str, folder: Path, **settings: Any) -> Agent:
    """By name, as on the command line."""
    name, _, target = kind.partition(":")
    return Registry([builtin_plugin()]).agent(name)(AgentSettings(target=target, folder=folder, **settings))


@asynccontextmanager
async def gateway_of(folder: Path) -> AsyncIterator[tuple[GatewayServer, RunningTrial]]:
    """The gateway of a run, and a trial that can be reached through it."""
    server, trial = run_gateway(), a_trial(folder)
    gateway = TrialGateway(server)
    trial.addresses = await gateway.open(trial)
    try:
        yield server, trial
    finally:
        await gateway.close()
        await server.close()
        await trial.environment.teardown()


def turn(*said: str, deadline: float | None = None) -> Turn:
    """Messages that alternate between user and assistant; the user is last."""
    assert len(said) % 2 == 1
    messages = tuple(
        Message(role="assistant" if index % 2 else "user", content=text) for index, text in enumerate(said)
    )
    return Turn(messages=messages, number=len(said) // 2 + 1, deadline=deadline)
