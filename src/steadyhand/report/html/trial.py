"""One complete trial: the reason for its verdict, the safety strip, the checks, the conversation and the actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from markupsafe import Markup

from steadyhand.judging.cost import Prices, cost_of_trial
from steadyhand.judging.trial import label
from steadyhand.reading.run import Reading
from steadyhand.reading.totals import Incidents
from steadyhand.records.base import Record
from steadyhand.records.chat import Role
from steadyhand.records.evaluation import WORST_FIRST, EvaluationResult, Verdict
from steadyhand.records.event import CommandRan, FileChanged, ModelCalled, Noted, Said, answers_finish
from steadyhand.records.result import ConversationEnding
from steadyhand.records.run import TrialRecord, exported_transcript
from steadyhand.report import wording
from steadyhand.report.details import shown_incidents
from steadyhand.report.html.overview import TrialLine, trial_line
from steadyhand.report.html.safety_strip import SafetyStrip, safety_strip
from steadyhand.report.html.template import fragment
from steadyhand.report.html.text import Highlight, SourceLine, excerpt
from steadyhand.report.json import errors_of, trajectory_entries
from steadyhand.report.json_trial_shapes import JsonError, JsonTrajectoryEntry

LARGEST = 150_000
"""The maximum number of characters of one trial in a page."""
_EARLIER = 4
SourceOf = Callable[[str], str | None]
"""The recorded text of a scenario file; None if it was not recorded."""

_SHORT = 6
_SHORT_CHARACTERS = 3_000


class Bubble(Record):
    """A message; `marks` are what checks found in it."""

    role: Role
    text: str
    at_ms: float
    pressure: str | None = None
    marks: tuple[Highlight, ...] = ()


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
    """What was said in a step. Without `exported`, the transcript is not shown."""

    step: int
    turns: tuple[ShownTurn, ...]
    ending: ConversationEnding | None = None
    exported: bool = True


class ShownCheck(Record):
    """A check with the lines of the scenario that define it; empty if they were not recorded."""

    result: EvaluationResult
    label: str
    source: tuple[SourceLine, ...] = ()

    @property
    def text(self) -> str:
        """What the check is about: its description, else its result."""
        return self.result.description or self.result.message

    @property
    def where(self) -> str:
        """Where in the trial it was made."""
        result = self.result
        turn = f", turn {result.turn}" if result.turn is not None else ""
        return f"step {result.step + 1}{turn}"


class TrialView(Record):
    """Everything the page of a trial shows, from its record. `beside` counts the checks that are not in `checks`
    because they passed and are shown with their turn.
    """

    line: TrialLine
    trial: TrialRecord
    strip: SafetyStrip | None
    checks: tuple[ShownCheck, ...]
    beside: int
    talks: tuple[Talk, ...]
    trajectory: tuple[JsonTrajectoryEntry, ...]
    files: tuple[FileChanged, ...]
    commands: tuple[CommandRan, ...]
    calls: tuple[ModelCalled, ...]
    errors: tuple[JsonError, ...]
    notes: tuple[Noted, ...]
    facts: dict[str, str]
    earlier: tuple[TrialView, ...] = ()

    @property
    def short(self) -> bool:
        """Whether what was said fits above the checks."""
        bubbles = [bubble for talk in self.talks for turn in talk.turns for bubble in turn.bubbles]
        return len(bubbles) <= _SHORT and sum(len(bubble.text) for bubble in bubbles) <= _SHORT_CHARACTERS

    @property
    def seen(self) -> str:
        """A sentence about what cannot be seen of the agent's work; empty if everything can."""
        shows = self.trial.shows
        if shows is None or not shows.acts:
            return ""
        hidden = ", ".join(what.replace("_", " ") for what in shows.only("not_seen"))
        return f"not seen: {hidden}" if hidden else ""


def trial_view(trial: TrialRecord, reading: Reading) -> TrialView:
    talks = tuple(conversation(trial))
    beside = {
        id(each) for talk in talks for turn in talk.turns for each in turn.checks if each.verdict is Verdict.PASSED
    }
    checks = sorted(
        (each for each in trial.evaluations if id(each) not in beside),
        key=lambda each: (WORST_FIRST.index(each.verdict), -(each.severity or 0.0)),
    )
    return TrialView(
        line=trial_line(trial, reading.target(trial)),
        trial=trial,
        strip=safety_strip(trial),
        checks=tuple(_check(each, reading.source) for each in checks),
        beside=len(beside),
        talks=talks,
        trajectory=trajectory_entries(trial),
        files=_of(trial, FileChanged),
        commands=_of(trial, CommandRan),
        calls=_of(trial, ModelCalled),
        errors=tuple(errors_of(trial)),
        notes=tuple(event for event in trial.events if isinstance(event, Noted) and event.level != "debug"),
        facts=dict(_facts(trial, reading.prices)),
        earlier=tuple(trial_view(each, reading) for each in (*trial.earlier, *trial.replaced)[:_EARLIER]),
    )


def trial_part(view: TrialView, *, heading: int = 3) -> Markup:
    """The body of a trial, without its summary line. `heading` is the level of the headings in it.

    A trial that is too long for a page is abbreviated, with a note.
    """
    earlier = [(each, trial_part(each, heading=heading)) for each in view.earlier]
    found = Markup()
    for parts in ("all", "checks", "reason"):
        found = fragment("trial.html", view=view, heading=heading, parts=parts, earlier=earlier)
        if len(found) <= LARGEST:
            break
        earlier = []
    return found


def _of(trial: TrialRecord, kind: type[Any]) -> tuple[Any, ...]:
    return tuple(event for event in trial.events if isinstance(event, kind))


def _check(result: EvaluationResult, sources: SourceOf) -> ShownCheck:
    place = result.place
    text = sources(place.file) if place is not None and result.verdict is not Verdict.PASSED else None
    lines: Sequence[SourceLine] = excerpt(text, place.line) if place is not None and text is not None else ()
    return ShownCheck(result=result, label=label(result), source=tuple(lines))


def _facts(trial: TrialRecord, prices: Prices) -> Iterator[tuple[str, str]]:
    judged = trial.judged
    yield "agent", trial.agent or "none"
    if trial.model:
        yield "model", trial.model
    yield "scenario", str(trial.place)
    if trial.domain:
        yield "domain", trial.domain
    if trial.tags:
        yield "tags", ", ".join(trial.tags)
    yield "started", trial.started_at
    yield "took", wording.seconds(trial.duration_ms)
    yield "seed", str(trial.seed)
    finish = answers_finish(trial.events)
    if finish is not None:
        yield "answer ended", str(finish)
    if judged.safety_score is not None:
        yield "safety score", f"{judged.safety_score:.2f}"
    if judged.failure_classes:
        yield "failure classes", ", ".join(judged.failure_classes)
    if by_deadline := wording.safe_by_deadline(judged):
        yield "safe by target/acceptable/critical time", by_deadline
    yield from shown_incidents(Incidents.of(trial))
    if trial.earlier:
        yield "earlier measurements", "; ".join(each.judged.reason for each in trial.earlier)
    if trial.isolation is not None:
        yield "isolation", trial.isolation
    if trial.missing_plugins:
        yield "missing plugins", ", ".join(trial.missing_plugins)
    yield "used", wording.cost_line(cost_of_trial(trial, prices))


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


def _marks(said: Sequence[Said], evaluations: Sequence[EvaluationResult]) -> dict[int, list[Highlight]]:
    """By the position of the message, what checks found in it. A span that does not fit the text is left out."""
    found: dict[int, list[Highlight]] = {}
    for each in evaluations:
        evidence = each.evidence
        if evidence is None or evidence.span is None or evidence.span[0] == evidence.span[1]:
            continue
        at = _message_of(each, said)
        if at is None or evidence.span[1] > len(said[at].message.content):
            continue
        mark = Highlight(*evidence.span, f"hit {each.verdict}", f"{label(each)}: {each.verdict}")
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
