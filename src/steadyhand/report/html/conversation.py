"""What was said, as a chat: turn by turn, with the checks of each turn and what they found in the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from steadyhand.judging.trial import label
from steadyhand.records.base import Record
from steadyhand.records.chat import Role
from steadyhand.records.evaluation import EvaluationResult
from steadyhand.records.event import Said
from steadyhand.records.result import ConversationEnding
from steadyhand.records.run import TrialRecord, exported_transcript
from steadyhand.report.html.text import Mark


class Bubble(Record):
    """A message; `marks` are what checks found in it."""

    role: Role
    text: str
    at_ms: float
    pressure: str | None = None
    marks: tuple[Mark, ...] = ()


class ShownTurn(Record):
    """What was said in a turn, and the checks that were made at its end. `number` is None outside a conversation."""

    number: int | None
    bubbles: tuple[Bubble, ...]
    checks: tuple[EvaluationResult, ...] = ()
    took_ms: float = 0.0

    @property
    def pressure(self) -> str | None:
        return next((each.pressure for each in self.bubbles if each.pressure), None)


class Talk(Record):
    """What was said in a step. Without `exported` its author keeps the transcript to the run record."""

    step: int
    turns: tuple[ShownTurn, ...]
    ending: ConversationEnding | None = None
    exported: bool = True


def conversation(trial: TrialRecord) -> list[Talk]:
    """The steps in which something was said, in order."""
    endings = {talk.step: talk for talk in trial.conversations}
    by_step: dict[int, list[Said]] = {step: [] for step in endings}
    for said in exported_transcript(trial):
        by_step.setdefault(said.step or 0, []).append(said)
    return [_talk(trial, step, said, endings.get(step)) for step, said in sorted(by_step.items())]


def _talk(trial: TrialRecord, step: int, said: Sequence[Said], ending: ConversationEnding | None) -> Talk:
    found = [each for each in trial.evaluations if each.step == step]
    marks = _marks(said, found)
    turns: list[ShownTurn] = []
    for number, members in _by_turn(said):
        bubbles = tuple(
            Bubble(
                role=event.message.role,
                text=event.message.content,
                at_ms=event.at_ms,
                pressure=event.pressure,
                marks=tuple(marks.get(at, ())),
            )
            for at, event in members
        )
        took_ms = members[-1][1].at_ms - members[0][1].at_ms
        checks = tuple(each for each in found if each.stage == "turn" and each.turn == number and number is not None)
        turns.append(ShownTurn(number=number, bubbles=bubbles, checks=checks, took_ms=took_ms))
    exported = ending.transcript_exported if ending is not None else True
    return Talk(step=step, turns=tuple(turns), ending=ending, exported=exported)


def _by_turn(said: Sequence[Said]) -> Iterator[tuple[int | None, list[tuple[int, Said]]]]:
    members: list[tuple[int, Said]] = []
    for at, event in enumerate(said):
        if members and members[-1][1].turn != event.turn:
            yield members[-1][1].turn, members
            members = []
        members.append((at, event))
    if members:
        yield members[-1][1].turn, members


def _marks(said: Sequence[Said], evaluations: Sequence[EvaluationResult]) -> dict[int, list[Mark]]:
    """By the position of the message, what checks found in it. A span that does not fit the text is left out."""
    found: dict[int, list[Mark]] = {}
    for each in evaluations:
        evidence = each.evidence
        if evidence is None or evidence.span is None or evidence.span[0] == evidence.span[1]:
            continue
        at = _message_of(each, said)
        if at is None or evidence.span[1] > len(said[at].message.content):
            continue
        mark = Mark(*evidence.span, f"hit {each.verdict}", f"{label(each)}: {each.verdict}")
        found.setdefault(at, []).append(mark)
    return found


def _message_of(evaluation: EvaluationResult, said: Sequence[Said]) -> int | None:
    evidence = evaluation.evidence
    assert evidence is not None
    if evidence.message is not None:
        return evidence.message - 1 if 0 < evidence.message <= len(said) else None
    replies = [
        at
        for at, event in enumerate(said)
        if event.message.role == "assistant" and (evaluation.stage != "turn" or event.turn == evaluation.turn)
    ]
    return replies[-1] if replies else None
