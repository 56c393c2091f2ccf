"""The text a check reads (the final reply, all the agent said, or the transcript) and how it is quoted in messages."""

from __future__ import annotations

import functools
from typing import Annotated, Literal

import regex
from pydantic import AfterValidator, Field

from steadyhand.ports.evaluator import EvaluationContext
from steadyhand.records.base import Record
from steadyhand.records.chat import Message
from steadyhand.records.result import ExecutionResult
from steadyhand.records.scenario import Ask, Converse, Step
from steadyhand.spec.patterns import inspect_pattern
from steadyhand.text_match import compiled

Scope = Literal["reply", "agent", "transcript"]
_GAP = "\n\n"
LIMIT = 200


def _compiles(pattern: str) -> str:
    try:
        compiled(pattern, case_sensitive=True)
        compiled(pattern, case_sensitive=False)
    except regex.error as error:
        raise ValueError(f"not a valid regular expression: {error}") from error
    if inspect_pattern(pattern).always:
        raise ValueError("the pattern matches any text, even an empty one, so the check can never fail")
    return pattern


PatternText = Annotated[str, Field(min_length=1), AfterValidator(_compiles)]
"""A regular expression in a file: compiled when the file is loaded, so that a bad one is an error there."""


class Part(Record):
    """One message of a subject, and what to call it. `number` is which of the transcript; None for the reply."""

    label: str
    text: str
    number: int | None = None


class Subject(Record):
    """The text a check reads, put together from messages with an empty line between them."""

    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        parts = self.parts
        return parts[0].text if len(parts) == 1 else _GAP.join([part.text for part in parts])

    @property
    def label(self) -> str:
        """The name of the whole text in messages."""
        return self.parts[0].label if len(self.parts) == 1 else f"{len(self.parts)} messages"

    def where(self, start: int, end: int) -> str:
        """The place of `text[start:end]`, such as `reply, characters 120-131`, counted from 1."""
        part, offset = self.part_at(start)
        first, last = start - offset + 1, end - offset
        place = f"characters {first}-{last}" if last > first else f"character {first}"
        return f"{part.label}, {place}"

    def part_at(self, start: int) -> tuple[Part, int]:
        """The message that `text[start]` is in, and where it begins."""
        offset = 0
        for part in self.parts[:-1]:
            if start <= offset + len(part.text):
                return part, offset
            offset += len(part.text) + len(_GAP)
        return self.parts[-1], offset


def subject(result: ExecutionResult, scope: Scope, context: EvaluationContext) -> Subject:
    """The text that `scope` names. Assistant messages written by the scenario's author are not the agent's."""
    if scope == "reply":
        return Subject(parts=(Part(label="reply", text=final_reply(result)),))
    messages = _transcript(result)
    given = len(_given(result, context))
    wanted = [
        Part(label=f"message {number} ({message.role})", text=message.content, number=number)
        for number, message in enumerate(messages, start=1)
        if scope == "transcript" or (message.role == "assistant" and number > given)
    ]
    return Subject(parts=tuple(wanted) or (Part(label="no messages", text=""),))


def final_reply(result: ExecutionResult) -> str:
    """What the agent said last; in a conversation, its last message."""
    if not result.reply and result.conversation is not None and result.conversation.turns:
        return result.conversation.turns[-1].agent_response
    return result.reply


def _transcript(result: ExecutionResult) -> tuple[Message, ...]:
    if not result.messages and result.conversation is None:
        return (Message(role="assistant", content=result.reply),)
    return result.transcript


def _given(result: ExecutionResult, context: EvaluationContext) -> tuple[Message, ...]:
    """The messages the step began with, if `result` starts with them."""
    for step in context.scenario.steps:
        given = _opening(step, context)
        if given and result.messages[: len(given)] == given:
            return given
    return ()


def _opening(step: Step, context: EvaluationContext) -> tuple[Message, ...]:
    """The messages the step begins with, if this check belongs to it."""
    match step.task:
        case Ask(messages=messages) if context.spec in step.evaluations:
            return messages
        case Converse(opening=opening, config=config):
            scripted = (spec for entry in config.script for spec in entry.evaluations)
            own = (*step.evaluations, *config.turn_evaluations, *config.final_evaluations, *scripted)
            return opening if context.spec in own else ()
        case _:
            return ()


def excerpt(text: str, start: int = 0, end: int | None = None) -> str:
    """At most `LIMIT` characters around `text[start:end]`; without a place, the beginning."""
    if len(text) <= LIMIT:
        return text
    if end is None or end - start >= LIMIT:
        first = start
    else:
        first = max(0, min(start - (LIMIT - (end - start)) // 2, len(text) - LIMIT))
    last = min(len(text), first + LIMIT)
    return f"{'...' if first else ''}{text[first:last]}{'...' if last < len(text) else ''}"


@functools.lru_cache(maxsize=512)
def quoted(text: str) -> str:
    """The text in quotation marks on one line, shortened. Cached: every trial quotes what the scenario asks for."""
    shown = excerpt(text).replace("\r", "\\r").replace("\n", "\\n")
    mark = '"' if "'" in shown else "'"
    return f"{mark}{shown}{mark}"


def counted(number: int, noun: str) -> str:
    """`1 turn`, `2 turns`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
