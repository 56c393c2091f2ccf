"""What was said in a trial: its end for a glance, or the whole of it, turn by turn with checks and times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from steadyhand.judging.strategy import label
from steadyhand.records.event import Said
from steadyhand.records.result import ConversationEnding
from steadyhand.records.run import TrialRecord, exported_transcript, transcript_of
from steadyhand.report.page import Page, one_line
from steadyhand.report.wording import milliseconds

Transcripts = Literal["all", "failed", "none"]
_LAST = 4
_LINES = 40
_INDENT = 4


def is_conversation(trial: TrialRecord) -> bool:
    return any(said.turn is not None for said in transcript_of(trial.events))


def render_transcript(trial: TrialRecord, page: Page) -> Iterator[str]:
    """The whole conversation; of a trial that is none, the last few messages."""
    said = exported_transcript(trial)
    for talk in trial.conversations:
        if not talk.transcript_exported:
            yield f"  transcript of step {talk.step + 1} left out: `export_full_transcript` is false"
    if not said:
        return
    if any(event.turn is not None for event in said):
        yield "  transcript"
        yield from _turns(trial, said, page)
        return
    yield "  transcript" + (f" (the last {_LAST} of {len(said)} messages)" if len(said) > _LAST else "")
    for event in said[-_LAST:]:
        yield from _message(event, page, most=4)


def ending_line(talk: ConversationEnding) -> str:
    """Such as `user_expresses_satisfaction, early, after turn 2`."""
    early = ", early" if talk.terminated_early else ""
    return f"{talk.termination_reason or 'no condition'}{early}, after turn {talk.turns}"


def render_endings(trial: TrialRecord, page: Page) -> Iterator[str]:
    """How each conversation ended, and why."""
    for talk in trial.conversations:
        evidence = f": {talk.termination_evidence}" if talk.termination_evidence else ""
        step = f" (step {talk.step + 1})" if len(trial.conversations) > 1 else ""
        lines = list(page.wrap(f"{ending_line(talk)}{step}{evidence}", indent=12))
        yield f"  {page.paint('ended by', 'faint')}  {lines[0]}"
        yield from (" " * 12 + line for line in lines[1:])


def _turns(trial: TrialRecord, said: tuple[Said, ...], page: Page) -> Iterator[str]:
    at: tuple[int | None, int | None] = (None, None)
    for index, event in enumerate(said):
        if (event.step, event.turn) != at:
            at = (event.step, event.turn)
            if event.turn is not None:
                yield " " * _INDENT + page.paint(_heading(event, said), "faint")
        yield from _message(event, page, most=_LINES)
        last_of_turn = index + 1 == len(said) or (said[index + 1].step, said[index + 1].turn) != at
        if last_of_turn and event.turn is not None:
            yield from _checks(trial, event, page)


def _heading(first: Said, said: tuple[Said, ...]) -> str:
    times = [event.at_ms for event in said if (event.step, event.turn) == (first.step, first.turn)]
    return f"turn {first.turn}, {milliseconds(max(times) - first.at_ms)}"


def _checks(trial: TrialRecord, event: Said, page: Page) -> Iterator[str]:
    for check in trial.evaluations:
        if (check.stage, check.step, check.turn) == ("turn", event.step, event.turn):
            verdict = page.paint(check.verdict, check.verdict)
            yield f"{' ' * (_INDENT + 2)}{verdict}  {one_line(label(check))}: {one_line(check.message)}"


def _message(event: Said, page: Page, *, most: int) -> Iterator[str]:
    name = event.message.role.ljust(9)
    hang = _INDENT + len(name) + 2
    lines = list(page.wrap(event.message.content or "(no text)", indent=hang, most=most)) or [""]
    yield f"{' ' * _INDENT}{page.paint(name, 'faint')}  {lines[0]}".rstrip()
    for line in lines[1:]:
        yield (" " * hang + line).rstrip()
