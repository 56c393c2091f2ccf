"""Built trials for the engine's tests: real parts, a scripted agent and a loopback model server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steadyhand.builtin.environments.local import LocalEnvironment
from steadyhand.builtin.plugin import builtin_plugin
from steadyhand.engine.context import TrialParts
from steadyhand.plugins.plugin import EnvironmentSettings
from steadyhand.plugins.registry import Registry
from steadyhand.ports.agent import EVERYTHING_SEEN, Reply, TrialContext, Turn
from steadyhand.records.chat import Message
from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.location import Place
from steadyhand.records.run import TrialKey
from steadyhand.records.scenario import Ask, RunCode, Scenario, Step, VerdictPolicy

PLACE = Place(file="s.yaml", line=1, column=1)


class FunctionAgent:
    """An agent that answers with what a function of the turn gives, a coroutine function included."""

    name = "function"
    shows = EVERYTHING_SEEN

    def __init__(self, respond: Callable[..., Any]) -> None:
        self._respond = respond
        self.opened = self.closed = 0
        self.trial: TrialContext | None = None

    async def open(self, trial: TrialContext) -> None:
        self.opened += 1
        self.trial = trial

    async def respond(self, turn: Turn) -> Any:
        answer = self._respond(turn, self.trial)
        if hasattr(answer, "__await__"):
            answer = await answer
        return Reply(text=answer) if isinstance(answer, str) else answer

    async def close(self) -> None:
        self.closed += 1


def check(type_: str, **params: Any) -> EvaluationSpec:
    return EvaluationSpec(type=type_, place=PLACE, params=params)


def asking(text: str, *checks: EvaluationSpec, index: int = 0, timeout_ms: int | None = None) -> Step:
    task = Ask(messages=(Message(role="user", content=text),))
    return Step(index=index, name=f"step {index}", place=PLACE, task=task, evaluations=checks, timeout_ms=timeout_ms)


def coding(code: str, *checks: EvaluationSpec, index: int = 0, timeout_ms: int | None = None) -> Step:
    task = RunCode(code=code)
    return Step(index=index, name=f"step {index}", place=PLACE, task=task, evaluations=checks, timeout_ms=timeout_ms)


def scenario(*steps: Step, **fields: Any) -> Scenario:
    fields.setdefault("judgment", VerdictPolicy(strategy="all_pass"))
    return Scenario(id="s", name="S", description="", place=PLACE, digest="d", steps=steps, **fields)


@pytest.fixture
def build(tmp_path: Path):
    registry = Registry([builtin_plugin()])

    def build(of: Scenario, agent: Callable[..., Any] | None = None, **parts: Any) -> TrialParts:
        return TrialParts(
            scenario=of,
            key=TrialKey(scenario_id=of.id),
            environment=LocalEnvironment(EnvironmentSettings(root=tmp_path / "workspaces", trial_id="t")),
            evaluator=registry.evaluator,
            agent=FunctionAgent(agent) if agent else None,
            **parts,
        )

    return build
