from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from steadyhand.builtin.environments.local import LocalEnvironment
from steadyhand.builtin.plugin import EVALUATORS
from steadyhand.plugins.plugin import EnvironmentSettings, Plugin
from steadyhand.plugins.registry import Registry
from steadyhand.ports.environment import Database
from steadyhand.ports.evaluator import EvaluationContext
from steadyhand.records.chat import Message
from steadyhand.records.evaluation import EvaluationResult, EvaluationSpec
from steadyhand.records.result import ExecutionResult
from steadyhand.records.scenario import Ask, Scenario, Step
from support.evaluation import PLACE, Trial


@pytest.fixture
async def environment(tmp_path: Path) -> AsyncIterator[LocalEnvironment]:
    local = LocalEnvironment(EnvironmentSettings(root=tmp_path / "root", trial_id="t"))
    yield local
    await local.teardown()


@pytest.fixture(scope="session")
def registry() -> Registry:
    return Registry([Plugin(name="builtin", evaluators=EVALUATORS)])


Evaluate = Callable[..., Awaitable[EvaluationResult]]


@pytest.fixture
def evaluate(registry: Registry, environment: LocalEnvironment) -> Evaluate:
    """Runs an evaluation as written in a file: `await evaluate({"type": ...}, result, given=messages)`."""

    async def run(
        written: dict[str, Any],
        result: ExecutionResult | str = "",
        given: tuple[Message, ...] = (),
        database: Database | None = None,
    ) -> EvaluationResult:
        if isinstance(result, str):
            result = ExecutionResult(reply=result, stdout=result)
        params = {key: value for key, value in written.items() if key != "type"}
        spec = EvaluationSpec(type=written["type"], place=PLACE, params=params)
        step = Step(index=0, name="s", place=PLACE, task=Ask(messages=given), evaluations=(spec,))
        scenario = Scenario(id="s", name="s", description="", place=PLACE, digest="", steps=(step,))
        evaluator = registry.evaluator(spec.type)
        context = EvaluationContext(trial=Trial(scenario, environment, database=database), spec=spec)
        return await evaluator.evaluate(evaluator.params.model_validate(params), result, context)

    return run
