"""One trial, from set-up to verdict. No files, no names, no printing."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from types import coroutine

import msgspec

from steadyhand.engine.context import RunningTrial, ScoreRubric, StepResult, TrialParts
from steadyhand.engine.evaluation import Evaluation
from steadyhand.engine.limits import FROZEN_S, Lost, lost_lately
from steadyhand.engine.safety_timeline import safety_timeline
from steadyhand.engine.steps import StepRunner
from steadyhand.errors import SteadyhandError, TrialError
from steadyhand.judging.material import materials_of
from steadyhand.judging.rubric import NO_JUDGE, NOT_REACHED
from steadyhand.judging.trial import judge_trial, latency_tier, settle, without_secrecy
from steadyhand.ports.agent import closes_at_once
from steadyhand.ports.evaluator import reads_of
from steadyhand.records.base import ms_of, rounded_ms
from steadyhand.records.chat import SafetyTimeline
from steadyhand.records.evaluation import NOT_RUNNING, RubricScore, Verdict
from steadyhand.records.event import ErrorHappened, Evaluated, Noted
from steadyhand.records.isolation import IsolationKind, weakest
from steadyhand.records.result import (
    ConversationEnding,
    ConversationMetrics,
    ConversationResult,
    FileSystemOperation,
    Latency,
)
from steadyhand.records.run import PhaseRecord, TrialRecord
from steadyhand.records.scenario import Converse, Step, evaluation_specs
from steadyhand.user_file import raised


class PhaseLog:
    """The phases of a trial, by name. `run` and `evaluate` have a part for each step; their times are added up."""

    def __init__(self, trial: RunningTrial) -> None:
        self._trial: RunningTrial = trial
        self._phases: dict[str, PhaseRecord] = {}

    @property
    def records(self) -> tuple[PhaseRecord, ...]:
        return tuple(self._phases.values())

    @property
    def errors(self) -> list[str]:
        return [f"{record.name}: {record.error}" for record in self._phases.values() if record.error is not None]

    async def run(self, name: str, work: Awaitable[None]) -> bool:
        """Run a phase. True if it succeeded; a failure is recorded, and cancellation is re-raised."""
        now, zero = self._trial.clock.now, self._trial.zero
        began = now()
        error: str | None = None
        try:
            await work
        except asyncio.CancelledError:
            error = "interrupted"
            raise
        except Exception as failure:  # noqa: BLE001 - a bug of ours must not end other trials
            error = self._failed(name, failure)
        finally:
            started_ms, took_ms = ms_of(began - zero), ms_of(now() - began)
            before, first = self._phases.get(name), error
            if before is not None:
                started_ms, took_ms = before.started_ms, rounded_ms(before.duration_ms + took_ms)
                first = error if before.error is None else before.error  # a later part that succeeds does not undo it
            self._phases[name] = PhaseRecord(name=name, started_ms=started_ms, duration_ms=took_ms, error=first)
        return error is None

    def _failed(self, phase: str, failure: Exception) -> str:
        """Record why a phase failed, with a traceback unless the error is of an expected kind."""
        expected = isinstance(failure, SteadyhandError)
        message = str(failure) if expected else f"unexpected {raised(failure)}"
        event = ErrorHappened(
            at_ms=self._trial.elapsed_ms(),
            phase=phase,
            message=message,
            error_type=type(failure).__name__,
            traceback=None if expected else traceback.format_exc(),
        )
        self._trial.emit(event)
        return message


@coroutine
def keep_step() -> Generator[None]:
    """Let other trials reach this point before this one continues.

    Trials that go through a phase one after another find its code in the processor's cache. A trial that goes through
    all phases by itself does not, and takes half as long again. The sockets are polled in between. Does what
    `asyncio.sleep(0)` does, at a lower cost.
    """
    yield


async def run_trial(parts: TrialParts) -> TrialRecord:
    """Set up, run, evaluate, assess, tear down, judge. Always returns a record, unless cancelled."""
    trial = RunningTrial(parts)
    began, lost_before = time.perf_counter(), lost_lately(parts.lag)
    for note in parts.notes:
        trial.warn(note)
    phases = PhaseLog(trial)
    evaluation = Evaluation(trial)
    runner = StepRunner(trial, evaluation)
    assessment = Assessment(trial, evaluation, runner.results)
    try:
        if await phases.run("set_up", _set_up(trial)):
            await _run_steps(trial, phases, runner, evaluation)
            await keep_step()
            await phases.run("assess", assessment.run())
    finally:
        ending = phases.run("tear_down", _tear_down(trial))
        await (ending if _closes_at_once(parts) else asyncio.shield(ending))
    _note_absence(trial, began, lost_lately(parts.lag).since(lost_before))
    record = _record(trial, phases, evaluation, assessment, runner.conversations)
    trial.caller.detach()
    return record


def _note_absence(trial: RunningTrial, began: float, lost: Lost) -> None:
    """Nothing on our clock tells how long an agent had while the machine was suspended."""
    if lost.asleep_s >= FROZEN_S:
        trial.disturbed(f"{lost} during the trial")
        return
    lag = trial.parts.lag
    if lag is None or lost.stalled_s < FROZEN_S or lag.worst_ms(began, time.perf_counter()) < FROZEN_S * 1000.0:
        return
    trial.emit(Noted(at_ms=trial.elapsed_ms(), message=f"{lost} during the trial", topic=NOT_RUNNING))


async def _run_steps(trial: RunningTrial, phases: PhaseLog, runner: StepRunner, evaluation: Evaluation) -> None:
    """Check each step before the next begins, while files and database are as the step left them."""
    for step in trial.scenario.steps:
        if not await phases.run("run", runner.run(step)):
            return
        await keep_step()
        await phases.run("evaluate", evaluation.step(runner.results[-1]))


async def _set_up(trial: RunningTrial) -> None:
    files = [
        FileSystemOperation(path=path, content=content.encode())
        for path, content in trial.scenario.setup.virtual_fs.items()
    ]
    await trial.environment.setup(files)
    if trial.parts.database is not None or trial.scenario.setup.database is not None:
        await _open_database(trial)
    if trial.parts.services is not None:
        await trial.parts.services.open(trial)
    if trial.parts.gateway is not None:
        trial.addresses = await trial.parts.gateway.open(trial)
    if trial.parts.agent is not None:
        try:
            await trial.parts.agent.open(trial)
        except TrialError:
            await trial.raise_broken()
            raise
    if trial.parts.services is not None:
        await trial.raise_broken()


async def _open_database(trial: RunningTrial) -> None:
    seed, database = trial.scenario.setup.database, trial.parts.database
    if database is not None:
        await database.open()
    if seed is not None and trial.live:
        trial.emit(Noted(at_ms=trial.elapsed_ms(), message="live: the scenario's database seeding is ignored"))
    elif seed is not None and database is not None:
        await database.seed(seed)


def _closes_at_once(parts: TrialParts) -> bool:
    """Whether tearing down never awaits, so that it cannot be cancelled and needs no shield."""
    return (
        parts.database is None
        and parts.services is None
        and parts.gateway is None
        and closes_at_once(parts.environment)
        and (parts.agent is None or closes_at_once(parts.agent))
    )


async def _tear_down(trial: RunningTrial) -> None:
    """Close all parts, the last opened first, even if one of them fails to close."""
    parts = trial.parts
    failures: list[Exception] = []
    closing = [part.close for part in (parts.agent, parts.gateway, parts.services, parts.database) if part is not None]
    if parts.services is not None:
        closing.append(trial.raise_broken)  # after the agent: it may have called a service while closing
    for close in (*closing, parts.environment.teardown):
        try:
            await close()
        except Exception as failure:  # noqa: BLE001 - raised below
            failures.append(failure)
    if failures:
        for other in failures[1:]:
            failures[0].add_note(f"and then {type(other).__name__}: {other}")
        raise failures[0]


def _record(
    trial: RunningTrial,
    phases: PhaseLog,
    evaluation: Evaluation,
    assessment: Assessment,
    conversations: Mapping[int, ConversationResult],
) -> TrialRecord:
    """Evaluation events are kept as `evaluations`, all others as `events`."""
    parts = trial.parts
    judged = judge_trial(
        judgment=parts.scenario.judgment,
        evaluations=evaluation.results,
        unfinished=evaluation.unfinished,
        errors=[*phases.errors, *trial.disturbances],
        latency=assessment.latency,
        undecided=[*trial.undecided, *_doubts(trial, evaluation)],
        timeline=assessment.timeline,
        rubric=assessment.rubric,
    )
    opened = [file for part in (parts.agent, parts.environment) for file in getattr(part, "opened_key_files", ())]
    record = TrialRecord(
        key=parts.key,
        scenario_name=parts.scenario.name,
        place=parts.scenario.place,
        digest=parts.scenario.digest,
        started_at=trial.started_at,
        duration_ms=trial.elapsed_ms(),
        judged=without_secrecy(judged, evaluation.results, opened),
        agent=parts.agent.name if parts.agent else "",
        model=parts.model_name,
        seed=parts.seed,
        domain=parts.scenario.domain,
        expects=parts.scenario.expects,
        tags=parts.scenario.tags,
        phases=phases.records,
        metrics=_metrics(trial, conversations) if conversations else None,
        evaluations=tuple(evaluation.results),
        events=tuple([event for event in trial.events if type(event) is not Evaluated]),
        conversations=tuple(
            [_ending(parts.scenario.steps[step], conversation) for step, conversation in conversations.items()]
        ),
        shows=None if parts.agent is None else trial.shows_of(parts.agent),
        missing_plugins=tuple(parts.missing_plugins),
        isolation=_isolation(parts),
    )
    if not any(mock.fault for mock in parts.scenario.setup.mocks):
        return record
    from steadyhand.judging.fault import with_fault  # slow to import; loaded by `Builder.prepare`

    return with_fault(record, parts.scenario)


def _isolation(parts: TrialParts) -> IsolationKind | None:
    """The weakest of what its processes had, if it had any."""
    of_agent, of_commands = getattr(parts.agent, "isolation", None), getattr(parts.environment, "isolation", None)
    return weakest([of_agent, of_commands]) if of_agent or of_commands else None


def _doubts(trial: RunningTrial, evaluation: Evaluation) -> Sequence[str]:
    """What arrived too late for the checks on what the agent did, or may not be its own, if there were such checks."""
    if trial.parts.gateway is None or not (doubts := trial.parts.gateway.doubts()):
        return ()
    places = {result.place for result in evaluation.results}
    specs = [spec for group in evaluation_specs(trial.scenario) if group.place in places for spec in group.leaves]
    types = {spec.type for spec in specs}
    read = {what for each in types for what in reads_of(trial.parts.evaluator(each))}
    return doubts if read & {"actions", "services"} else ()


def _metrics(trial: RunningTrial, conversations: Mapping[int, ConversationResult]) -> ConversationMetrics | None:
    from steadyhand.engine.conversation import conversation_metrics  # slow to import; most decisions do not need it

    return conversation_metrics(tuple(conversations.values()), conversations, trial.events)


def _ending(step: Step, conversation: ConversationResult) -> ConversationEnding:
    return ConversationEnding(
        step=step.index,
        turns=len(conversation.turns),
        terminated_early=conversation.terminated_early,
        termination_reason=conversation.termination_reason,
        termination_evidence=conversation.termination_evidence,
        transcript_exported=isinstance(step.task, Converse) and step.task.config.debug_options.export_full_transcript,
    )


MAX_REMEASUREMENTS = 2


async def run_until_measured(build: Callable[[], TrialParts]) -> TrialRecord:
    """Run a trial, and repeat it up to twice if only its latency could not be graded, or if it was left undecided and
    this process was not running meanwhile; every attempt is kept.

    An unsafe answer in any attempt fails the trial.
    """
    earlier: list[TrialRecord] = []
    while True:
        record = await run_trial(build())
        again = only_latency_is_missing(record) or undecided_while_away(record)
        if len(earlier) == MAX_REMEASUREMENTS or not again:
            if not earlier:
                return record
            judged = settle(record.judged, [each.judged for each in earlier])
            return msgspec.structs.replace(record, judged=judged, earlier=tuple(earlier))
        earlier.append(record)


def undecided_while_away(record: TrialRecord) -> bool:
    """Whether this process was not running during a trial that was neither passed nor failed."""
    if record.judged.verdict not in (Verdict.ERROR, Verdict.INCONCLUSIVE):
        return False
    return any(type(event) is Noted and event.topic == NOT_RUNNING for event in record.events) or any(
        NOT_RUNNING in result.figures for result in record.evaluations if result.verdict is not Verdict.PASSED
    )


def only_latency_is_missing(record: TrialRecord) -> bool:
    """Whether measuring again could decide this inconclusive trial."""
    if record.judged.verdict is not Verdict.INCONCLUSIVE:
        return False
    undecided = [result for result in record.evaluations if result.verdict is not Verdict.PASSED]
    spoiled = record.judged.latency_spoiled
    return (
        all(result.budget is not None for result in undecided)
        and bool(undecided)
        and bool(spoiled)
        and all(each.kind.passes for each in spoiled)
    )


class Assessment:
    """What is computed after all checks: the safety timeline and the rubric score. None until computed."""

    def __init__(self, trial: RunningTrial, evaluation: Evaluation, steps: Sequence[StepResult]) -> None:
        self._trial: RunningTrial = trial
        self._evaluation: Evaluation = evaluation
        self._steps: Sequence[StepResult] = steps
        self.timeline: SafetyTimeline | None = None
        rubric = trial.scenario.rubric
        self.rubric: RubricScore | None = RubricScore(name=rubric, reason=NOT_REACHED) if rubric else None

    @property
    def latency(self) -> Latency | None:
        """The latency of the last step that has one."""
        found = [done.result.latency for done in self._steps if done.result.latency]
        return found[-1] if found else None

    async def run(self) -> None:
        trial = self._trial
        self.timeline = await safety_timeline(trial, self._steps, self._evaluation.results)
        if trial.scenario.rubric and trial.parts.score_rubric is None:
            self.rubric = RubricScore(name=trial.scenario.rubric, reason=NO_JUDGE)
        elif trial.parts.score_rubric is not None and len(self._steps) == len(trial.scenario.steps):
            self.rubric = await self._score(trial.parts.score_rubric)

    async def _score(self, score: ScoreRubric) -> RubricScore:
        """A rubric does not affect the verdict, so a failure to score it is only recorded in the score."""
        trial = self._trial
        tier = latency_tier(self._evaluation.results, self.latency)
        materials = materials_of(self._steps[-1].result, trial.scenario.setup.virtual_fs)
        try:
            return _checked_score(await score(materials, tier, trial))
        except Exception as error:  # noqa: BLE001 - see above
            reason = f"not scored: {type(error).__name__}: {error}"
            return RubricScore(name=trial.scenario.rubric or "rubric", reason=reason)


def _checked_score(found: object) -> RubricScore:
    """Raises `TypeError` if it is not a score, and `ValueError` for a score outside 0 to 1."""
    if not isinstance(found, RubricScore):
        raise TypeError(f"the judge returned {found!r}; expected a RubricScore")
    scores = [*found.scores.values(), *([] if found.overall is None else [found.overall])]
    if not all(0 <= score <= 1 for score in scores):
        raise ValueError("a score is not between 0 and 1")
    return found
