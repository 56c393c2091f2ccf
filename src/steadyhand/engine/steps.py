"""The run phase: run the steps of the scenario in order. Each produces an `ExecutionResult`."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Mapping, Sequence

import msgspec

from steadyhand.engine.agent_turn import AgentTurn, ask, duration_bounds
from steadyhand.engine.context import RunningTrial, StepResult
from steadyhand.engine.evaluation import Evaluation
from steadyhand.engine.limits import lost_lately, lost_so_far
from steadyhand.errors import LimitExceeded, PluginError, TrialError
from steadyhand.records.chat import Message
from steadyhand.records.event import (
    DEEDS,
    AnyEvent,
    CommandRan,
    FileChanged,
    LimitReached,
    Said,
    ServiceCalled,
    offer_of,
    worst_finish,
)
from steadyhand.records.result import (
    CapturedFile,
    CommandResult,
    ConversationResult,
    ExecutionResult,
    Latency,
    transcript_text,
)
from steadyhand.records.scenario import Ask, Converse, RunCode, Step
from steadyhand.records.trajectory import trajectory_of

_Performed = tuple[ExecutionResult, LimitExceeded | None]
"""The result of a step, and the limit that it ran into, if any."""

_PROGRAMS = {
    "bash": ("bash", "-c"),
    "sh": ("sh", "-c"),
    "python": ("python3", "-c"),
    "python3": ("python3", "-c"),
    "node": ("node", "-e"),
    "javascript": ("node", "-e"),
    "js": ("node", "-e"),
}


def code_command(lang: str, code: str) -> list[str]:
    """The program and its arguments. An unknown language is assumed to take `-c`."""
    program, flag = _PROGRAMS.get(lang.lower(), (lang, "-c"))
    return [program, flag, code]


class StepRunner:
    """Runs steps one after another; the agent's messages carry over from step to step."""

    def __init__(self, trial: RunningTrial, evaluation: Evaluation) -> None:
        self._trial: RunningTrial = trial
        self._evaluation: Evaluation = evaluation
        self._messages: tuple[Message, ...] = ()
        self._turns: int = 0
        self._files: Mapping[str, CapturedFile] = {}
        self.results: list[StepResult] = []
        self.conversations: dict[int, ConversationResult] = {}

    async def run(self, step: Step) -> None:
        """Run a step and add it to `results`, unless it raises.

        `conversations` maps step indices to conversations, including one that broke off.
        """
        trial = self._trial
        # Captured again for every step: files that the previous step's checks left behind are not this step's work.
        self._files = await trial.environment.capture()
        trial.step = step.index
        try:
            self.results.append(await self._run_step(step))
        finally:
            trial.step = trial.turn = None

    async def _run_step(self, step: Step) -> StepResult:
        trial = self._trial
        mark = len(trial.events)
        started = trial.elapsed_ms()
        limit: LimitExceeded | None = None
        try:
            result, limit = await self._performing(step, mark)
        except LimitExceeded as error:
            limit = error
            took_ms = round(trial.elapsed_ms() - started, 3)
            result = ExecutionResult(exit_code=1, stderr=str(error), duration_ms=took_ms, messages=self._since(mark))
        if limit is not None:
            trial.emit(
                LimitReached(
                    at_ms=trial.elapsed_ms(), limit=limit.kind, used=limit.used, allowed=limit.allowed, unit=limit.unit
                )
            )
        files = await self._capture()
        events = trial.events[mark:]
        deeds = [event for event in events if type(event) in DEEDS]
        result = msgspec.structs.replace(
            result,
            files=dict(files),
            started_at_ms=started,
            ended_at_ms=trial.elapsed_ms(),
            away=trial.away_since(started),
            trajectory=trajectory_of(deeds) if deeds else (),
            service_calls=tuple([event for event in deeds if type(event) is ServiceCalled]),
            offer=None if isinstance(step.task, RunCode) else offer_of(trial.events),
        )
        return StepResult(step, result, limit)

    def _performing(self, step: Step, mark: int) -> Awaitable[_Performed]:
        match step.task:
            case Ask() as task:
                return self._ask(step, task.messages, mark)
            case RunCode() as task:
                return self._run_code(step, task)
            case Converse() as task:
                return self._converse(step, task, mark)

    async def _ask(self, step: Step, messages: tuple[Message, ...], mark: int) -> _Performed:
        trial = self._trial
        at_ms = trial.elapsed_ms()
        for message in messages:
            trial.emit(Said(at_ms=at_ms, step=trial.step, message=message))
        self._messages += messages
        self._turns += 1
        turn = await ask(trial, self._messages, number=self._turns, timeout_ms=step.timeout_ms)
        self._messages += (Message(role="assistant", content=turn.reply),)
        result = ExecutionResult(
            stdout=turn.reply,
            reply=turn.reply,
            duration_ms=turn.duration_ms,
            duration_bounds=turn.duration_bounds,
            messages=self._since(mark),
            calls=turn.calls,
            latency=turn.latency,
            finish=turn.finish,
        )
        return result, None

    async def _converse(self, step: Step, task: Converse, mark: int) -> _Performed:
        from steadyhand.engine.conversation import ConversationManager  # slow; already imported by a run that holds any

        manager = ConversationManager(self._trial, step, task, self._evaluation)
        try:
            conversation = await manager.execute_conversation(self._messages)
        finally:
            self._messages = manager.messages
            self._turns += len(manager.turns)
            if manager.result is not None:
                self.conversations[step.index] = manager.result
        turns = manager.agent_turns
        result = ExecutionResult(
            exit_code=0 if conversation.success else 1,
            stdout=transcript_text(conversation.turns),
            stderr="" if manager.limit is None else str(manager.limit),
            reply=turns[-1].reply if turns else "",
            duration_ms=round(sum(turn.duration_ms for turn in turns), 3),
            duration_bounds=_total_bounds(turns),
            messages=self._since(mark),
            calls=tuple(call for turn in turns for call in turn.calls),
            latency=_slowest(turns),
            finish=worst_finish(turn.finish for turn in turns),
            conversation=conversation,
        )
        return result, manager.limit

    async def _run_code(self, step: Step, task: RunCode) -> _Performed:
        trial = self._trial
        started = trial.elapsed_ms()
        lost_before = lost_lately(trial.parts.lag)
        timeout_s = None if step.timeout_ms is None else step.timeout_ms / 1000.0
        ended = await trial.environment.run(code_command(task.lang, task.code), timeout_s=timeout_s)
        _check_result(ended, trial.environment.name)
        bounds = duration_bounds(trial, ended.duration_ms, lost_so_far(trial.parts.lag).since(lost_before))
        trial.emit(
            CommandRan(
                at_ms=started,
                command=task.code,
                exit_code=ended.exit_code,
                stdout=ended.stdout,
                stderr=ended.stderr,
                duration_ms=ended.duration_ms,
                timed_out=ended.timed_out,
                truncated=ended.truncated,
            )
        )
        if bounds is not None and step.timeout_ms is not None and bounds[0] < step.timeout_ms < bounds[1]:
            trial.disturbed(f"Steadyhand was not running; the limit of {step.timeout_ms:g} ms cannot be checked")
            if ended.timed_out:
                raise TrialError(trial.disturbances[-1])
        elif ended.timed_out:
            used = round(ended.duration_ms)
            raise LimitExceeded("step_time", used=used, allowed=step.timeout_ms or used)
        result = ExecutionResult(
            exit_code=ended.exit_code,
            stdout=ended.stdout,
            stderr=ended.stderr,
            reply=ended.stdout,
            duration_ms=ended.duration_ms,
            duration_bounds=bounds,
            truncated=ended.truncated,
        )
        return result, None

    async def _capture(self) -> Mapping[str, CapturedFile]:
        before, self._files = self._files, await self._trial.environment.capture()
        if before or self._files:
            for event in _changes(before, self._files, self._trial.elapsed_ms()):
                self._trial.emit(event)
        return self._files

    def _since(self, mark: int) -> tuple[Message, ...]:
        return tuple([event.message for event in self._trial.since(mark, Said)])


def _check_result(result: object, environment: str) -> None:
    """Raises `PluginError` if a third-party environment returns an incomplete result, which could look like success."""
    if not isinstance(result, CommandResult):
        found = type(result).__name__
        raise PluginError(f"environment {environment!r}: `run` returned a {found}; expected a CommandResult")
    for name, kind in (("exit_code", int), ("stdout", str), ("stderr", str)):
        value: object = getattr(result, name)
        if not isinstance(value, kind):
            raise PluginError(
                f"environment {environment!r}: `{name}` of its CommandResult is {value!r}; expected {kind.__name__}"
            )


def _slowest(turns: Sequence[AgentTurn]) -> Latency | None:
    """The latency of a conversation is that of its slowest turn. A turn with a distorted time could be the slowest."""
    measured = [turn.latency for turn in turns if turn.latency.ms is not None]
    if not measured:
        return None
    slowest = max(measured, key=lambda latency: latency.ms or 0.0)
    low_ms = max(latency.bounds[0] for latency in measured)
    high_ms = max(latency.bounds[1] for latency in measured)
    spoiled = dict.fromkeys(
        msgspec.structs.replace(each, low_ms=low_ms, high_ms=high_ms if math.isfinite(high_ms) else None)
        for latency in measured
        for each in latency.spoiled
    )
    return msgspec.structs.replace(slowest, spoiled=tuple(spoiled))


def _total_bounds(turns: Sequence[AgentTurn]) -> tuple[float, float] | None:
    if all(turn.duration_bounds is None for turn in turns):
        return None
    each = [turn.duration_bounds or (turn.duration_ms, turn.duration_ms) for turn in turns]
    return sum(low for low, _ in each), sum(high for _, high in each)


def _changes(before: Mapping[str, CapturedFile], after: Mapping[str, CapturedFile], at_ms: float) -> list[AnyEvent]:
    changes: list[AnyEvent] = [
        FileChanged(
            at_ms=at_ms,
            path=path,
            change="modified" if path in before else "created",
            size=file.size,
            before=_stored_text(before.get(path)),
            after=_stored_text(file),
        )
        for path, file in after.items()
        if before.get(path) != file
    ]
    changes += [
        FileChanged(at_ms=at_ms, path=path, change="deleted", before=_stored_text(file))
        for path, file in before.items()
        if path not in after
    ]
    return changes


_KEPT = 16_384


def _stored_text(file: CapturedFile | None) -> str | None:
    """The text of the file, as far as the record keeps it. Diffs are made from it on demand."""
    return None if file is None or file.size > _KEPT else file.text()
