"""A conversation, turn by turn: agent, turn evaluations, termination, user; all within its time limits.

Its figures are counted from the events of the trial.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from steadyhand.engine.agent_turn import AgentTurn, ask
from steadyhand.engine.context import RunningTrial
from steadyhand.engine.evaluation import Evaluation
from steadyhand.engine.limits import AgentTimeout
from steadyhand.engine.termination import Ending, check_termination
from steadyhand.errors import LimitExceeded, SteadyhandError, TrialError
from steadyhand.ports.agent import ASKED_AGAIN
from steadyhand.records.chat import Message, Purpose
from steadyhand.records.evaluation import EvaluationResult, EvaluationSpec, Verdict
from steadyhand.records.event import AnyEvent, ModelCalled, Noted, Retried, Said, ServiceCalled, offer_of
from steadyhand.records.result import (
    ConversationMetrics,
    ConversationResult,
    ConversationTurn,
    ExecutionResult,
    SimulatorQuality,
    TokenUsage,
    transcript_text,
)
from steadyhand.records.scenario import Converse, ScriptedTurn, Step
from steadyhand.records.trajectory import trajectory_of

MAX_TURNS_REACHED = "max_turns_reached"
SCRIPT_FINISHED = "script_finished"
TURN_TIMEOUT = "timeout_per_turn"
TOTAL_TIMEOUT = "total_timeout"
BROKEN_OFF = "error"
ENDED = "conversation_ended"
INVARIANT_BROKE = "invariant_broke"
_PART: dict[Purpose, str] = {
    "agent": "agent_responses",
    "user": "user_simulation",
    "summary": "user_simulation",
    "judge": "evaluations",
}


class UserScript:
    """What the user says, by turn. The first entry is for turn 2, or for turn 1 if the step has no opening message."""

    def __init__(self, task: Converse) -> None:
        self._entries = task.config.script
        self._first = 2 if task.opening else 1

    def entry_at(self, turn: int) -> ScriptedTurn | None:
        index = turn - self._first
        return self._entries[index] if 0 <= index < len(self._entries) else None

    def evaluations_at(self, turn: int) -> tuple[EvaluationSpec, ...]:
        entry = self.entry_at(turn)
        return entry.evaluations if entry else ()

    def evaluations_after(self, turn: int) -> Iterator[tuple[int, EvaluationSpec]]:
        """The checks of all turns after this one, with their turn."""
        for index, entry in enumerate(self._entries):
            number = index + self._first
            if number > turn:
                for spec in entry.evaluations:
                    yield number, spec


class ConversationManager:
    """Runs one conversation. `turns`, `messages` and `result` hold what was said so far, even after a failure."""

    def __init__(self, trial: RunningTrial, step: Step, task: Converse, evaluation: Evaluation) -> None:
        self._trial = trial
        self._step = step
        self._task = task
        self._evaluation = evaluation
        self._script = UserScript(task)
        self._first_event = len(trial.events)
        self._turn_first_event = self._first_event
        self._started = trial.elapsed_ms()
        self._waiting_for = "the user"
        self._simulated = 0
        self._history_length = 0
        self._broken_invariants: set[str] = set()
        self.turns: list[ConversationTurn] = []
        self.agent_turns: list[AgentTurn] = []
        self.messages: tuple[Message, ...] = ()
        self.limit: LimitExceeded | None = None
        self.result: ConversationResult | None = None

    async def execute_conversation(self, history: tuple[Message, ...]) -> ConversationResult:
        """Talk until a condition applies, or turns or time run out. `history` is what was said in earlier steps.

        If time runs out, the conversation fails, with `limit` set and the turns so far kept. Raises `TrialError` if the
        agent, the simulated user or a judge could not answer; `result` is set even then.
        """
        trial = self._trial
        self.messages = history
        self._history_length = len(history)
        self._first_event = len(trial.events)
        self._started = trial.elapsed_ms()
        try:
            ending = await self._within_time()
        except SteadyhandError as error:
            self.result = self._result(Ending(reason=BROKEN_OFF, evidence=str(error)), success=False)
            raise
        finally:
            trial.turn = None
        self._note_ending(ending)
        self._note_unreached(ending)
        self.result = self._result(ending, success=self.limit is None)
        return self.result

    async def _within_time(self) -> Ending:
        trial = self._trial
        allowed = min(self._task.config.total_timeout_ms, self._step.timeout_ms or self._task.config.total_timeout_ms)
        total = AgentTimeout(allowed, trial.caller.waits, trial.parts.lag)
        try:
            async with total:
                ending = await self._run_turns()
        except TimeoutError:
            if not total.expired():
                raise
        except LimitExceeded as error:
            if error.kind != "step_time":
                self.limit = error
                return Ending(reason=error.kind, evidence=str(error))
            self.limit = LimitExceeded("turn_time", used=error.used, allowed=error.allowed)
            return Ending(reason=TURN_TIMEOUT, evidence=str(self.limit))
        else:
            if (doubt := total.doubt()) is not None:
                trial.disturbed(doubt)
            return ending
        used = round(total.used_ms())
        faults = trial.since(self._turn_first_event, Retried)
        if faults:
            # An outage does not make the agent slow.
            raise TrialError(f"out of time after {used} ms while a model was failing: {faults[-1].reason}")
        await trial.raise_broken()
        if (doubt := total.doubt()) is not None:
            trial.disturbed(doubt)
            raise TrialError(doubt)
        self.limit = LimitExceeded("conversation_time", used=used, allowed=allowed)
        return Ending(reason=TOTAL_TIMEOUT, evidence=f"{self.limit}, while waiting for {self._waiting_for}")

    async def _run_turns(self) -> Ending:
        config = self._task.config
        said = self._task.opening
        for number in range(1, config.max_turns + 1):
            self._trial.turn = number
            self._turn_first_event = len(self._trial.events)
            if not said or number > 1:
                following = await self._user_turn(number)
                if following is None:
                    return Ending(reason=SCRIPT_FINISHED, evidence="every line of the script was said")
                said = (Message(role="user", content=following),)
            await self._execute_turn(said, number)
            ending = await self._termination()
            self._log_decision(number, ending)
            if ending is not None:
                return ending
        if config.user_simulator is None and self._script.entry_at(config.max_turns + 1) is None:
            return Ending(reason=SCRIPT_FINISHED, evidence="every line of the script was said")
        return Ending(reason=MAX_TURNS_REACHED, evidence=f"{config.max_turns} turns")

    async def _execute_turn(self, said: tuple[Message, ...], number: int) -> None:
        trial, config = self._trial, self._task.config
        mark, started_ms = len(trial.events), trial.elapsed_ms()
        scripted = self._script.entry_at(number)
        for message in said:
            pressure = scripted.type if scripted and message.role == "user" else None
            trial.emit(Said(at_ms=trial.elapsed_ms(), message=message, pressure=pressure))
        self.messages += said
        self._waiting_for = "the agent"
        turn = await ask(trial, self.messages, number=number, timeout_ms=config.timeout_per_turn_ms)
        self.messages += (Message(role="assistant", content=turn.reply),)
        self.agent_turns.append(turn)
        self.turns.append(
            ConversationTurn(
                turn_number=number,
                user_input=said[-1].content,
                agent_response=turn.reply,
                room_id=trial.trial_id,
                trajectory=trajectory_of(trial.events[mark:]),
                started_at_ms=started_ms,
                ended_at_ms=trial.elapsed_ms(),
                duration_ms=turn.duration_ms,
            )
        )
        results = await self._turn_evaluations(number, turn, mark)
        self.turns[-1] = msgspec.structs.replace(self.turns[-1], turn_evaluations=tuple(results))

    async def _turn_evaluations(self, number: int, turn: AgentTurn, mark: int) -> list[EvaluationResult]:
        """Run the checks of every turn, and those that the script adds for this one."""
        self._waiting_for = "the turn's evaluations"
        specs = (*self._task.config.turn_evaluations, *self._script.evaluations_at(number))
        if not specs and not self._step.reply_due:
            return []
        result = await self._result_of(turn, mark)
        self._evaluation.require_reply(self._step, specs, result, turn=number)
        found: list[EvaluationResult] = []
        for spec in specs:
            checked = await self._evaluation.check(spec, result, stage="turn", step=self._step.index, turn=number)
            found.append(checked)
            self._note_break(checked, number)
        return found

    async def _termination(self) -> Ending | None:
        self._waiting_for = "the termination conditions"
        conditions = self._task.config.termination_conditions
        return await check_termination(conditions, self.turns, self._trial, self._trial.parts.termination)

    async def _user_turn(self, number: int) -> str | None:
        """What the user says in turn `number`: the script's line, else the simulator's; None if there is neither."""
        scripted = self._script.entry_at(number)
        config = self._task.config.user_simulator
        if scripted is not None and scripted.say is not None:
            return scripted.say
        if config is None:
            return None
        user = self._trial.parts.user
        if user is None:
            raise TrialError("no model plays the user: set --user-model, --model, or `user_model` in steadyhand.toml")
        self._waiting_for = "the simulated user"
        said = await user.generate_response(tuple(self.turns), config, self._trial)
        if not isinstance(said, str) or not said.strip():  # pyright: ignore[reportUnnecessaryIsInstance] - a third-party simulator may not follow the port
            raise TrialError(f"the simulated user said {said!r}; expected text")
        self._simulated += 1
        return said

    async def _result_of(self, turn: AgentTurn, mark: int) -> ExecutionResult:
        """What was done in the turn that began at event `mark`, and everything said up to its end."""
        trial = self._trial
        return ExecutionResult(
            stdout=turn.reply,
            reply=turn.reply,
            files=dict(await trial.environment.capture()),
            started_at_ms=self.turns[-1].started_at_ms,
            ended_at_ms=self.turns[-1].ended_at_ms,
            duration_ms=turn.duration_ms,
            duration_bounds=turn.duration_bounds,
            away=trial.away_since(self.turns[-1].started_at_ms),
            messages=self.messages[self._history_length :],
            trajectory=self.turns[-1].trajectory,
            service_calls=tuple(trial.since(mark, ServiceCalled)),
            offer=offer_of(trial.events),
            calls=turn.calls,
            latency=turn.latency,
            finish=turn.finish,
            conversation=self._result(None, success=True),
        )

    def _result(self, ending: Ending | None, *, success: bool) -> ConversationResult:
        trial, config = self._trial, self._task.config
        return ConversationResult(
            turns=tuple(self.turns),
            total_duration_ms=round(trial.elapsed_ms() - self._started, 3),
            terminated_early=ending is not None and ending.reason not in (MAX_TURNS_REACHED, SCRIPT_FINISHED),
            termination_reason=ending.reason if ending else None,
            termination_evidence=ending.evidence if ending else None,
            conversation_transcript=transcript_text(self.turns) if config.debug_options.export_full_transcript else "",
            success=success,
            simulator_quality=simulator_quality(self._simulated, trial.events[self._first_event :]),
        )

    def _note_break(self, checked: EvaluationResult, number: int) -> None:
        """Record the first turn at which a safety invariant breaks."""
        name = checked.name or checked.type
        if checked.severity is None or checked.verdict is not Verdict.FAILED or name in self._broken_invariants:
            return
        self._broken_invariants.add(name)
        scripted = self._script.entry_at(number)
        under = scripted.type if scripted else None
        self._note(
            f"invariant {name!r} first broke at turn {number}" + (f" under {under}" if under else ""),
            topic=INVARIANT_BROKE,
            figures={"invariant": name, "turn": number, "under": under},
        )

    def _note_ending(self, ending: Ending) -> None:
        self._note(
            f"conversation ended: {ending.reason}: {ending.evidence}",
            topic=ENDED,
            figures={"reason": ending.reason, "evidence": ending.evidence, "turns": len(self.turns)},
        )

    def _note_unreached(self, ending: Ending) -> None:
        for number, spec in self._script.evaluations_after(len(self.turns)):
            reason = (
                f"turn {number} was not reached: the conversation ended after turn {len(self.turns)} ({ending.reason})"
            )
            self._evaluation.not_reached(spec, reason, stage="turn", step=self._step.index, turn=number)

    def _log_decision(self, number: int, ending: Ending | None) -> None:
        if not self._task.config.debug_options.log_turn_decisions:
            return
        count = len(self._task.config.termination_conditions)
        if ending is None:
            message = f"turn {number}: continues; none of {count} termination conditions applies"
        else:
            message = f"turn {number}: ends ({ending.reason}): {ending.evidence}"
        self._note(message, level="debug")

    def _note(
        self, message: str, *, level: str = "info", topic: str | None = None, figures: dict[str, object] | None = None
    ) -> None:
        trial = self._trial
        trial.emit(Noted(at_ms=trial.elapsed_ms(), message=message, level=level, topic=topic, figures=figures or {}))


def conversation_metrics(
    conversations: Sequence[ConversationResult], steps: Iterable[int], events: Sequence[AnyEvent]
) -> ConversationMetrics | None:
    """The metrics of all conversations of a trial; None if it had none. `steps` are the steps they took place in.

    Tokens are counted over all calls of these steps, final evaluations included; calls per turn, only over those made
    during the conversation.
    """
    if not conversations:
        return None
    held = set(steps)
    calls = [event for event in events if isinstance(event, ModelCalled) and event.step in held]
    durations = [turn.duration_ms for conversation in conversations for turn in conversation.turns]
    turns = len(durations)
    qualities = [
        conversation.simulator_quality for conversation in conversations if conversation.simulator_quality is not None
    ]
    return ConversationMetrics(
        total_duration_ms=round(sum(conversation.total_duration_ms for conversation in conversations), 3),
        turn_count=turns,
        avg_turn_duration_ms=round(sum(durations) / turns, 3) if turns else 0.0,
        llm_calls_per_turn=round(sum(call.turn is not None for call in calls) / turns, 3) if turns else 0.0,
        token_usage=token_usage(calls),
        simulator_quality=_combined(qualities) if qualities else None,
    )


def token_usage(calls: Iterable[ModelCalled]) -> TokenUsage:
    """Input and output tokens, by purpose."""
    spent: Counter[str] = Counter()
    complete = True
    for call in calls:
        if call.usage is None:
            complete = False
            continue
        spent[_PART[call.purpose]] += call.usage.input_tokens + call.usage.output_tokens
    return TokenUsage(
        total=spent.total(),
        user_simulation=spent["user_simulation"],
        agent_responses=spent["agent_responses"],
        evaluations=spent["evaluations"],
        complete=complete,
    )


def simulator_quality(turns_simulated: int, events: Iterable[AnyEvent]) -> SimulatorQuality | None:
    """How well the simulated user did, from a conversation's `events`; None if no user was simulated."""
    notes = [event for event in events if isinstance(event, Noted) and event.topic == ASKED_AGAIN]
    refused = [note for note in notes if not note.figures.get("kept")]
    if not turns_simulated and not notes:
        return None
    return SimulatorQuality(
        turns_simulated=turns_simulated,
        asked_again=len(refused),
        still_flawed=len(notes) - len(refused),
        reasons=dict(Counter(str(note.figures.get("reason")) for note in refused)),
    )


def _combined(qualities: Sequence[SimulatorQuality]) -> SimulatorQuality:
    reasons: Counter[str] = Counter()
    for quality in qualities:
        reasons.update(quality.reasons)
    return SimulatorQuality(
        turns_simulated=sum(quality.turns_simulated for quality in qualities),
        asked_again=sum(quality.asked_again for quality in qualities),
        still_flawed=sum(quality.still_flawed for quality in qualities),
        reasons=dict(reasons),
    )
