"""A real trial for agents to take part in, and the turns they are given."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from steadyhand.builtin.environments.local import LocalEnvironment
from steadyhand.builtin.plugin import builtin_plugin
from steadyhand.engine.context import RunningTrial, TrialParts
from steadyhand.engine.model_call import RetryPolicy
from steadyhand.gateway.run import run_gateway
from steadyhand.gateway.server import GatewayServer, TrialGateway
from steadyhand.plugins.plugin import AgentSettings, EnvironmentSettings
from steadyhand.plugins.registry import Registry
from steadyhand.ports.agent import Agent, Turn
from steadyhand.records.chat import Message
from steadyhand.records.run import TrialKey
from support.trial import a_scenario


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
