"""What was said and done in a trial, in order, and how its conversations ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from steadyhand.judging.trial import label
from steadyhand.records.base import shorten
from steadyhand.records.evaluation import EvaluationResult
from steadyhand.records.event import ActionTaken, CommandRan, Observed, Said, ServiceCalled, Thought
from steadyhand.records.result import ConversationEnding
from steadyhand.records.run import TrialRecord
from steadyhand.records.trajectory import without_repeated_actions
from steadyhand.report.table import Page, one_line
from steadyhand.report.wording import milliseconds

Transcripts = Literal["all", "failed", "none"]
NO_CONDITION = "no condition met"
_LAST = 4
_CALLS = 8
_LINES = 40
_THOUGHT = 60
_Done = Said | Thought | ActionTaken | ServiceCalled | CommandRan
_DONE = (Said, Thought, ActionTaken, ServiceCalled, CommandRan)
_TALK_INDENT = 4


def render_transcript(
    trial: TrialRecord, page: Page, *, whole: bool = False, reported: Sequence[EvaluationResult] = ()
) -> Iterator[str]:
    """What was said and done, in order. For a trial without a conversation, the last few messages, unless `whole`. The
    checks of a turn are shown below it; those that are `told` elsewhere are shown by name only.
    """
    kept_back = {talk.step for talk in trial.conversations if not talk.transcript_exported}
    for talk in trial.conversations:
        if not talk.transcript_exported:
            yield f"  transcript of step {talk.step + 1} omitted: `export_full_transcript` is false"
    once = without_repeated_actions(trial.events)
    done = [event for event in once if isinstance(event, _DONE) and event.step not in kept_back]
    done.sort(key=lambda event: event.at_ms)
    said = [event for event in done if isinstance(event, Said)]
    if not done:
        return
    if any(event.turn is not None for event in said):
        yield "  transcript"
        yield from _turns(trial, done, page, reported)
        return
    left_out = 0 if whole else max(len(said) - _LAST, 0)
    if left_out:
        done = done[done.index(said[left_out]) :]
    yield "  transcript" + (f" (last {_LAST} of {len(said)} messages)" if left_out else "")
    answers = _answers(trial)
    calls = 0
    for event in done:
        calls += not isinstance(event, Said | Thought)
        if whole or isinstance(event, Said) or calls <= _CALLS:
            yield from _line(event, answers, page, most=_LINES if whole else 4)
    if not whole and calls > _CALLS:
        yield f"{' ' * _TALK_INDENT}and {calls - _CALLS} more calls"


def _answers(trial: TrialRecord) -> dict[str, Observed]:
    return {event.action_id: event for event in trial.events if isinstance(event, Observed)}


def ending_line(talk: ConversationEnding) -> str:
    """Such as `user_expresses_satisfaction, early, after turn 2`."""
    early = ", early" if talk.terminated_early else ""
    return f"{talk.termination_reason or NO_CONDITION}{early}, after turn {talk.turns}"


def render_endings(trial: TrialRecord, page: Page) -> Iterator[str]:
    """How each conversation ended, and why."""
    for talk in trial.conversations:
        evidence = f": {talk.termination_evidence}" if talk.termination_evidence else ""
        step = f" (step {talk.step + 1})" if len(trial.conversations) > 1 else ""
        lines = list(page.wrap(f"{ending_line(talk)}{step}{evidence}", indent=12))
        yield f"  {page.paint('ended by', 'faint')}  {lines[0]}"
        yield from (" " * 12 + line for line in lines[1:])


def _turns(
    trial: TrialRecord, done: Sequence[_Done], page: Page, reported: Sequence[EvaluationResult]
) -> Iterator[str]:
    at: tuple[int | None, int | None] = (None, None)
    answers = _answers(trial)
    for index, event in enumerate(done):
        if (event.step, event.turn) != at:
            at = (event.step, event.turn)
            if event.turn is not None:
                yield " " * _TALK_INDENT + page.paint(_heading(event, done), "faint")
        yield from _line(event, answers, page, most=_LINES)
        last_of_turn = index + 1 == len(done) or (done[index + 1].step, done[index + 1].turn) != at
        if last_of_turn and event.turn is not None:
            yield from _checks(trial, event, page, reported)


def _heading(first: _Done, done: Sequence[_Done]) -> str:
    times = [event.at_ms for event in done if (event.step, event.turn) == (first.step, first.turn)]
    return f"turn {first.turn}, {milliseconds(max(times) - first.at_ms)}"


def _checks(trial: TrialRecord, event: _Done, page: Page, reported: Sequence[EvaluationResult]) -> Iterator[str]:
    for check in trial.evaluations:
        if (check.stage, check.step, check.turn) == ("turn", event.step, event.turn):
            verdict = page.paint(check.verdict, check.verdict)
            message = "" if any(check is each for each in reported) else f": {one_line(check.message)}"
            yield f"{' ' * (_TALK_INDENT + 2)}{verdict}  {one_line(label(check))}{message}"


def _line(event: _Done, answers: Mapping[str, Observed], page: Page, *, most: int) -> Iterator[str]:
    """A message, the beginning of a thought, or a call with its arguments and result."""
    match event:
        case Said():
            name, text = event.message.role, event.message.content or "(no text)"
        case Thought():
            name, text = "thought", f"{shorten(one_line(event.text), _THOUGHT)} ({len(event.text)} characters)"
        case ActionTaken():
            answer = answers.get(event.id)
            came = "" if answer is None else f" -> {_value(answer.content)}{' (cut)' if answer.cut else ''}"
            failed = "" if event.status == "success" else f" {'failed' if event.status == 'error' else event.status}"
            name, text = "action", f"{event.name}({_arguments(event.params)}){failed}{came}"
        case ServiceCalled():
            given = ", ".join([*map(_value, event.args), *([_arguments(event.input)] if event.input else [])])
            how = "failed" if event.outcome == "error" else event.outcome
            came = f"{how}: {event.error}" if event.error is not None else f"-> {_value(event.result)}"
            mocked = " (mocked)" if event.mock is not None else ""
            name, text = "service", f"{event.service}.{event.method}({given}) {came}{mocked}"
        case CommandRan():
            name, text = "command", f"{event.command} -> exit code {event.exit_code}"
    name = name.ljust(9)
    hang = _TALK_INDENT + len(name) + 2
    lines = list(page.wrap(text, indent=hang, most=most)) or [""]
    yield f"{' ' * _TALK_INDENT}{page.paint(name, 'faint')}  {lines[0]}".rstrip()
    for line in lines[1:]:
        yield (" " * hang + line).rstrip()


def _arguments(given: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_value(value)}" for name, value in given.items())


def _value(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()
