"""Scenarios and steps for the tests of the engine, and trials of real parts with a scripted agent."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

from steadyhand.builtin.environments.local import LocalEnvironment
from steadyhand.builtin.plugin import builtin_plugin
from steadyhand.engine.context import TrialParts
from steadyhand.engine.model_call import OpenAdmission
from steadyhand.errors import ModelError
from steadyhand.plugins.plugin import EnvironmentSettings
from steadyhand.plugins.registry import Registry
from steadyhand.records.chat import ChatRequest, Message
from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.location import Place
from steadyhand.records.run import TrialKey
from steadyhand.records.scenario import Ask, RunCode, Scenario, Step, VerdictPolicy
from steadyhand.testing import ScriptedAgent

PLACE = Place(file="s.yaml", line=1, column=1)


class HeldGate:
    """Lets each call start after a while, as a rate limit does, or refuses it with `error`."""

    def __init__(self, wait_s: float, *, reason: str = "", error: ModelError | None = None) -> None:
        self._wait_s = wait_s
        self._reason = reason
        self._error = error

    @asynccontextmanager
    async def admit(
        self, model: str, request: ChatRequest, *, patience_s: float = math.inf
    ) -> AsyncIterator[OpenAdmission]:
        await asyncio.sleep(self._wait_s)
        if self._error is not None:
            raise self._error
        admission = OpenAdmission()
        admission.reason = self._reason
        yield admission

    def backing_off(self, model: str, error: ModelError, seconds: float) -> AbstractContextManager[None]:
        return nullcontext()


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


def builder(folder: Path) -> Callable[..., TrialParts]:
    """Builds trials in `folder`; the agent is a function of the turn and the trial."""
    registry = Registry([builtin_plugin()])

    def build(of: Scenario, agent: Callable[..., Any] | None = None, **parts: Any) -> TrialParts:
        return TrialParts(
            scenario=of,
            key=TrialKey(scenario_id=of.id),
            environment=LocalEnvironment(EnvironmentSettings(root=folder / "workspaces", trial_id="t")),
            evaluator=registry.evaluator,
            agent=ScriptedAgent(agent, name="function") if agent else None,
            **parts,
        )

    return build
