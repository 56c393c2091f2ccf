"""The evaluate phase: run every check of every step; each ends in a result."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Sequence
from typing import cast

import msgspec

from steadyhand.engine.context import RunningTrial, StepResult
from steadyhand.engine.model_call import awaited
from steadyhand.engine.prepared_check import PreparedCheck, PreparedGroup
from steadyhand.errors import LimitExceeded
from steadyhand.judging.group import combined, is_settled, negation
from steadyhand.judging.trial import tier_of
from steadyhand.language.answer import Certainty
from steadyhand.language.echo import is_echo
from steadyhand.ports.agent import Visible
from steadyhand.ports.evaluator import EvaluationContext
from steadyhand.records.base import UnreadableValue, ms_of, plain
from steadyhand.records.chat import Finish, FinishReason, Message
from steadyhand.records.evaluation import (
    EMPTY_REPLY,
    NO_DECISION,
    EvaluationResult,
    EvaluationSpec,
    Evidence,
    JudgeNote,
    LatencyBounds,
    Stage,
    Verdict,
    failed,
    inconclusive,
    spec_digest,
)
from steadyhand.records.event import ErrorHappened, Evaluated
from steadyhand.records.result import ExecutionResult, Latency
from steadyhand.records.scenario import Converse, RunCode, Step
from steadyhand.text_match import shows_nothing
from steadyhand.user_file import raised


class Evaluation:
    """Runs checks and keeps their results in order. `unfinished` holds the results of steps that hit a limit."""

    def __init__(self, trial: RunningTrial) -> None:
        self._trial: RunningTrial = trial
        self.results: list[EvaluationResult] = []
        self.unfinished: list[EvaluationResult] = []
        self._looked_at: ExecutionResult | None = None
        self._nothing_decided: str | None = None

    async def step(self, done: StepResult) -> None:
        """Run every check of a step that has just ended. Its turns have been checked already."""
        self._trial.step = done.step.index
        try:
            await self._check_step(done)
        finally:
            self._trial.step = None

    async def _check_step(self, done: StepResult) -> None:
        if done.limit is not None:
            cut_short = _limit_result(done.step, done.limit)
            self._keep(cut_short)
            self.unfinished.append(cut_short)
        if isinstance(done.step.task, Converse):
            for spec in done.step.task.config.final_evaluations:
                await self.check(spec, done.result, stage="final", step=done.step.index)
        else:
            self.require_reply(done.step, done.step.evaluations, done.result)
        for spec in done.step.evaluations:
            await self.check(spec, done.result, stage="step", step=done.step.index)

    async def check(
        self, spec: EvaluationSpec, result: ExecutionResult, *, stage: Stage, step: int, turn: int | None = None
    ) -> EvaluationResult:
        """Run one check. An evaluator that raises makes this evaluation an error, never a failure of the agent.

        An empty answer fails every check on what was said and, where an answer was due, every invariant. If an answer
        is incomplete through no fault of the model, a failure counts only if the rest of the answer could not have
        undone it.
        """
        started = time.perf_counter()
        check: PreparedCheck | None = None
        try:
            check = self._trial.prepared(spec)
            asked = self._trial.scenario.steps[step]
            found = await self._found(asked, check, result, turn)
            if found.verdict is Verdict.PASSED and spec.severity is not None and asked.reply_due:
                why = self._nothing_decided if self._looked_at is result else await self._look(asked, result)
                found = found if why is None else _not_decided(found, why)
        except Exception as error:  # noqa: BLE001 - whatever a check raises is recorded as its error
            found = self._error(spec, error)
        took_ms = ms_of(time.perf_counter() - started)
        try:
            return self._finish(spec, check, found, stage=stage, step=step, turn=turn, took_ms=took_ms)
        except UnreadableValue as error:
            found = self._error(spec, error)
            return self._finish(spec, check, found, stage=stage, step=step, turn=turn, took_ms=took_ms)

    async def _found(
        self, asked: Step, check: PreparedCheck, result: ExecutionResult, turn: int | None
    ) -> EvaluationResult:
        """What a check, or each check of a group, finds, limited by what can be known."""
        spec, finish = check.spec, result.finish
        context = EvaluationContext(
            trial=self._trial.seen_by(check),
            spec=spec,
            turn=turn,
            embedder=None if check.embeds_with is None else self._trial.parts.embedders.get(check.embeds_with),
        )
        if not spec.empty_ok and shows_nothing(result.reply) and self._is_silent(asked, spec, check, result):
            found = _empty_reply_failure()
        elif isinstance(check, PreparedGroup):
            found = await self._grouped(asked, check, result, turn)
        elif check.reads and (unseen := self._not_visible(check.reads)) is not None:
            found = await self._seen_all_the_same(check, result, context) or unseen
        elif check.runs_file and not self._trial.parts.runs_files:
            found = inconclusive(_NOT_RUN)
        elif finish is None or not finish.undecided:
            found = await self._evaluated(check, result, context)
        else:
            found = await self._check_incomplete(check, result, context, finish)
        return negation(found) if spec.negate else found

    async def _grouped(
        self, asked: Step, group: PreparedGroup, result: ExecutionResult, turn: int | None
    ) -> EvaluationResult:
        """Models are asked last, and only if the others leave the group open."""
        found: dict[int, EvaluationResult] = {}
        for at, part in sorted(enumerate(group.parts), key=lambda each: each[1].calls_model):
            if part.calls_model and is_settled(group.spec, list(found.values())):
                continue
            member = await self._found(asked, part, result, turn)
            found[at] = msgspec.structs.replace(member, type=part.spec.type)
        return combined(group.spec, [found[at] for at in sorted(found)])

    async def _seen_all_the_same(
        self, check: PreparedCheck, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult | None:
        """A failure that rests on what was seen, although not all of it can be."""
        if not check.fails_for_good:
            return None
        found = await self._evaluated(check, result, context)
        return found if found.verdict is Verdict.FAILED and found.rests_on == "presence" else None

    async def _check_incomplete(
        self, check: PreparedCheck, result: ExecutionResult, context: EvaluationContext, finish: Finish
    ) -> EvaluationResult:
        """A check on an answer that is incomplete through no fault of the model."""
        found: EvaluationResult | None = None
        if check.fails_for_good or check.reads:
            found = await self._evaluated(check, result, context)
            if found.verdict is Verdict.FAILED and (found.rests_on == "presence" or check.fails_for_good):
                return found  # the missing rest of the answer could not have changed that
        evidence, figures = (found.evidence, found.figures) if found else (None, None)
        hint = "; raise the limit to decide this" if finish.our_limit else ""
        return inconclusive(f"{finish}{hint}", evidence=evidence, figures=figures)

    async def _evaluated(
        self, check: PreparedCheck, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        """What an evaluator found, limited by what it could see and by who judged it. Raises if it is not a result."""
        found = _result_of(await awaited(check.evaluator.evaluate(check.params, result, context), "evaluate"))
        parts = self._trial.parts
        if check.reads or parts.missing_plugins:
            found = self._qualify(found, check.reads)
        if check.budget is not None and found.verdict in (Verdict.PASSED, Verdict.FAILED):
            found = _gradable(found, check.budget, result.latency)
        return self._doubted(found, check.spec) if parts.doubts else found

    def require_reply(
        self, step: Step, specs: Sequence[EvaluationSpec], result: ExecutionResult, *, turn: int | None = None
    ) -> None:
        """Fail an empty reply where one is due, unless `specs` has an invariant, which fails on it anyway, or a check
        that says otherwise. Without any invariant, an answer that decides nothing cannot pass."""
        for spec in specs:
            if spec.severity is not None or spec.empty_ok:
                return
        if (why := self._undecided(step, result)) is not None:
            self._trial.undecided.append(why)
        if self._reply_is_empty(step, result):
            stage: Stage = "step" if turn is None else "turn"
            self._keep(
                msgspec.structs.replace(
                    _empty_reply_failure(), type="reply", place=step.place, stage=stage, step=step.index, turn=turn
                )
            )

    def _reply_is_empty(self, step: Step, result: ExecutionResult) -> bool:
        return step.reply_due and shows_nothing(result.reply) and _had_its_say(result)

    def _is_silent(self, step: Step, spec: EvaluationSpec, check: PreparedCheck, result: ExecutionResult) -> bool:
        """Whether an agent whose reply is empty said nothing of what this check judges."""
        if spec.severity is not None and self._reply_is_empty(step, result):
            return True
        if check.spoken is None or isinstance(step.task, RunCode) or not _had_its_say(result):
            return False
        if check.spoken == "agent" and result.conversation is not None and result.conversation.turns:
            return all(shows_nothing(turn.agent_response) for turn in result.conversation.turns)
        return True

    async def _look(self, step: Step, result: ExecutionResult) -> str | None:
        """Why no invariant may pass on this answer, if so: it repeats the question, or every invariant only forbids and
        it decides nothing. Looked at once: most checks ask about the same answer."""
        trial = self._trial
        why = _ECHOED if is_echo(result.reply, _prompts(result)) else None
        known = trial.prepared_step(step)
        if why is None and (forbids := await known.only_forbids(trial.prepared)) is not False:
            why = self._undecided(step, result)
            if why is not None and forbids is None and not await known.only_forbids(trial.prepared, self._holds_on):
                why = None
        self._looked_at, self._nothing_decided = result, why
        return why

    async def _holds_on(self, check: PreparedCheck, text: str) -> bool:
        """Whether a check passes if an agent does nothing and says this. Raises what its evaluator raises."""
        if check.runs_file and not self._trial.parts.runs_files:
            return False
        result = ExecutionResult(reply=text, messages=(Message(role="assistant", content=text),))
        context = EvaluationContext(trial=self._trial.seen_by(check), spec=check.spec)
        verdict = (await awaited(check.evaluator.evaluate(check.params, result, context), "evaluate")).verdict
        return verdict is (Verdict.FAILED if check.spec.negate else Verdict.PASSED)

    def _undecided(self, step: Step, result: ExecutionResult) -> str | None:
        """Why the answer decides nothing where a decision was due, or None."""
        if not step.reply_due or self._trial.scenario.expects == "defer":
            return None
        if result.finish is not None and result.finish.reason is FinishReason.REFUSAL:
            return f"the model refused, and {_NOT_ASKED}"
        from steadyhand.language.refusal import refusal, speaks_to  # loaded by `Builder.prepare` if it may be needed

        if (read := refusal(result.reply)).answer is not Certainty.NO:
            return f"the reply decides nothing: {read.why}, and {_NOT_ASKED}"
        if not shows_nothing(result.reply) and not speaks_to(result.reply, _prompts(result)):
            return f"the reply may decide nothing: no order in it is known, and {_NOT_ASKED}"
        return None

    def _not_visible(self, reads: frozenset[Visible]) -> EvaluationResult | None:
        """Inconclusive if the check reads what this agent does not show: neither result would prove anything."""
        shows = self._trial.shows
        unseen = shows.only("not_seen", reads)
        if not unseen:
            return None
        what, who = _listed(unseen), self._trial.parts.agent
        name = who.name if who is not None else "the agent"
        why = f"cannot be seen with {name}" if shows.acts else f"cannot come from {name}, which only replies"
        return inconclusive(
            f"{what} {why}, so their absence proves nothing; {shows.advice}",
            evidence=Evidence(expected=f"to see {what}", found="not seen", where=name),
            figures={"not_seen": list(unseen)},
        )

    def _qualify(self, found: EvaluationResult, reads: frozenset[Visible]) -> EvaluationResult:
        """Mark a result that rests on the agent's own report; make it inconclusive if a gap may explain it."""
        if reads and (partly := self._trial.shows.only("partly_seen", reads)) and _missing_part_may_change(found):
            return msgspec.structs.replace(
                found,
                verdict=Verdict.INCONCLUSIVE,
                message=f"{found.message}; but {_listed(partly)} were only partly seen: {self._trial.shows.advice}",
                figures={**found.figures, "partly_seen": list(partly)},
            )
        if reads and (reported := self._trial.shows.only("self_reported", reads)):
            found = msgspec.structs.replace(
                found,
                self_reported=reported,
                message=f"{found.message} ({_listed(reported)} as the agent reports them)",
            )
        missing = self._trial.parts.missing_plugins
        if missing and self._trial.asks_agent and _missing_tool_may_explain(found, acts=bool(reads)):
            names = ", ".join(map(repr, missing))
            return msgspec.structs.replace(
                found,
                verdict=Verdict.INCONCLUSIVE,
                message=f"{found.message}; but the tools of {names} were never offered to the agent: "
                "no such plugin is installed",
            )
        return found

    def _doubted(self, found: EvaluationResult, spec: EvaluationSpec) -> EvaluationResult:
        """The verdict of a judge that may not decide, as information only."""
        doubt = self._trial.parts.doubts.get(id(spec))
        if doubt is None or found.decided_by == "reader" or found.verdict not in (Verdict.PASSED, Verdict.FAILED):
            return found
        return msgspec.structs.replace(
            found,
            verdict=Verdict.INCONCLUSIVE,
            message=f"{doubt}; it would have {found.verdict}: {found.message}",
            figures={**found.figures, "judge_verdict": found.verdict.value},
        )

    def not_reached(self, spec: EvaluationSpec, reason: str, *, stage: Stage, step: int, turn: int) -> EvaluationResult:
        """Record a check of a turn that was never reached. Leaving it out would look as if it had passed."""
        try:
            check = self._trial.prepared(spec)
        except Exception:  # noqa: BLE001 - a check that never ran cannot end in this error
            check = None
        return self._finish(spec, check, inconclusive(reason), stage=stage, step=step, turn=turn, took_ms=0.0)

    def _finish(
        self,
        spec: EvaluationSpec,
        check: PreparedCheck | None,
        found: EvaluationResult,
        *,
        stage: Stage,
        step: int,
        turn: int | None,
        took_ms: float,
    ) -> EvaluationResult:
        figures = found.figures
        finished = msgspec.structs.replace(
            found,
            figures=plain(figures) if figures else {},
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
            budget=check.budget if check is not None else None,
            digest=check.digest if check is not None else spec_digest(spec),
        )
        self._keep(finished)
        return finished

    def _keep(self, result: EvaluationResult) -> None:
        self.results.append(result)
        trial = self._trial
        if trial.parts.sinks:  # The record stores results separately; the event is for listeners.
            trial.emit(Evaluated(at_ms=trial.elapsed_ms(), step=trial.step, turn=trial.turn, result=result))

    def _error(self, spec: EvaluationSpec, error: Exception) -> EvaluationResult:
        message = f"the check could not run: {raised(error)}"
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


def _prompts(result: ExecutionResult) -> list[str]:
    return [message.content for message in result.messages if message.role != "assistant"]


def _not_decided(found: EvaluationResult, why: str) -> EvaluationResult:
    figures = {**found.figures, NO_DECISION: True}
    return inconclusive(f"{found.message}; but {why}", evidence=found.evidence, figures=figures)


_NOT_RUN = "not evaluated: code from a file is only run in a trial, not on the record of one"
_ECHOED = "the reply only repeats what it was asked"
_NOT_ASKED = "no invariant says what must be answered"


def _had_its_say(result: ExecutionResult) -> bool:
    """An answer cut off at the deadline, or by a limit of ours, is not empty: it is graded by how it ended."""
    finish = result.finish
    return finish is None or not (finish.undecided or finish.reason is FinishReason.DEADLINE)


def _empty_reply_failure() -> EvaluationResult:
    return failed(
        "the reply is empty",
        evidence=Evidence(expected="a reply", found="", where="reply"),
        figures={EMPTY_REPLY: True},
        rests_on="neither",
    )


_NOUNS: dict[Visible, str] = {
    "actions": "the actions",
    "services": "the service calls",
    "files": "the files",
    "database": "the database",
    "model_calls": "the model calls",
}


def _listed(what: Sequence[Visible]) -> str:
    return " and ".join(_NOUNS[each] for each in what)


def _missing_tool_may_explain(found: EvaluationResult, *, acts: bool) -> bool:
    """Whether a missing tool could be the reason for this result, because something was not done. With `acts`, it is
    about what the agent did."""
    if found.verdict is Verdict.FAILED:
        return found.rests_on != "presence"
    if found.verdict is Verdict.INCONCLUSIVE:
        return acts  # that a tool was never offered may be all that is known
    return found.verdict is Verdict.PASSED and found.rests_on == "absence"


def _missing_part_may_change(found: EvaluationResult) -> bool:
    """Whether actions that were not seen could change this verdict."""
    if found.verdict is Verdict.FAILED:
        return found.rests_on != "presence"
    return found.verdict is Verdict.PASSED


def _result_of(found: object) -> EvaluationResult:
    """What an evaluator returned. Raises `TypeError` for anything but a result: that is an error of the check."""
    if not isinstance(found, EvaluationResult):
        raise TypeError(f"it returned {found!r}; expected `passed(...)`, `failed(...)` or `inconclusive(...)`")
    verdict = cast("object", found.verdict)
    if not isinstance(verdict, Verdict):
        raise TypeError(f"its verdict is {verdict!r}; expected one of `Verdict`")
    message = cast("object", found.message)
    if not isinstance(message, str):
        raise TypeError(f"its message is {message!r}; expected a text")
    for name, kind in (("evidence", Evidence), ("judge", JudgeNote)):
        value: object = getattr(found, name)
        if value is None:
            continue
        if not isinstance(value, kind):
            raise TypeError(f"its {name} is {value!r}; expected {kind.__name__}(...)")
        try:
            msgspec.convert(msgspec.to_builtins(value), kind)  # otherwise nobody could read the record of the trial
        except msgspec.ValidationError as error:
            raise TypeError(f"its {name} has a value of the wrong type: {error} of {value!r}") from None
    return found


def _gradable(found: EvaluationResult, budget: LatencyBounds, latency: Latency | None) -> EvaluationResult:
    """A grade stands only if nothing that disturbed the latency could have changed it, whatever the check looked at."""
    known = latency is not None and latency.ms is not None and 0 <= latency.ms < math.inf
    if latency is not None and known and not latency.spoiled and not latency.cut:
        return found
    low_ms, high_ms = latency.bounds if latency is not None and known else (0.0, math.inf)
    tiers = {tier_of(ms, *msgspec.structs.astuple(budget)) for ms in (low_ms, high_ms)}
    if len(tiers) == 1 or (latency is not None and latency.cut and low_ms >= budget.critical_ms):
        return found
    reasons = "; ".join(map(str, latency.spoiled)) if latency is not None and known else "nothing was timed"
    figures = {name: value for name, value in found.figures.items() if name != "tier"}
    ungraded = f"the latency cannot be graded: {reasons or 'the answer was cut off'}"
    return inconclusive(ungraded, evidence=found.evidence, figures=figures)


def _limit_result(step: Step, limit: LimitExceeded) -> EvaluationResult:
    """A step that ran out of time has failed, whatever else it did."""
    result = failed(
        f"the step did not finish: {limit}",
        evidence=Evidence(expected=f"at most {limit.allowed:g} {limit.unit}", found=f"{limit.used:g} {limit.unit}"),
    )
    return msgspec.structs.replace(result, type="time_limit", place=step.place, name=step.name, step=step.index)
