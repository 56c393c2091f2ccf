"""When a conversation is over: decided by a keyword, a rule, a judge or a plugin's function."""

from __future__ import annotations

import difflib
import inspect
from collections import Counter
from collections.abc import Callable, Sequence

from steadyhand.engine.context import TerminationFunction
from steadyhand.errors import PluginError, SteadyhandError, TrialError
from steadyhand.judging.material import turn_materials
from steadyhand.language.answer import Certainty
from steadyhand.language.keywords import keyword_meant
from steadyhand.ports.agent import NoJudgement, Question, TrialContext
from steadyhand.records.base import Record
from steadyhand.records.result import ConversationTurn
from steadyhand.records.scenario import TerminationCondition
from steadyhand.user_file import raised

_COMPARED_BY_LETTER = 600
_COMPARED_BY_WORD = 1000


def similarity(one: str, other: str) -> float:
    """How similar two texts are, from 0 to 1: short ones by their letters, long ones by their sequence of words."""
    one, other = " ".join(one.casefold().split()), " ".join(other.casefold().split())
    if one == other:
        return 1.0
    if max(len(one), len(other)) <= _COMPARED_BY_LETTER:
        return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()
    first, second = one.split(), other.split()
    shared = (Counter(first) & Counter(second)).total()
    at_most = 2.0 * shared / (len(first) + len(second))
    # An upper bound that is cheap to compute: words matched in any order.
    if at_most < 0.5:
        return at_most
    # Only the opening: the time taken grows faster than the square of the number of words.
    opening = difflib.SequenceMatcher(None, first[:_COMPARED_BY_WORD], second[:_COMPARED_BY_WORD])
    return min(opening.ratio(), at_most) if max(len(first), len(second)) > _COMPARED_BY_WORD else opening.ratio()


STUCK_AFTER_TURNS = 3
STUCK_SIMILARITY = 0.9
_READS_USER = ("user_expresses_satisfaction",)
_READS_AGENT = ("agent_provides_solution", "escalation_needed")


class Ending(Record):
    """Why a conversation ended: the type of the condition, and the evidence for it."""

    reason: str
    evidence: str


async def check_termination(
    conditions: Sequence[TerminationCondition],
    turns: Sequence[ConversationTurn],
    trial: TrialContext,
    functions: Callable[[str], TerminationFunction],
) -> Ending | None:
    """The first condition that holds after the latest turn, or None.

    Raises `TrialError` if a condition could not be judged: continuing might record turns that should not exist.
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
    if condition.function is not None:
        found = await _ask_function(functions(condition.function), condition.function, turns, trial)
        if found is not None:
            return found
    if condition.llm_judge is not None:
        return await _ask_judge(condition, turns, trial)
    return None


def _keyword(condition: TerminationCondition, turns: Sequence[ConversationTurn]) -> str | None:
    """The keyword that was said and meant, or None. The opening line is the author's, so the user's words count from
    turn 2 on. Where it cannot be told whether a keyword is meant, the conversation goes on."""
    latest = turns[-1]
    spoken = {"user": latest.user_input if len(turns) > 1 else "", "agent": latest.agent_response}
    if condition.type in _READS_USER:
        del spoken["agent"]
    elif condition.type in _READS_AGENT:
        del spoken["user"]
    for speaker, text in spoken.items():
        found = keyword_meant(text, condition.keywords, advice=speaker == "agent")
        if found is not None and found.reading.answer is Certainty.YES:
            return f"{speaker} said {found.keyword!r} in turn {latest.turn_number}"
    return None


def _stuck(turns: Sequence[ConversationTurn]) -> str | None:
    if len(turns) < STUCK_AFTER_TURNS:
        return None
    alike = similarity(turns[-2].agent_response, turns[-1].agent_response)
    if alike < STUCK_SIMILARITY:
        return None
    return f"the agent's replies of turns {turns[-2].turn_number} and {turns[-1].turn_number} are {alike:.0%} alike"


async def _ask_function(
    function: TerminationFunction, name: str, turns: Sequence[ConversationTurn], trial: TrialContext
) -> str | None:
    try:
        answer = function(tuple(turns), trial)
        if inspect.isawaitable(answer):
            answer = await answer
    except SteadyhandError:
        raise
    except Exception as error:
        raise PluginError(f"termination function {name!r} raised {raised(error)}") from error
    if isinstance(answer, str):
        return f"function {name!r}: {answer}" if answer else None
    if not isinstance(answer, bool):  # pyright: ignore[reportUnnecessaryIsInstance] - a third-party function may not follow its type
        found = type(answer).__name__
        raise PluginError(f"termination function {name!r} answered with {found}; expected true, false or a string")
    return f"function {name!r} said so" if answer else None


async def _ask_judge(
    condition: TerminationCondition, turns: Sequence[ConversationTurn], trial: TrialContext
) -> str | None:
    asked = condition.llm_judge
    assert asked is not None
    if trial.judge is None:
        raise TrialError(
            f"{condition.place}: {condition.type} needs a judge: set --judge or `judge` in steadyhand.toml"
        )
    question = Question(prompt=asked.prompt, materials=turn_materials(turns))
    try:
        answer = await trial.judge.ask(question, trial)
    except NoJudgement as error:
        raise TrialError(f"{condition.place}: {condition.type} could not be judged: {error}") from error
    if answer.judgment.strip().casefold() != "yes":
        return None
    if answer.confidence is None:
        raise TrialError(
            f"{condition.place}: {condition.type} could not be judged: the judge said yes and gave no confidence to "
            f"compare with the threshold {asked.threshold:g}"
        )
    if answer.confidence < asked.threshold:
        return None
    return (
        f"the judge said yes with confidence {answer.confidence:g} (threshold {asked.threshold:g}): {answer.reasoning}"
    )
