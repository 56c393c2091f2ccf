"""One trial, from set-up to verdict. No files, no names, no printing."""

from __future__ import annotations

import asyncio

import msgspec

from holdfast.engine.context import Trial, TrialParts
from holdfast.engine.evaluating import Evaluation
from holdfast.engine.metrics import conversation_metrics
from holdfast.engine.phases import PhaseLog
from holdfast.engine.steps import StepRunner
from holdfast.judging.trial import judge_trial
from holdfast.records.event import Evaluated
from holdfast.records.execution import FileSystemOperation, Latency
from holdfast.records.run import TrialRecord


async def run_trial(parts: TrialParts) -> TrialRecord:
    """Set up, run, evaluate, judge, tear down. Always comes back with a record, except when cancelled."""
    trial = Trial(parts)
    for note in parts.notes:
        trial.warn(note)
    phases = PhaseLog(trial)
    evaluation = Evaluation(trial)
    runner = StepRunner(trial, evaluation)
    try:
        if await phases.run("set_up", _set_up(trial)):
            await phases.run("run", runner.run())
            await phases.run("evaluate", evaluation.steps(runner.results))
    finally:
        await asyncio.shield(phases.run("tear_down", _tear_down(trial)))
    latency = next((done.result.latency for done in reversed(runner.results) if done.result.latency), None)
    metrics = conversation_metrics(tuple(runner.talks.values()), runner.talks, trial.events)
    return msgspec.structs.replace(_record(trial, phases, evaluation, latency), metrics=metrics)


async def _set_up(trial: Trial) -> None:
    files = [
        FileSystemOperation(path=path, content=content.encode())
        for path, content in trial.scenario.setup.virtual_fs.items()
    ]
    await trial.environment.setup(files)
    if trial.parts.services is not None:
        await trial.parts.services.open(trial)
    if trial.parts.agent is not None:
        await trial.parts.agent.open(trial)


async def _tear_down(trial: Trial) -> None:
    try:
        if trial.parts.agent is not None:
            await trial.parts.agent.close()
    finally:
        try:
            if trial.parts.services is not None:
                await trial.parts.services.close()
        finally:
            await trial.environment.teardown()


def _record(trial: Trial, phases: PhaseLog, evaluation: Evaluation, latency: Latency | None) -> TrialRecord:
    """Evaluation events are kept as `evaluations`, all others as `events`."""
    parts = trial.parts
    judged = judge_trial(
        judgment=parts.scenario.judgment, evaluations=evaluation.results, errors=phases.errors, latency=latency
    )
    return TrialRecord(
        key=parts.key,
        scenario_name=parts.scenario.name,
        place=parts.scenario.place,
        digest=parts.scenario.digest,
        started_at=trial.started_at,
        duration_ms=trial.elapsed_ms(),
        judged=judged,
        agent=parts.agent.name if parts.agent else "",
        model=parts.model_name,
        seed=parts.seed,
        domain=parts.scenario.domain,
        tags=parts.scenario.tags,
        phases=tuple(phases.records),
        evaluations=tuple(evaluation.results),
        events=tuple(event for event in trial.events if not isinstance(event, Evaluated)),
    )
