"""A conversation: agent, turn evaluations, termination, user; turn after turn, within its time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from holdfast.engine.asking import AgentTurn, ask
from holdfast.engine.context import Trial
from holdfast.engine.evaluating import Evaluation
from holdfast.engine.termination import Ending, check_termination, transcript_text
from holdfast.errors import LimitExceeded, TrialError
from holdfast.ports.user import UserSimulator
from holdfast.records.conversation import ConversationResult, ConversationTurn
from holdfast.records.evaluation import EvaluationResult
from holdfast.records.event import Noted, Said
from holdfast.records.execution import ExecutionResult
from holdfast.records.history import trajectory_of
from holdfast.records.message import Message
from holdfast.records.scenario import Converse, ScriptedTurn, Step

MAX_TURNS_REACHED = "max_turns_reached"
SCRIPT_FINISHED = "script_finished"
TURN_TIMEOUT = "timeout_per_turn"
TOTAL_TIMEOUT = "total_timeout"


class ConversationManager:
    """Carries one conversation out. `turns` and `messages` hold what has been said so far, also after a failure."""

    def __init__(self, trial: Trial, step: Step, task: Converse, evaluation: Evaluation) -> None:
        self._trial = trial
        self._step = step
        self._task = task
        self._evaluation = evaluation
        self.turns: list[ConversationTurn] = []
        self.agent_turns: list[AgentTurn] = []
        self.messages: tuple[Message, ...] = ()
        self.limit: LimitExceeded | None = None

    async def execute_conversation(self, history: tuple[Message, ...]) -> ConversationResult:
        """Talk until a condition fires, the turns or the time are used up. `history` is what earlier steps said.

        Running out of time ends it as failed, with `limit` set and the turns so far kept. Raises `TrialError` when
        the agent, the simulated user or a judge could not answer.
        """
        trial, config = self._trial, self._task.config
        self.messages = history
        started = trial.elapsed_ms()
        total = asyncio.timeout(config.total_timeout_ms / 1000.0)
        try:
            async with total:
                ending = await self._talk()
        except TimeoutError:
            if not total.expired():
                raise
            used = round(trial.elapsed_ms() - started)
            self.limit = LimitExceeded("conversation_time", used=used, allowed=config.total_timeout_ms)
            ending = Ending(reason=TOTAL_TIMEOUT, evidence=str(self.limit))
        except LimitExceeded as error:
            self.limit = LimitExceeded("turn_time", used=error.used, allowed=error.allowed)
            ending = Ending(reason=TURN_TIMEOUT, evidence=str(self.limit))
        finally:
            trial.turn = None
        trial.emit(Noted(at_ms=trial.elapsed_ms(), message=f"conversation ended: {ending.reason}: {ending.evidence}"))
        return ConversationResult(
            turns=tuple(self.turns),
            total_duration_ms=round(trial.elapsed_ms() - started, 3),
            terminated_early=ending.reason not in (MAX_TURNS_REACHED, SCRIPT_FINISHED),
            termination_reason=ending.reason,
            termination_evidence=ending.evidence,
            conversation_transcript=transcript_text(self.turns),
            success=self.limit is None,
        )

    async def _talk(self) -> Ending:
        config = self._task.config
        said = self._task.opening
        for number in range(1, config.max_turns + 1):
            self._trial.turn = number
            await self._execute_turn(said, number)
            ending = await check_termination(
                config.termination_conditions, self.turns, self._trial, self._trial.parts.termination
            )
            if ending is not None:
                return ending
            if number == config.max_turns:
                break
            following = await self._user_turn(number)
            if following is None:
                return Ending(reason=SCRIPT_FINISHED, evidence=f"the script ended after turn {number}")
            said = (Message(role="user", content=following),)
        return Ending(reason=MAX_TURNS_REACHED, evidence=f"{config.max_turns} turns")

    async def _execute_turn(self, said: tuple[Message, ...], number: int) -> None:
        trial, config = self._trial, self._task.config
        mark = len(trial.events)
        for message in said:
            trial.emit(Said(at_ms=trial.elapsed_ms(), message=message))
        self.messages += said
        turn = await ask(trial, self.messages, number=number, timeout_ms=config.timeout_per_turn_ms)
        self.messages += (Message(role="assistant", content=turn.reply),)
        self.agent_turns.append(turn)
        self.turns.append(
            ConversationTurn(
                turn_number=number,
                user_input=said[-1].content if said else "",
                agent_response=turn.reply,
                room_id=trial.trial_id,
                trajectory=trajectory_of(trial.events[mark:]),
                duration_ms=turn.duration_ms,
            )
        )
        results = await self._turn_evaluations(number, turn)
        self.turns[-1] = msgspec.structs.replace(self.turns[-1], turn_evaluations=tuple(results))

    async def _turn_evaluations(self, number: int, turn: AgentTurn) -> list[EvaluationResult]:
        """The checks of every turn, and those that the script asks for at this one."""
        config = self._task.config
        specs = list(config.turn_evaluations)
        if number >= 2 and number - 2 < len(config.script):
            specs += config.script[number - 2].evaluations
        result = self._result_so_far(turn)
        return [
            await self._evaluation.check(spec, result, stage="turn", step=self._step.index, turn=number)
            for spec in specs
        ]

    def _result_so_far(self, turn: AgentTurn) -> ExecutionResult:
        return ExecutionResult(
            stdout=turn.reply,
            reply=turn.reply,
            duration_ms=turn.duration_ms,
            messages=self.messages,
            trajectory=self.turns[-1].trajectory,
            calls=turn.calls,
            latency=turn.latency,
            conversation=ConversationResult(
                turns=tuple(self.turns),
                total_duration_ms=sum(each.duration_ms for each in self.turns),
                terminated_early=False,
                termination_reason=None,
                conversation_transcript=transcript_text(self.turns),
            ),
        )

    async def _user_turn(self, number: int) -> str | None:
        """What the user says after turn `number`: the script's line, else the simulator's; None when nobody speaks."""
        scripted = _scripted(self._task.config.script, number)
        if scripted is not None and scripted.say is not None:
            return scripted.say
        user = self._trial.parts.user
        if scripted is None and self._task.config.user_simulator is None:
            return None
        if user is None:
            raise TrialError(
                "nobody plays the user: give --user-model, a model for the agent, or `user_model` in holdfast.toml"
            )
        return await self._simulated(user)

    async def _simulated(self, user: UserSimulator) -> str:
        config = self._task.config.user_simulator
        assert config is not None
        return await user.generate_response(tuple(self.turns), config, self._trial)


def _scripted(script: Sequence[ScriptedTurn], number: int) -> ScriptedTurn | None:
    """The script's entry that follows turn `number`; its first entry follows the opening."""
    return script[number - 1] if number - 1 < len(script) else None
