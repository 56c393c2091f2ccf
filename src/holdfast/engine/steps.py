"""The run phase: each step of the scenario, in order, into an `ExecutionResult`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.engine.asking import ask
from holdfast.engine.code import code_command
from holdfast.engine.context import Trial
from holdfast.errors import LimitExceeded, TrialError
from holdfast.records.event import AnyEvent, CommandRan, FileChanged, LimitReached, Said
from holdfast.records.execution import CapturedFile, ExecutionResult
from holdfast.records.message import Message
from holdfast.records.scenario import Ask, Converse, RunCode, Step
from holdfast.records.trajectory import trajectory_of


class StepResult:
    """What a step left behind. `limit` is set when it was cut short for taking too long: the step has failed."""

    def __init__(self, step: Step, result: ExecutionResult, limit: LimitExceeded | None = None) -> None:
        self.step: Step = step
        self.result: ExecutionResult = result
        self.limit: LimitExceeded | None = limit


class StepRunner:
    """Runs steps one after another; the agent's conversation goes on from step to step."""

    def __init__(self, trial: Trial) -> None:
        self._trial: Trial = trial
        self._messages: tuple[Message, ...] = ()
        self._turns: int = 0
        self._files: Mapping[str, CapturedFile] = {}
        self.results: list[StepResult] = []

    async def run(self) -> None:
        """Fills `results`; on an exception it holds the steps that were finished."""
        trial = self._trial
        self._files = await trial.environment.capture()
        try:
            for step in trial.scenario.steps:
                trial.step = step.index
                self.results.append(await self._run_step(step))
        finally:
            trial.step = trial.turn = None

    async def _run_step(self, step: Step) -> StepResult:
        trial = self._trial
        mark = len(trial.events)
        started = trial.elapsed_ms()
        limit: LimitExceeded | None = None
        try:
            result = await self._perform(step, mark)
        except LimitExceeded as error:
            limit = error
            trial.emit(LimitReached(at_ms=trial.elapsed_ms(), limit=error.kind, used=error.used, allowed=error.allowed))
            result = ExecutionResult(exit_code=1, stderr=str(error), duration_ms=error.used, messages=self._said(mark))
        files = await self._capture()
        result = msgspec.structs.replace(
            result,
            files=dict(files),
            started_at_ms=started,
            ended_at_ms=trial.elapsed_ms(),
            trajectory=trajectory_of(trial.events[mark:]),
        )
        return StepResult(step, result, limit)

    async def _perform(self, step: Step, mark: int) -> ExecutionResult:
        match step.task:
            case Ask(messages=messages):
                return await self._ask(step, messages, mark)
            case RunCode() as task:
                return await self._run_code(step, task)
            case Converse():
                raise TrialError("conversations with a simulated user cannot be run by this version")

    async def _ask(self, step: Step, messages: tuple[Message, ...], mark: int) -> ExecutionResult:
        trial = self._trial
        for message in messages:
            trial.emit(Said(at_ms=trial.elapsed_ms(), message=message))
        self._messages += messages
        self._turns += 1
        turn = await ask(trial, self._messages, number=self._turns, timeout_ms=step.timeout_ms)
        self._messages += (Message(role="assistant", content=turn.reply),)
        return ExecutionResult(
            stdout=turn.reply,
            reply=turn.reply,
            duration_ms=turn.duration_ms,
            messages=self._said(mark),
            calls=turn.calls,
            latency=turn.latency,
        )

    async def _run_code(self, step: Step, task: RunCode) -> ExecutionResult:
        trial = self._trial
        started = trial.elapsed_ms()
        timeout_s = None if step.timeout_ms is None else step.timeout_ms / 1000.0
        result = await trial.environment.run(code_command(task.lang, task.code), timeout_s=timeout_s)
        trial.emit(
            CommandRan(
                at_ms=started,
                command=task.code,
                exit_code=result.exit_code,
                stdout=result.stdout,
                stderr=result.stderr,
                duration_ms=result.duration_ms,
                timed_out=result.timed_out,
            )
        )
        if result.timed_out:
            raise LimitExceeded("step_time", used=round(result.duration_ms), allowed=step.timeout_ms or 0)
        return msgspec.structs.replace(result, reply=result.stdout)

    async def _capture(self) -> Mapping[str, CapturedFile]:
        before, self._files = self._files, await self._trial.environment.capture()
        for event in _changes(before, self._files, self._trial.elapsed_ms()):
            self._trial.emit(event)
        return self._files

    def _said(self, mark: int) -> tuple[Message, ...]:
        return tuple(event.message for event in self._trial.since(mark, Said))


def _changes(before: Mapping[str, CapturedFile], after: Mapping[str, CapturedFile], at_ms: float) -> list[AnyEvent]:
    changes: list[AnyEvent] = [
        FileChanged(at_ms=at_ms, path=path, change="modified" if path in before else "created", size=file.size)
        for path, file in after.items()
        if before.get(path) != file
    ]
    changes += [FileChanged(at_ms=at_ms, path=path, change="deleted") for path in before if path not in after]
    return changes
