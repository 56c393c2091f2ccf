"""Tests a scenario's checks against its own example answers, without a model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from steadyhand.compose.cast import embedder_of
from steadyhand.compose.isolation import check_files, sandbox_for
from steadyhand.compose.models import asks_judge, calls_model
from steadyhand.compose.scenarios import ScenarioRegistries
from steadyhand.engine.context import RunningTrial, TrialParts
from steadyhand.engine.evaluation import Evaluation
from steadyhand.lint.scenario import NOT_ON_THE_ANSWER
from steadyhand.plugins.plugin import EnvironmentSettings
from steadyhand.plugins.registry import Registry
from steadyhand.ports.evaluator import deterministic, explicit_judge_only
from steadyhand.ports.services import ScriptSandbox
from steadyhand.records.base import Record
from steadyhand.records.chat import Message
from steadyhand.records.evaluation import EvaluationResult, EvaluationSpec, Verdict
from steadyhand.records.location import Place
from steadyhand.records.result import ExecutionResult
from steadyhand.records.run import TrialKey
from steadyhand.records.scenario import Scenario, evaluation_specs, leaf_specs


class Defect(Record):
    """A good answer that a check rejects (`check` names it), or a bad one that every check accepts."""

    scenario_id: str
    place: Place
    answer: str
    message: str
    check: str | None = None


class SelfTest(Record):
    """`answers` is the number of answers tested, `needs_judge` of those that the checks cannot decide without one."""

    answers: int
    needs_judge: int
    defects: tuple[Defect, ...]
    without_examples: tuple[str, ...]
    untested: tuple[EvaluationSpec, ...] = ()
    """The checks whose types only an unloaded plugin could define."""
    not_run: tuple[EvaluationSpec, ...] = ()
    """The checks that run code from a file."""


async def selftest(scenarios: Sequence[Scenario], registries: ScenarioRegistries) -> SelfTest:
    """Every deterministic check of every scenario against every example of it.

    If a check could not be tested, it is unknown whether a bad answer passes all of them. A check that would ask a
    judge is no defect: it is counted.
    """
    answers = needs_judge = 0
    defects: list[Defect] = []
    untested: list[EvaluationSpec] = []
    not_run: list[EvaluationSpec] = []
    scripts = sandbox_for((each, registries.registry(each)) for each in scenarios)
    for scenario in scenarios:
        registry = registries.registry(scenario)
        unknown = [spec for spec in leaf_specs(scenario) if not registry.has("evaluators", spec.type)]
        untested += unknown
        skipped = [file.spec for file in check_files(scenario, registry)]
        not_run += skipped
        left = any(_is_left_to_a_model(leaf, registry) for leaf in leaf_specs(scenario) if leaf not in unknown)
        for answer in scenario.examples.good:
            answers += 1
            results = await _check(scenario, registries, answer, scripts)
            asks = [result for result in results if _asks_judge(result, scenario, registry)]
            needs_judge += left or bool(asks)
            defects += [
                _defect(scenario, answer, f"a good answer is rejected: {result.message}", result)
                for result in results
                if result.verdict is not Verdict.PASSED and result not in asks
            ]
        for answer in scenario.examples.bad:
            answers += 1
            results = await _check(scenario, registries, answer, scripts)
            failed = any(result.verdict is Verdict.FAILED for result in results)
            needs_judge += not failed and (left or any(_asks_judge(result, scenario, registry) for result in results))
            if not (unknown or skipped or left) and all(result.verdict is Verdict.PASSED for result in results):
                defects.append(_defect(scenario, answer, "a bad answer passes every check"))
    without = tuple(s.id for s in scenarios if not s.examples.good and not s.examples.bad)
    return SelfTest(
        answers=answers,
        needs_judge=needs_judge,
        defects=tuple(defects),
        without_examples=without,
        untested=tuple(untested),
        not_run=tuple(not_run),
    )


def passes(scenario: Scenario, registries: ScenarioRegistries, answer: str) -> bool:
    """Whether every check on its answer passes with this one, and none needs a judge or code from a file."""
    results = asyncio.run(_check(scenario, registries, answer, None))
    asked = [spec for spec in evaluation_specs(scenario) if spec.type not in NOT_ON_THE_ANSWER]
    return len(results) == len(asked) > 0 and all(result.verdict is Verdict.PASSED for result in results)


def _is_left_to_a_model(spec: EvaluationSpec, registry: Registry) -> bool:
    """Whether the check is not made here, because a judge or embeddings decide it."""
    evaluator = registry.evaluator(spec.type)
    alone = deterministic(evaluator, evaluator.params.model_validate(spec.params))
    return not alone and spec.type not in NOT_ON_THE_ANSWER and calls_model(spec, registry)


def _asks_judge(result: EvaluationResult, scenario: Scenario, registry: Registry) -> bool:
    """Whether only a judge could decide it."""
    leaves = [leaf for spec in evaluation_specs(scenario) if spec.place == result.place for leaf in spec.leaves]
    return result.verdict is Verdict.INCONCLUSIVE and any(
        explicit_judge_only(registry.evaluator(leaf.type)) for leaf in leaves
    )


async def _check(
    scenario: Scenario, registries: ScenarioRegistries, answer: str, scripts: ScriptSandbox | None
) -> list[EvaluationResult]:
    registry = registries.registry(scenario)
    nowhere = EnvironmentSettings(root=Path("unused"), trial_id="selftest")
    parts = TrialParts(
        scenario=scenario,
        key=TrialKey(scenario_id=scenario.id),
        environment=registry.environment("local")(nowhere),
        evaluator=registry.evaluator,
        scripts=scripts,
    )
    return await check_answer(parts, registry, answer)


async def check_answer(parts: TrialParts, registry: Registry, answer: str) -> list[EvaluationResult]:
    """What the checks that depend on the reply alone say of it; with a judge among the parts, judged checks too."""
    evaluation = Evaluation(RunningTrial(parts))
    result = ExecutionResult(reply=answer, stdout=answer, messages=(Message(role="assistant", content=answer),))
    for spec in evaluation_specs(parts.scenario):
        known = all(registry.has("evaluators", leaf.type) for leaf in spec.leaves)
        if known and all(_can_be_made(leaf, parts, registry) for leaf in spec.leaves):
            await evaluation.check(spec, result, stage="step", step=0)
    return evaluation.results


def _can_be_made(spec: EvaluationSpec, parts: TrialParts, registry: Registry) -> bool:
    evaluator = registry.evaluator(spec.type)
    alone = deterministic(evaluator, evaluator.params.model_validate(spec.params))
    return (
        alone
        or (parts.judge is not None and asks_judge(spec, registry))
        or embedder_of(spec, registry) in parts.embedders
    )


def _defect(scenario: Scenario, answer: str, message: str, result: EvaluationResult | None = None) -> Defect:
    place = result.place if result is not None and result.place is not None else scenario.place
    check = (result.name or result.type) if result is not None else None
    return Defect(scenario_id=scenario.id, place=place, answer=answer, message=message, check=check)
