"""The evaluate phase: every check of every step, each ending in a result."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence

import msgspec

from holdfast.engine.context import Trial
from holdfast.engine.outcome import StepResult
from holdfast.errors import LimitExceeded
from holdfast.ports.agent import Visible
from holdfast.ports.evaluator import EvaluationContext, Evaluator
from holdfast.records.evaluation import EvaluationResult, EvaluationSpec, Evidence, Stage, failed, inconclusive
from holdfast.records.event import ErrorHappened, Evaluated
from holdfast.records.execution import ExecutionResult
from holdfast.records.scenario import Converse, Step
from holdfast.records.verdict import Verdict


class Evaluation:
    """Runs checks and keeps their results, in the order they were made."""

    def __init__(self, trial: Trial) -> None:
        self._trial: Trial = trial
        self._latest: int = 0
        self.results: list[EvaluationResult] = []

    async def steps(self, steps: Sequence[StepResult]) -> None:
        self._latest = max((done.step.index for done in steps), default=0)
        try:
            for done in steps:
                self._trial.step = done.step.index
                await self._step(done)
        finally:
            self._trial.step = None

    async def _step(self, done: StepResult) -> None:
        if done.limit is not None:
            self._keep(_limit_result(done.step, done.limit))
        if isinstance(done.step.task, Converse):
            for spec in done.step.task.config.final_evaluations:
                await self.check(spec, done.result, stage="final", step=done.step.index)
        for spec in done.step.evaluations:
            await self.check(spec, done.result, stage="step", step=done.step.index)

    async def check(
        self, spec: EvaluationSpec, result: ExecutionResult, *, stage: Stage, step: int, turn: int | None = None
    ) -> EvaluationResult:
        """Run one check. An evaluator that raises makes this evaluation an error, never a failure of the agent."""
        started = time.perf_counter()
        try:
            evaluator = self._trial.parts.evaluator(spec.type)
            params = self._trial.params(spec, evaluator)
            found = self._unseen(evaluator)
            if found is None:
                found = await evaluator.evaluate(params, result, self._context(spec, step))
                found = self._qualified(found, evaluator)
        except Exception as error:  # noqa: BLE001 - whatever a check raises is recorded as its error
            found = self._error(spec, error)
        took_ms = round((time.perf_counter() - started) * 1000.0, 3)
        return self._finish(spec, found, stage=stage, step=step, turn=turn, took_ms=took_ms)

    def _unseen(self, evaluator: Evaluator) -> EvaluationResult | None:
        """What there is to say of a check on what cannot be seen: it proves nothing, whichever way it would end."""
        reads = _reads(evaluator)
        if not reads:
            return None
        shows = self._trial.shows
        unseen = shows.only("not_seen", reads)
        if not unseen:
            return None
        what, who = _named(unseen), self._trial.parts.agent
        name = who.name if who is not None else "the agent"
        why = f"cannot be seen with {name}" if shows.acts else f"cannot come from {name}, which only replies"
        return inconclusive(
            f"{what} {why}, so that silence proves nothing; {shows.advice}",
            evidence=Evidence(expected=f"to see {what}", found="not seen", where=name),
            figures={"not_seen": list(unseen)},
        )

    def _qualified(self, found: EvaluationResult, evaluator: Evaluator) -> EvaluationResult:
        """Marked where it rests on the agent's own word, and undecided where a missing plugin may have decided it."""
        reads = _reads(evaluator)
        if reads and (told := self._trial.shows.only("self_reported", reads)):
            found = msgspec.structs.replace(
                found, self_reported=told, message=f"{found.message} ({_named(told)} as the agent reports them)"
            )
        missing = self._trial.parts.missing_plugins
        if missing and self._trial.asks_agent and _for_want_of_a_tool(found):
            names = ", ".join(map(repr, missing))
            was = "was" if len(missing) == 1 else "were"
            return msgspec.structs.replace(
                found,
                verdict=Verdict.INCONCLUSIVE,
                message=f"{found.message}; but what {names} would bring {was} never offered to the agent: "
                "no installed plugin answers to that name",
            )
        return found

    def not_reached(self, spec: EvaluationSpec, reason: str, *, stage: Stage, step: int, turn: int) -> EvaluationResult:
        """A check that the scenario asks for at a turn that never came. Left out, it would look as if it held."""
        return self._finish(spec, inconclusive(reason), stage=stage, step=step, turn=turn, took_ms=0.0)

    def _finish(
        self,
        spec: EvaluationSpec,
        found: EvaluationResult,
        *,
        stage: Stage,
        step: int,
        turn: int | None,
        took_ms: float,
    ) -> EvaluationResult:
        finished = msgspec.structs.replace(
            found,
            type=spec.type,
            place=spec.place,
            name=spec.name,
            description=spec.description,
            severity=spec.severity,
            weight=spec.weight,
            stage=stage,
            step=step,
            turn=turn,
            duration_ms=took_ms,
        )
        self._keep(finished)
        return finished

    def _context(self, spec: EvaluationSpec, step: int) -> EvaluationContext:
        return EvaluationContext(trial=self._trial, spec=spec, current=step >= self._latest)

    def _keep(self, result: EvaluationResult) -> None:
        self.results.append(result)
        trial = self._trial
        if trial.parts.sinks:  # The record has results of their own; the event is for who listens.
            trial.emit(Evaluated(at_ms=trial.elapsed_ms(), step=trial.step, turn=trial.turn, result=result))

    def _error(self, spec: EvaluationSpec, error: Exception) -> EvaluationResult:
        message = f"the check could not be made: {type(error).__name__}: {error}"
        self._trial.emit(
            ErrorHappened(
                at_ms=self._trial.elapsed_ms(),
                phase="evaluate",
                message=f"{spec.type} at {spec.place}: {message}",
                error_type=type(error).__name__,
                traceback="".join(traceback.format_exception(error)),
            )
        )
        return EvaluationResult(verdict=Verdict.ERROR, message=message)


_NOUNS: dict[Visible, str] = {
    "actions": "the actions",
    "services": "the service calls",
    "files": "the files",
    "database": "the database",
    "model_calls": "the model calls",
}


def _named(what: Sequence[Visible]) -> str:
    return " and ".join(_NOUNS[each] for each in what)


def _reads(evaluator: Evaluator) -> frozenset[Visible]:
    reads: frozenset[Visible] = getattr(evaluator, "reads", frozenset())
    return reads


def _for_want_of_a_tool(found: EvaluationResult) -> bool:
    """Whether it could have come out like this because a tool was not there: something was not done."""
    if found.verdict is Verdict.FAILED:
        return found.rests_on != "presence"
    return found.verdict is Verdict.PASSED and found.rests_on == "absence"


def _limit_result(step: Step, limit: LimitExceeded) -> EvaluationResult:
    """A step that ran out of its time has failed, whatever else it did."""
    result = failed(
        f"the step did not finish: {limit}",
        evidence=Evidence(expected=f"at most {limit.allowed:g} {limit.unit}", found=f"{limit.used:g} {limit.unit}"),
    )
    return msgspec.structs.replace(result, type="time_limit", place=step.place, name=step.name, step=step.index)
