"""Judge a stored trial again: the agent's part is taken from the record, and only judges are asked.

Checks that ask a judge are made again on what was stored. Of the others, one that has not changed since is kept as it
was recorded; one that has is made again where the reply alone decides it, and is inconclusive otherwise. What was not
stored (the contents of files) is shown to nobody, so that a judge that would need it is not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast

import msgspec

from steadyhand.engine.context import PreparedCheck, RunningTrial, StepResult, TrialParts
from steadyhand.engine.conversation import UserScript
from steadyhand.engine.evaluation import Assessment, Evaluation
from steadyhand.errors import AgentError, LimitExceeded, LimitKind, WorkspaceError
from steadyhand.judging.trial import judge_trial, settle
from steadyhand.ports.agent import Reply, Shows, TrialContext, Turn
from steadyhand.ports.evaluator import deterministic, needs_judge
from steadyhand.records.chat import Finish, Message
from steadyhand.records.evaluation import (
    EvaluationResult,
    EvaluationSpec,
    Stage,
    Verdict,
    inconclusive,
)
from steadyhand.records.event import (
    AnyEvent,
    CommandRan,
    ErrorHappened,
    Evaluated,
    FileChanged,
    Lagged,
    LimitReached,
    ModelCalled,
    Noted,
    Retried,
    Said,
    ServiceCalled,
    Waited,
)
from steadyhand.records.result import (
    CapturedFile,
    CommandResult,
    ConversationResult,
    ConversationTurn,
    ExecutionResult,
    FileSystemOperation,
    Latency,
    transcript_text,
)
from steadyhand.records.run import Judged, PhaseRecord, TrialRecord, trajectory_of, worst_finish
from steadyhand.records.scenario import Ask, Converse, RunCode, Step

CheckKey: TypeAlias = tuple[Stage, int, int | None, str]
"""Where a check was made, and what it asks."""

_NOT_STORED = (
    "not judged again: the check has changed since the run, and what it reads is not stored; run the scenario again"
)
_OTHER_TASK = "not judged again: the scenario asks something else now than what the stored trial answers; run it again"
_GONE = "the workspace of a stored trial is gone; run the scenario again"
_OF_A_CALL = (ModelCalled, Retried, Waited, Lagged)


def key_of(result: EvaluationResult) -> CheckKey:
    return result.stage, result.step, result.turn, result.digest


class StoredAgent:
    """Stands for the agent of a stored trial: its name and what it let us see. It is never asked."""

    def __init__(self, name: str, shows: Shows) -> None:
        self.name: str = name
        self.shows: Shows = shows

    async def open(self, trial: TrialContext) -> None: ...

    async def respond(self, turn: Turn) -> Reply:
        raise AgentError("a stored trial is judged again; its agent is not asked")

    async def close(self) -> None: ...


class StoredEnvironment:
    """Stands for the environment of a stored trial, which is gone. Whatever would look into it raises."""

    name: str = "stored"
    sandboxed: bool = True

    async def setup(self, files: Sequence[FileSystemOperation]) -> None: ...

    async def run(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float | None = None,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> CommandResult:
        raise WorkspaceError(_GONE)

    def export(self, variables: Mapping[str, str]) -> None: ...

    async def read(self, path: str) -> bytes | None:
        raise WorkspaceError(_GONE)

    async def write(self, path: str, content: bytes) -> None:
        raise WorkspaceError(_GONE)

    async def list_files(self) -> Sequence[str]:
        raise WorkspaceError(_GONE)

    async def capture(self) -> Mapping[str, CapturedFile]:
        raise WorkspaceError(_GONE)

    async def teardown(self) -> None: ...


class _Rejudgement(Evaluation):
    """Evaluates as a trial does, but takes from the record what is not judged again. `only` limits what is."""

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
        if needs_judge(check.evaluator, check.params):
            return self._only is None or key in self._only
        return kept is None and deterministic(check.evaluator)


class _Rebuilt(NamedTuple):
    """`turns` are the results of the turns, for a conversation; `whole` is False for a step that broke off."""

    done: StepResult
    turns: Sequence[ExecutionResult]
    whole: bool


async def rejudge(
    build: Callable[[TrialRecord], TrialParts],
    stored: TrialRecord,
    *,
    origin: str,
    only: frozenset[CheckKey] | None = None,
) -> TrialRecord:
    """The stored trial with new judgements, as a record of its own. With `only`, no other check asks its judge.

    Every measurement of a trial that was repeated is judged again, and an unsafe answer in any of them fails it.
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
    rebuilding = _Rebuilding(trial, stored)
    if not rebuilding.same_tasks():
        judged = Judged(verdict=Verdict.INCONCLUSIVE, reason=_OTHER_TASK)
        return _record(trial, stored, origin, judged=judged, evaluations=())
    rebuilt = rebuilding.steps()
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


def _record(
    trial: RunningTrial, stored: TrialRecord, origin: str, *, judged: Judged, evaluations: tuple[EvaluationResult, ...]
) -> TrialRecord:
    trial.caller.detach()
    scenario = trial.scenario
    return msgspec.structs.replace(
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


async def _evaluate(trial: RunningTrial, evaluation: _Rejudgement, rebuilt: _Rebuilt) -> None:
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
            reason = f"turn {number} never came: the conversation ended after turn {len(rebuilt.turns)}"
            evaluation.not_reached(spec, reason, stage="turn", step=step.index, turn=number)
    if rebuilt.whole:
        await evaluation.step(rebuilt.done)
    trial.step = None


def _phases(stored: TrialRecord, took_ms: float) -> tuple[PhaseRecord, ...]:
    """Those of the stored trial that failed, whose errors still count, and the one that was made now."""
    failed = [phase for phase in stored.phases if phase.error is not None]
    return (*failed, PhaseRecord(name="rejudge", started_ms=0.0, duration_ms=took_ms))


def _agents_part(events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """Without what the judge of the stored run was asked, and what went wrong or was noted on that."""
    return [
        event
        for event in events
        if not (isinstance(event, _OF_A_CALL) and event.purpose == "judge")
        and not (isinstance(event, ErrorHappened) and event.phase in ("evaluate", "assess"))
        and not (isinstance(event, Noted) and event.level == "warning" and event.step is None)
    ]


class _Rebuilding:
    """What checks look at, from the events of a stored trial."""

    def __init__(self, trial: RunningTrial, stored: TrialRecord) -> None:
        self._trial = trial
        self._stored = stored
        before = trial.scenario.setup.virtual_fs
        self._files = {
            path: CapturedFile(size=len(text.encode()), content=text.encode()) for path, text in before.items()
        }

    def steps(self) -> list[_Rebuilt]:
        """Those that ran; one that broke off has its finished turns alone."""
        stored, scenario = self._stored, self._trial.scenario
        broken = any(phase.error is not None and phase.name in ("set_up", "run") for phase in stored.phases)
        ended = {result.step for result in stored.evaluations if result.stage != "turn"}
        found: list[_Rebuilt] = []
        for step in scenario.steps:
            events = [event for event in stored.events if event.step == step.index]
            whole = not broken or step.index in ended
            if broken and not whole and not events:
                break
            found.append(self._step(step, events, whole=whole))
            if not whole:
                break
        return found

    def _step(self, step: Step, events: list[AnyEvent], *, whole: bool) -> _Rebuilt:
        self._change_files(events)
        limit = next((event for event in events if isinstance(event, LimitReached)), None)
        exceeded = None if limit is None else _exceeded(limit)
        turns: list[ExecutionResult] = []
        if isinstance(step.task, RunCode):
            result = _program(step.task, events)
        elif isinstance(step.task, Converse):
            turns = self._turns(step, events)
            result = self._conversation(step, events, turns, exceeded)
        else:
            result = self._answer(events, exceeded)
        result = msgspec.structs.replace(
            result,
            files=self._captured(),
            trajectory=trajectory_of(events),
            service_calls=tuple(event for event in events if isinstance(event, ServiceCalled)),
        )
        return _Rebuilt(StepResult(step, result, exceeded), turns, whole)

    def same_tasks(self) -> bool:
        """Whether the scenario still asks what the stored trial answers, as far as that got."""
        steps, events = self._trial.scenario.steps, self._stored.events
        last = max((event.step for event in events if event.step is not None), default=-1)
        own = [[event for event in events if event.step == step.index] for step in steps]
        return last < len(steps) and all(
            self._same_task(step, happened) for step, happened in zip(steps, own, strict=True) if happened
        )

    def _same_task(self, step: Step, events: Sequence[AnyEvent]) -> bool:
        """Whether the step asks what the stored trial answers."""
        said = [event.message for event in events if isinstance(event, Said)]
        match step.task:
            case Ask(messages=asked):
                opening = asked
            case Converse(opening=asked) as task:
                opening = asked
                if not _same_lines(UserScript(task), events):
                    return False
            case RunCode(code=code):
                return any(isinstance(event, CommandRan) and event.command == code for event in events)
        return [(each.role, each.content) for each in said[: len(opening)]] == [
            (each.role, each.content) for each in opening
        ]

    def _answer(self, events: Sequence[AnyEvent], limit: LimitExceeded | None) -> ExecutionResult:
        messages = _messages(events)
        reply = _reply(messages)
        if limit is not None and not reply:
            return ExecutionResult(exit_code=1, stderr=str(limit), messages=messages)
        calls = _agent_calls(events)
        return ExecutionResult(
            stdout=reply,
            reply=reply,
            messages=messages,
            calls=calls,
            latency=self._latency(calls),
            finish=self._finish(calls),
        )

    def _turns(self, step: Step, events: Sequence[AnyEvent]) -> list[ExecutionResult]:
        """The turns that the agent answered, each with what was said up to its end."""
        numbers = sorted({event.turn for event in events if event.turn is not None})
        turns: list[ConversationTurn] = []
        found: list[ExecutionResult] = []
        for number in numbers:
            own = [event for event in events if event.turn == number]
            messages = _messages(own)
            if not messages or messages[-1].role != "assistant":
                break
            asked = [message.content for message in messages if message.role == "user"]
            turn = ConversationTurn(
                turn_number=number,
                user_input=asked[-1] if asked else "",
                agent_response=messages[-1].content,
                trajectory=trajectory_of(own),
                started_at_ms=own[0].at_ms,
                ended_at_ms=own[-1].at_ms,
            )
            turns.append(turn)
            calls = _agent_calls(own)
            found.append(
                ExecutionResult(
                    stdout=messages[-1].content,
                    reply=messages[-1].content,
                    files=self._captured(),
                    messages=_messages(event for event in events if event.turn is None or event.turn <= number),
                    trajectory=turn.trajectory,
                    service_calls=tuple(event for event in own if isinstance(event, ServiceCalled)),
                    calls=calls,
                    finish=self._finish(calls),
                    conversation=self._talk(step, turns),
                )
            )
        return found

    def _conversation(
        self, step: Step, events: Sequence[AnyEvent], turns: Sequence[ExecutionResult], limit: LimitExceeded | None
    ) -> ExecutionResult:
        talk = turns[-1].conversation if turns else self._talk(step, [])
        calls = _agent_calls(events)
        return ExecutionResult(
            exit_code=0 if limit is None else 1,
            stdout=transcript_text(talk.turns) if talk else "",
            stderr="" if limit is None else str(limit),
            reply=turns[-1].reply if turns else "",
            messages=_messages(events),
            calls=calls,
            latency=self._latency(calls),
            finish=worst_finish(turn.finish for turn in turns),
            conversation=talk,
        )

    def _talk(self, step: Step, turns: Sequence[ConversationTurn]) -> ConversationResult:
        ending = next((each for each in self._stored.conversations if each.step == step.index), None)
        return ConversationResult(
            turns=tuple(turns),
            total_duration_ms=0.0,
            terminated_early=ending is not None and ending.terminated_early,
            termination_reason=ending.termination_reason if ending else None,
            termination_evidence=ending.termination_evidence if ending else None,
        )

    def _latency(self, calls: Sequence[ModelCalled]) -> Latency | None:
        if len(calls) == 1 and calls[0].error is None and not calls[0].relayed:
            timing = calls[0].timing
            ms = None if timing.latency_ms is None else round(timing.latency_ms, 3)
            return Latency(ms=ms, spoiled=timing.spoiled, cut=timing.cut)
        judged = self._stored.judged
        if judged.latency_ms is None:
            return None
        return Latency(
            ms=judged.latency_ms, spoiled=judged.latency_spoiled, cut=judged.latency_cut, source="agent_turn"
        )

    def _finish(self, calls: Sequence[ModelCalled]) -> Finish | None:
        if not calls or calls[-1].error is not None:
            return None
        finish = calls[-1].finish
        if finish is not None and finish.undecided:
            self._trial.undecided.append(f"{calls[-1].model}: {finish}")
        elif calls[-1].relayed:
            return None
        return finish

    def _change_files(self, events: Sequence[AnyEvent]) -> None:
        for event in events:
            if isinstance(event, FileChanged):
                if event.change == "deleted":
                    self._files.pop(event.path, None)
                else:
                    self._files[event.path] = CapturedFile(size=event.size)

    def _captured(self) -> dict[str, CapturedFile]:
        """Files that changed are there without their content, which the record does not have."""
        return dict(self._files)


def _program(task: RunCode, events: Sequence[AnyEvent]) -> ExecutionResult:
    ran = next((event for event in events if isinstance(event, CommandRan) and event.command == task.code), None)
    if ran is None:
        return ExecutionResult(exit_code=1, stderr="what the program printed is not stored", truncated=True)
    return ExecutionResult(
        exit_code=ran.exit_code,
        stdout=ran.stdout,
        stderr=ran.stderr,
        reply=ran.stdout,
        duration_ms=ran.duration_ms,
        timed_out=ran.timed_out,
        truncated=ran.truncated,
    )


def _same_lines(script: UserScript, events: Iterable[AnyEvent]) -> bool:
    """Whether the user said what the script has them say, in the turns that came."""
    said = {
        event.turn: event.message.content
        for event in events
        if isinstance(event, Said) and event.message.role == "user"
    }
    lines = {turn: entry.say for turn in said if turn is not None and (entry := script.entry_at(turn)) is not None}
    return all(line is None or said[turn] == line for turn, line in lines.items())


def _exceeded(event: LimitReached) -> LimitExceeded:
    kind = cast("LimitKind", event.limit)
    return LimitExceeded(kind, used=event.used, allowed=event.allowed, unit=event.unit)


def _messages(events: Iterable[AnyEvent]) -> tuple[Message, ...]:
    return tuple(event.message for event in events if isinstance(event, Said))


def _reply(messages: Sequence[Message]) -> str:
    return messages[-1].content if messages and messages[-1].role == "assistant" else ""


def _agent_calls(events: Iterable[AnyEvent]) -> tuple[ModelCalled, ...]:
    return tuple(event for event in events if isinstance(event, ModelCalled) and event.purpose == "agent")
