"""When a conversation is over: the scenario's conditions, by keyword, by rule, by judge or by a plugin's function."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Sequence

from holdfast.engine.context import TerminationFunction
from holdfast.engine.keywords import first_keyword
from holdfast.errors import PluginError, TrialError
from holdfast.ports.agent import TrialContext
from holdfast.ports.judge import Material, NoJudgement, Question
from holdfast.records.base import Record
from holdfast.records.conversation import ConversationTurn
from holdfast.records.scenario import TerminationCondition

STUCK_AFTER_TURNS = 3
STUCK_LIKENESS = 0.9
_READS_USER = ("user_expresses_satisfaction",)
_READS_AGENT = ("agent_provides_solution", "escalation_needed")


class Ending(Record):
    """Why a conversation ended: the condition's type, and what was seen."""

    reason: str
    evidence: str


async def check_termination(
    conditions: Sequence[TerminationCondition],
    turns: Sequence[ConversationTurn],
    trial: TrialContext,
    functions: Callable[[str], TerminationFunction],
) -> Ending | None:
    """The first condition that holds after the latest turn, or None.

    Raises `TrialError` when a condition could not be judged: going on would put words into the record that the
    scenario did not ask for.
    """
    for condition in conditions:
        evidence = await _evidence(condition, turns, trial, functions)
        if evidence is not None:
            return Ending(reason=condition.type, evidence=evidence)
    return None


async def _evidence(
    condition: TerminationCondition,
    turns: Sequence[ConversationTurn],
    trial: TrialContext,
    functions: Callable[[str], TerminationFunction],
) -> str | None:
    if condition.keywords:
        found = _keyword(condition, turns)
        if found is not None:
            return found
    if condition.type == "conversation_stuck":
        found = _stuck(turns)
        if found is not None:
            return found
    if condition.function is not None and await _asked(functions(condition.function), condition.function, turns):
        return f"function {condition.function!r} said so"
    if condition.llm_judge is not None:
        return await _judged(condition, turns, trial)
    return None


def _keyword(condition: TerminationCondition, turns: Sequence[ConversationTurn]) -> str | None:
    """The author's opening line is not the user's reaction to anything, so a user's words count from turn 2 on."""
    latest = turns[-1]
    spoken = {"user": latest.user_input if len(turns) > 1 else "", "agent": latest.agent_response}
    if condition.type in _READS_USER:
        del spoken["agent"]
    elif condition.type in _READS_AGENT:
        del spoken["user"]
    for speaker, text in spoken.items():
        keyword = first_keyword(condition.keywords, text)
        if keyword is not None:
            return f"{speaker} said {keyword!r} in turn {latest.turn_number}"
    return None


def _stuck(turns: Sequence[ConversationTurn]) -> str | None:
    if len(turns) < STUCK_AFTER_TURNS:
        return None
    before, latest = turns[-2].agent_response, turns[-1].agent_response
    likeness = difflib.SequenceMatcher(None, before.casefold(), latest.casefold(), autojunk=False).ratio()
    if likeness < STUCK_LIKENESS:
        return None
    return f"the agent's replies of turns {turns[-2].turn_number} and {turns[-1].turn_number} are {likeness:.0%} alike"


async def _asked(function: TerminationFunction, name: str, turns: Sequence[ConversationTurn]) -> bool:
    try:
        answer = function(tuple(turns))
        return bool(await answer if inspect.isawaitable(answer) else answer)
    except Exception as error:
        raise PluginError(f"termination function {name!r} raised {type(error).__name__}: {error}") from error


async def _judged(
    condition: TerminationCondition, turns: Sequence[ConversationTurn], trial: TrialContext
) -> str | None:
    asked = condition.llm_judge
    assert asked is not None
    if trial.judge is None:
        raise TrialError(f"{condition.place}: {condition.type} needs a judge: set --judge or `judge` in holdfast.toml")
    question = Question(prompt=asked.prompt, materials=(Material(title="transcript", text=transcript_text(turns)),))
    try:
        answer = await trial.judge.ask(question, trial)
    except NoJudgement as error:
        raise TrialError(f"{condition.place}: {condition.type} could not be judged: {error}") from error
    confidence = answer.confidence if answer.confidence is not None else 0.0
    if answer.judgment.strip().casefold() != "yes" or confidence < asked.threshold:
        return None
    return f"the judge said yes with confidence {confidence:g} (threshold {asked.threshold:g}): {answer.reasoning}"


def transcript_text(turns: Sequence[ConversationTurn]) -> str:
    """The conversation as text, a line each for user and agent."""
    lines: list[str] = []
    for turn in turns:
        lines.append(f"User: {turn.user_input}")
        lines.append(f"Agent: {turn.agent_response}")
    return "\n".join(lines)
