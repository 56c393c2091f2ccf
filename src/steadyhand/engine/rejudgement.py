"""Judge a stored trial again: the agent's part is taken from the record, and only judges are called.

Checks that use a judge are run again on what was stored. Any other check keeps its recorded result if it has not
changed since. If it has changed, it is run again where the reply alone decides it, and is inconclusive otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec

from steadyhand.engine.context import RunningTrial, TrialParts
from steadyhand.engine.conversation import UserScript
from steadyhand.engine.evaluation import Evaluation
from steadyhand.engine.prepared_check import PreparedCheck, PreparedGroup
from steadyhand.engine.stored_trial import RebuiltStep, StoredSteps
from steadyhand.engine.trial import Assessment
from steadyhand.judging.fault import with_fault
from steadyhand.judging.trial import judge_trial, settle
from steadyhand.records.evaluation import EvaluationResult, EvaluationSpec, Stage, Verdict, inconclusive
from steadyhand.records.event import AnyEvent, ErrorHappened, Evaluated, Lagged, ModelCalled, Noted, Retried, Waited
from steadyhand.records.result import ExecutionResult
from steadyhand.records.run import Judged, PhaseRecord, TrialRecord
from steadyhand.records.scenario import Converse

CheckKey: TypeAlias = tuple[Stage, int, int | None, str]
"""Where a check ran, and what it checks."""

_NOT_STORED = (
    "not judged again: the check has changed since the run, and what it reads is not stored; run the scenario again"
)
_OTHER_TASK = "not judged again: the scenario no longer asks what the stored trial answered; run it again"
_OF_A_CALL = (ModelCalled, Retried, Waited, Lagged)


def key_of(result: EvaluationResult) -> CheckKey:
    return result.stage, result.step, result.turn, result.digest


class _Rejudgement(Evaluation):
    """Evaluates as a trial does, but takes from the record what is not judged again. `only` restricts what is."""

    def __init__(self, trial: RunningTrial, stored: TrialRecord, only: frozenset[CheckKey] | None) -> None:
        super().__init__(trial)
        self._only = only
        self._stored: dict[CheckKey, list[EvaluationResult]] = {}
        for result in stored.evaluations:
            if result.digest:
                self._stored.setdefault(key_of(result), []).append(result)

    async def check(
        self, spec: EvaluationSpec, result: ExecutionResult, *, stage: Stage, step: int, turn: int | None = None
    ) -> EvaluationResult:
        prepared = self._trial.prepared(spec)
        key = (stage, step, turn, prepared.digest)
        same = self._stored.get(key)
        kept = same.pop(0) if same else None
        if self._is_made_again(prepared, key, kept):
            return await super().check(spec, result, stage=stage, step=step, turn=turn)
        found = kept or inconclusive(_NOT_STORED)
        took_ms = kept.duration_ms if kept else 0.0
        return self._finish(spec, prepared, found, stage=stage, step=step, turn=turn, took_ms=took_ms)

    def _is_made_again(self, check: PreparedCheck, key: CheckKey, kept: EvaluationResult | None) -> bool:
        if check.calls_model:
            if isinstance(check, PreparedGroup) and not all(
                each.calls_model or each.deterministic for each in check.parts
            ):
                return False
            return self._only is None or key in self._only
        return kept is None and check.deterministic


async def rejudge(
    build: Callable[[TrialRecord], TrialParts],
    stored: TrialRecord,
    *,
    origin: str,
    only: frozenset[CheckKey] | None = None,
) -> TrialRecord:
    """The stored trial with new judgements, as a separate record. With `only`, no other check calls its judge.

    If the trial was measured several times, each measurement is judged again, and an unsafe answer in any of them fails
    the trial.
    """
    earlier = [await rejudge(build, each, origin=origin, only=only) for each in stored.earlier]
    record = await _rejudge_one(RunningTrial(build(stored)), stored, origin, only)
    judged = settle(record.judged, [each.judged for each in earlier]) if earlier else record.judged
    return msgspec.structs.replace(record, judged=judged, earlier=tuple(earlier))


async def _rejudge_one(
    trial: RunningTrial, stored: TrialRecord, origin: str, only: frozenset[CheckKey] | None
) -> TrialRecord:
    evaluation = _Rejudgement(trial, stored, only)
    for note in trial.parts.notes:
        trial.warn(note)
    stored_steps = StoredSteps(trial, stored)
    if not stored_steps.same_tasks():
        judged = Judged(verdict=Verdict.INCONCLUSIVE, reason=_OTHER_TASK)
        return _record(trial, stored, origin, judged=judged, evaluations=())
    rebuilt = stored_steps.rebuilt()
    steps = [each.done for each in rebuilt if each.whole]
    assessment = Assessment(trial, evaluation, steps)
    errors = [f"{phase.name}: {phase.error}" for phase in stored.phases if phase.error is not None]
    for each in rebuilt:
        await _evaluate(trial, evaluation, each)
    await assessment.run()
    judged = judge_trial(
        judgment=trial.scenario.judgment,
        evaluations=evaluation.results,
        unfinished=evaluation.unfinished,
        errors=errors,
        latency=assessment.latency,
        undecided=trial.undecided,
        timeline=assessment.timeline,
        rubric=assessment.rubric,
    )
    return _record(trial, stored, origin, judged=judged, evaluations=tuple(evaluation.results))


async def check_again(parts: TrialParts, stored: TrialRecord) -> list[EvaluationResult]:
    """Every check of the scenario, made again on what is stored. One that reads what is not stored cannot pass."""
    trial = RunningTrial(parts)
    evaluation = Evaluation(trial)
    for each in StoredSteps(trial, stored).rebuilt():
        await _evaluate(trial, evaluation, each)
    trial.caller.detach()
    return evaluation.results


def _record(
    trial: RunningTrial, stored: TrialRecord, origin: str, *, judged: Judged, evaluations: tuple[EvaluationResult, ...]
) -> TrialRecord:
    trial.caller.detach()
    scenario = trial.scenario
    record = msgspec.structs.replace(
        stored,
        scenario_name=scenario.name,
        place=scenario.place,
        digest=scenario.digest,
        domain=scenario.domain,
        expects=scenario.expects,
        tags=scenario.tags,
        started_at=trial.started_at,
        duration_ms=trial.elapsed_ms(),
        judged=judged,
        phases=_phases(stored, trial.elapsed_ms()),
        evaluations=evaluations,
        events=(*_agents_part(stored.events), *(each for each in trial.events if type(each) is not Evaluated)),
        replaced=(),
        origin=origin,
    )
    return with_fault(record, scenario)


async def _evaluate(trial: RunningTrial, evaluation: Evaluation, rebuilt: RebuiltStep) -> None:
    step = rebuilt.done.step
    task = step.task
    if isinstance(task, Converse):
        script = UserScript(task)
        trial.step = step.index
        for number, result in enumerate(rebuilt.turns, start=1):
            trial.turn = number
            specs = (*task.config.turn_evaluations, *script.evaluations_at(number))
            evaluation.require_reply(step, specs, result, turn=number)
            for spec in specs:
                await evaluation.check(spec, result, stage="turn", step=step.index, turn=number)
        trial.turn = None
        for number, spec in script.evaluations_after(len(rebuilt.turns)):
            reason = f"turn {number} was not reached: the conversation ended after turn {len(rebuilt.turns)}"
            evaluation.not_reached(spec, reason, stage="turn", step=step.index, turn=number)
    if rebuilt.whole:
        await evaluation.step(rebuilt.done)
    trial.step = None


def _phases(stored: TrialRecord, took_ms: float) -> tuple[PhaseRecord, ...]:
    """The failed phases of the stored trial, whose errors still count, and the one that has just run."""
    failed = [phase for phase in stored.phases if phase.error is not None]
    return (*failed, PhaseRecord(name="rejudge", started_ms=0.0, duration_ms=took_ms))


def _agents_part(events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """The events without the calls of the stored run's judge, and without the errors and warnings of judging."""
    return [
        event
        for event in events
        if not (isinstance(event, _OF_A_CALL) and event.purpose == "judge")
        and not (isinstance(event, ErrorHappened) and event.phase in ("evaluate", "assess"))
        and not (isinstance(event, Noted) and event.level == "warning" and event.step is None)
    ]
