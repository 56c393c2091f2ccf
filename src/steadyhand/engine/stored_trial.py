"""What checks look at, rebuilt from the record of a trial. No agent is called, and nothing is run.

What was not stored (the contents of files) cannot be shown, so a judge that would need it is not called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

import msgspec

from steadyhand.engine.context import RunningTrial, StepResult
from steadyhand.engine.conversation import UserScript
from steadyhand.errors import AgentError, LimitExceeded, LimitKind, WorkspaceError
from steadyhand.ports.agent import Reply, Shows, TrialContext, Turn
from steadyhand.records.chat import Finish, Message
from steadyhand.records.event import (
    AnyEvent,
    CommandRan,
    FileChanged,
    LimitReached,
    ModelCalled,
    Said,
    ServiceCalled,
    offer_of,
    worst_finish,
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
from steadyhand.records.run import TrialRecord
from steadyhand.records.scenario import Ask, Converse, RunCode, Step
from steadyhand.records.trajectory import trajectory_of

_GONE = "the workspace of a stored trial is gone; run the scenario again"


class StoredAgent:
    """Stands in for the agent of a stored trial: its name and what it showed. It is never called."""

    def __init__(self, name: str, shows: Shows) -> None:
        self.name: str = name
        self.shows: Shows = shows

    async def open(self, trial: TrialContext) -> None: ...

    async def respond(self, turn: Turn) -> Reply:
        raise AgentError("a stored trial is judged again; its agent is not asked")

    async def close(self) -> None: ...


class StoredEnvironment:
    """Stands in for the environment of a stored trial, which no longer exists. Every attempt to read it raises."""

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


class RebuiltStep(NamedTuple):
    """`turns` are the results of a conversation's turns; `whole` is False for a step that broke off."""

    done: StepResult
    turns: Sequence[ExecutionResult]
    whole: bool


class StoredSteps:
    """What checks look at, from the events of a stored trial."""

    def __init__(self, trial: RunningTrial, stored: TrialRecord) -> None:
        self._trial = trial
        self._stored = stored
        self._offer = offer_of(stored.events)
        before = trial.scenario.setup.virtual_fs
        self._files = {
            path: CapturedFile(size=len(text.encode()), content=text.encode()) for path, text in before.items()
        }

    def rebuilt(self) -> list[RebuiltStep]:
        """The steps that ran. One that broke off has only its finished turns."""
        stored, scenario = self._stored, self._trial.scenario
        broken = any(phase.error is not None and phase.name in ("set_up", "run") for phase in stored.phases)
        ended = {result.step for result in stored.evaluations if result.stage != "turn"}
        found: list[RebuiltStep] = []
        for step in scenario.steps:
            events = [event for event in stored.events if event.step == step.index]
            whole = not broken or step.index in ended
            if broken and not whole and not events:
                break
            found.append(self._step(step, self._without_thoughts(step, events), whole=whole))
            if not whole:
                break
        return found

    def _without_thoughts(self, step: Step, events: list[AnyEvent]) -> list[AnyEvent]:
        """The events with thoughts removed from the agent's messages: an older version stored them there."""
        marks = self._trial.parts.thoughts
        given = 0 if isinstance(step.task, RunCode) else len(_opening_messages(step.task))
        found: list[AnyEvent] = []
        for event in events:
            if isinstance(event, Said):
                given -= 1
                split = None
                if given < 0 and event.message.role == "assistant" and marks is not None:
                    split = marks.split(event.message.content)
                if split is not None:
                    message = msgspec.structs.replace(event.message, content=split.answer)
                    event = msgspec.structs.replace(event, message=message)  # noqa: PLW2901 - or two names for one event
            found.append(event)
        return found

    def _step(self, step: Step, events: list[AnyEvent], *, whole: bool) -> RebuiltStep:
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
            offer=self._offer,
        )
        return RebuiltStep(StepResult(step, result, exceeded), turns, whole)

    def same_tasks(self) -> bool:
        """Whether the scenario still asks what the stored trial answered, as far as the trial got."""
        steps, events = self._trial.scenario.steps, self._stored.events
        last = max((event.step for event in events if event.step is not None), default=-1)
        own = [[event for event in events if event.step == step.index] for step in steps]
        return last < len(steps) and all(
            self._same_task(step, happened) for step, happened in zip(steps, own, strict=True) if happened
        )

    def _same_task(self, step: Step, events: Sequence[AnyEvent]) -> bool:
        """Whether the step asks what the stored trial answered."""
        said = [event.message for event in events if isinstance(event, Said)]
        match step.task:
            case Ask() as task:
                pass
            case Converse() as task:
                if not _same_lines(UserScript(task), events):
                    return False
            case RunCode(code=code):
                return any(isinstance(event, CommandRan) and event.command == code for event in events)
        opening = _opening_messages(task)
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
                    offer=self._offer,
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
        """Changed files are listed without their content, which the record does not have."""
        return dict(self._files)


def _opening_messages(task: Ask | Converse) -> tuple[Message, ...]:
    """The messages that the step begins with."""
    return task.messages if isinstance(task, Ask) else task.opening


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
    """Whether the user said what the script has them say, in the turns that took place."""
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
