"""One trial, whole: why it came to its verdict, the safety strip, the checks, what was said and done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from markupsafe import Markup

from steadyhand.judging.cost import Prices, cost_of_trial
from steadyhand.judging.trial import label
from steadyhand.records.base import Record
from steadyhand.records.evaluation import EvaluationResult, Verdict
from steadyhand.records.event import CommandRan, FileChanged, ModelCalled, Noted
from steadyhand.records.run import Target, TrialRecord, answers_finish
from steadyhand.report import wording
from steadyhand.report.details import incidents_of
from steadyhand.report.html.conversation import Talk, conversation
from steadyhand.report.html.overview import WORST_FIRST, TrialLine, trial_line
from steadyhand.report.html.safety_strip import SafetyStrip, safety_strip
from steadyhand.report.html.template import fragment
from steadyhand.report.html.text import SourceLine, excerpt
from steadyhand.report.json import errors_of, trajectory_entries
from steadyhand.report.json_trial_shapes import JsonError, JsonTrajectoryEntry

LARGEST = 150_000
"""The most characters that one trial may take of a page."""
_EARLIER = 4
SourceOf = Callable[[str], str | None]
"""The text of a scenario file as it was recorded; None where it was not."""


class ShownCheck(Record):
    """A check with the lines of the scenario that ask for it; none where they were not recorded."""

    result: EvaluationResult
    label: str
    source: tuple[SourceLine, ...] = ()

    @property
    def told(self) -> str:
        """What it is about, as its author says, else as its result does."""
        return self.result.description or self.result.message

    @property
    def where(self) -> str:
        """Where in the trial it was made."""
        result = self.result
        turn = f", turn {result.turn}" if result.turn is not None else ""
        return f"step {result.step + 1}{turn}"


class TrialView(Record):
    """Everything the page of a trial shows, read off its record.

    `beside` counts the checks that are not among `checks`, since they passed and stand beside their turn.
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
    def seen(self) -> str:
        """What is not seen of the agent's work, in a sentence; empty if all of it is."""
        shows = self.trial.shows
        if shows is None or not shows.acts:
            return ""
        hidden = ", ".join(what.replace("_", " ") for what in shows.only("not_seen"))
        return f"not seen: {hidden}" if hidden else ""


def trial_view(trial: TrialRecord, *, target: Target, prices: Prices, sources: SourceOf) -> TrialView:
    talks = tuple(conversation(trial))
    beside = {
        id(each) for talk in talks for turn in talk.turns for each in turn.checks if each.verdict is Verdict.PASSED
    }
    checks = sorted(
        (each for each in trial.evaluations if id(each) not in beside),
        key=lambda each: (WORST_FIRST.index(each.verdict), -(each.severity or 0.0)),
    )
    return TrialView(
        line=trial_line(trial, target),
        trial=trial,
        strip=safety_strip(trial),
        checks=tuple(_check(each, sources) for each in checks),
        beside=len(beside),
        talks=talks,
        trajectory=trajectory_entries(trial.events),
        files=_of(trial, FileChanged),
        commands=_of(trial, CommandRan),
        calls=_of(trial, ModelCalled),
        errors=tuple(errors_of(trial)),
        notes=tuple(event for event in trial.events if isinstance(event, Noted) and event.level != "debug"),
        facts=dict(_facts(trial, prices)),
        earlier=tuple(
            trial_view(each, target=target, prices=prices, sources=sources)
            for each in (*trial.earlier, *trial.replaced)[:_EARLIER]
        ),
    )


def trial_part(view: TrialView, *, heading: int = 3) -> Markup:
    """The body of a trial, without its summary line. `heading` is the level of the headings in it.

    A trial that is too long for a page is told in short, and says so.
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
    yield from incidents_of(trial)
    if trial.earlier:
        yield "earlier measurements", "; ".join(each.judged.reason for each in trial.earlier)
    if trial.missing_plugins:
        yield "missing plugins", ", ".join(trial.missing_plugins)
    yield "used", wording.cost_line(cost_of_trial(trial, prices))
