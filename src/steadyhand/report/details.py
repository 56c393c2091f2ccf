"""Why a trial did not pass: its checks with their evidence, the transcript, and where to look in the file."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from steadyhand.judging.trial import alarm_of, label
from steadyhand.reading.totals import OTHER, Incidents
from steadyhand.records.base import counted
from steadyhand.records.evaluation import EvaluationResult, FailureClass, RubricScore, Verdict
from steadyhand.records.event import answers_finish, transcript_of
from steadyhand.records.run import TrialRecord, exported_transcript
from steadyhand.report import wording
from steadyhand.report.table import Page, cells, clip, one_line, visible
from steadyhand.report.transcript import render_endings, render_transcript
from steadyhand.report.wording import milliseconds, safe_by_deadline, scenario_label

_REASONS = 3
_REASON = 100
_INCIDENT_INDENT = 2
_SHOWN_WAIT_MS = 100.0


def short_incidents(found: Incidents) -> str:
    """A few words for one line, such as `2 retries, waited 4.0 s`."""
    parts: list[str] = []
    if retries := found.retries.total():
        parts.append(counted(retries, "retry", "retries"))
    if found.waited_ms >= _SHOWN_WAIT_MS:
        parts.append(f"waited {wording.seconds(found.waited_ms)}")
    if found.lagged:
        parts.append(f"lag {wording.milliseconds(found.worst_lag_ms)}")
    if found.measured_again:
        parts.append(f"{found.measured_again} remeasured")
    return ", ".join(parts)


def shown_incidents(found: Incidents) -> Iterator[tuple[str, str]]:
    """A name and a description of each kind of incident that occurred."""
    if found.retries:
        yield "retries", _times_seen(found.retries)
    if found.waits:
        yield "waits", f"{wording.seconds(found.waited_ms)} in total: {_times_seen(found.waits)}"
    if found.lagged:
        yield "lag", f"{counted(found.lagged, 'call')}, up to {wording.milliseconds(found.worst_lag_ms)}"
    if found.measured_again:
        yield "repeats", f"remeasured {counted(found.measured_again, 'time')}"


def render_incidents(incidents: Incidents, page: Page) -> Iterator[str]:
    """The lines about the incidents of a run; none if there were none."""
    found = list(shown_incidents(incidents))
    if not found:
        return
    yield "Incidents (excluded from latency):"
    width = max(len(name) for name, _ in found)
    for name, what in found:
        hang = _INCIDENT_INDENT + width + 2
        lines = list(page.wrap(what, indent=hang)) or [""]
        yield f"{' ' * _INCIDENT_INDENT}{page.paint(name.ljust(width), 'faint')}  {lines[0]}"
        yield from (" " * hang + line for line in lines[1:])


def _times_seen(reasons: Counter[str]) -> str:
    shown = [f"{count} x {clip(one_line(reason), _REASON)}" for reason, count in reasons.most_common(_REASONS)]
    rest = sum(reasons.values()) - sum(count for _, count in reasons.most_common(_REASONS))
    return "; ".join(shown) + (f"; {rest} x {OTHER}" if rest else "")


_CHECKS = 10
_INDENT = 2
_QUOTED = 40
_COMPARED = 240
_IN_QUOTES = re.compile(r"""'([^']+)'|"([^"]+)\"""")
_NOTHING = re.compile(r"(?:no|not|none|never|nothing|empty)\b")
_WORD = re.compile(r"[\w./-]+")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_NUMBER_WORDS = {"never": "0", "once": "1", "twice": "2"}
_NAME = re.compile(r"[\d_/]|\w\.\w|.[A-Z]")
_CLASSES = {
    FailureClass.CRITICAL_INVARIANT: "critical invariant violated",
    FailureClass.INVARIANT: "invariant violated",
    FailureClass.RUBRIC: "low rubric score",
    FailureClass.LATENCY: "too late",
    FailureClass.FABRICATION: "fabricated content",
}
_ALARMS = {
    "missed": "missed: the agent should have acted",
    "false": "false: the agent should have deferred",
}


def is_conversation(trial: TrialRecord) -> bool:
    return any(said.turn is not None for said in transcript_of(trial.events))


def render_details(
    trial: TrialRecord,
    page: Page,
    *,
    numbered: bool = False,
    transcript: bool = True,
    whole: bool = False,
    count: str = "",
    named: bool = True,
    remarked: bool = False,
) -> Iterator[str]:
    """The lines about one trial, starting with its heading.

    `count` is the number of trials that it is an example of; it is shown alone unless the trial is `named`. With
    `whole`, nothing is left out, except what the run's notes say about all trials, if they follow (`remarked`).
    """
    yield from _title(trial, page, visible(scenario_label(trial, numbered=numbered)) if named else "", count)
    yield from _indented(page, str(trial.place), _INDENT, style="faint")
    open_checks = [check for check in trial.evaluations if check.verdict is not Verdict.PASSED]
    if not any(label(check) in trial.judged.reason for check in open_checks):
        yield from _indented(page, trial.judged.reason, _INDENT)
    for phase in trial.phases:
        if phase.error and phase.error not in trial.judged.reason:
            yield from _field(page, f"in {phase.name}", phase.error, _INDENT)
    incidents = shown_incidents(Incidents.of(trial))
    unnamed = [each for each in incidents if each[0] != "lag" or not trial.judged.latency_spoiled]
    for name, value in (*_facts(trial, open_checks), *unnamed):
        yield from _field(page, name, value, _INDENT)
    yield from render_endings(trial, page)
    if times := _times(trial):
        yield from _field(page, "times", times, _INDENT)
    if trial.judged.rubric is not None:
        yield from _field(page, "rubric", _rubric(trial.judged.rubric, remarked=remarked), _INDENT)
    shown = open_checks if whole else open_checks[:_CHECKS]
    for check in shown:
        yield from _check(check, page, beside=trial if transcript else None)
    if len(open_checks) > len(shown):
        yield f"  {len(open_checks) - len(shown)} more checks did not pass"
    if whole:
        yield from render_passed_checks(trial, page)
    if transcript:
        reported = trial.evaluations if whole else shown
        yield from render_transcript(trial, page, whole=whole, reported=reported)


def _title(trial: TrialRecord, page: Page, name: str, count: str) -> Iterator[str]:
    """The verdict, the scenario and the count, on as many lines as needed, because ids must not be truncated."""
    verdict = trial.judged.verdict
    indent = len(verdict) + 2
    room = page.width - indent
    heading, below = "  ".join(filter(None, (name, count))), ""
    if name and cells(heading) > room:
        heading, below = name, count
    if cells(one_line(trial.key.scenario_id)) <= room:
        heading = clip(heading, room)
    lines = list(page.wrap(heading, indent=indent)) or [""]
    yield f"{page.paint(verdict.upper(), verdict)}  {page.paint(lines[0], 'strong')}"
    yield from (" " * indent + page.paint(line, "strong") for line in lines[1:])
    if below:
        yield f"  {below}"


def render_passed_checks(trial: TrialRecord, page: Page) -> Iterator[str]:
    for check in trial.evaluations:
        if check.verdict is Verdict.PASSED:
            text = f"{one_line(label(check))}: {one_line(check.message)}"
            lines = list(page.wrap(text, indent=10))
            yield f"  {page.paint(check.verdict, check.verdict)}  {lines[0]}"
            yield from (" " * 10 + line for line in lines[1:])


def explained_classes(classes: Iterable[FailureClass]) -> str:
    """Such as `A (critical invariant violated), D (too late)`."""
    return ", ".join(f"{each} ({_CLASSES[each]})" for each in classes)


def explained_class(each: FailureClass) -> str:
    """Such as `class D: too late`."""
    return f"class {each}: {_CLASSES[each]}"


def _facts(trial: TrialRecord, open_checks: Iterable[EvaluationResult]) -> Iterator[tuple[str, str]]:
    finish = answers_finish(trial.events)
    if finish is not None and not finish.plain:
        yield "ended", str(finish)
    if trial.judged.failure_classes:
        yield "classes", explained_classes(trial.judged.failure_classes)
    if alarm := alarm_of(trial):
        yield "alarm", _ALARMS[alarm]
    spoiled = [str(each) for each in trial.judged.latency_spoiled]
    if spoiled and not any(each in check.message for each in spoiled for check in open_checks):
        yield "latency not graded", "; ".join(spoiled)


def _times(trial: TrialRecord) -> str:
    """When the answer began and became safe, or why that is unknown, if it matters in this trial."""
    judged = trial.judged
    parts: list[str] = []
    if judged.time_to_first_token_ms is not None:
        parts.append(f"first token after {milliseconds(judged.time_to_first_token_ms)}")
    at = judged.safety_at_deadline
    safe_ms = judged.safe_ms
    if safe_ms == math.inf:
        first = judged.first_safe_ms
        at_last = "unsafe at the end" if first is None else f"safe from {milliseconds(first)}, but not at the end"
        parts.append("never safe" if judged.never_safe else at_last)
    elif safe_ms is not None:
        parts.append(f"safe after {milliseconds(safe_ms)}")
    if at is not None:
        parts.append(f"safe by target/acceptable/critical time: {safe_by_deadline(judged)}")
    if judged.time_to_safe_excludes:
        parts.append(f"not counting {', '.join(judged.time_to_safe_excludes)} (checked on the complete answer only)")
    timed = any(check.budget is not None or check.severity is not None for check in trial.evaluations)
    if judged.times_unknown and timed and not judged.latency_spoiled:
        parts.append(f"unknown: {judged.times_unknown}")
    return "; ".join(parts)


def _rubric(score: RubricScore, *, remarked: bool) -> str:
    scores = ", ".join(f"{name} {value:g}" for name, value in score.scores.items())
    overall = "" if score.overall is None else f" {score.overall:.2f}"
    text = f"{score.name}{overall}" + (f": {scores}" if scores else "")
    if score.overall is None and remarked:
        return f"{text}, not scored"
    text += f"; {score.reason}" if score.reason else ""
    return text + (f"; fabricated: {score.evidence or 'yes'}" if score.fabricated else "")


class CheckText(NamedTuple):
    """The text about a check, without repetitions."""

    message: str
    fields: dict[str, str]


def check_text(check: EvaluationResult, beside: Iterable[str] = ()) -> CheckText:
    """Its message and evidence, without what another part of it, or a text shown `beside` it, already says."""
    message = check.message
    reasoning = check.judge.reasoning if check.judge is not None else None
    if reasoning:
        # The message up to where it begins to quote the judge.
        at = message.find(reasoning[:_QUOTED])
        message = message if at < 0 else message[:at].rstrip(" :;")
    shown = [message]
    fields: dict[str, str] = {}
    for name in ("expected", "found", "where", "excerpt"):
        value: str | None = getattr(check.evidence, name, None)
        if value is None or (name == "where" and check.judge is not None):
            continue
        if name != "excerpt" and _adds_nothing(name, value, message):
            continue
        said = [*shown, *beside] if name == "excerpt" else shown
        if reasoning and one_line(reasoning) not in one_line(value):
            said = [*said, reasoning]
        if value != reasoning and not any(_says(text, value) for text in said):
            fields[name] = value
            shown.append(value)
    if reasoning and not any(one_line(reasoning) in one_line(value) for value in fields.values()):
        fields["judge"] = reasoning
    return CheckText(message, fields)


def _adds_nothing(name: str, value: str, message: str) -> bool:
    """Whether every number and name in a value is also in the message. A value without any may still add something,
    unless it only says that nothing was found, or is not a location."""
    marks = _marks(value)
    quoted = [piece for pieces in _IN_QUOTES.findall(value) for piece in pieces if piece]
    if marks or quoted:
        return marks <= _marks(message) and all(piece in message for piece in quoted)
    return name == "where" or (name == "found" and _NOTHING.match(value) is not None)


def _marks(text: str) -> set[str]:
    """The numbers and identifiers in a text: names of files, actions and options."""
    found: set[str] = set()
    for word in (each.rstrip("./-") for each in _WORD.findall(text)):
        if word in _NUMBER_WORDS:
            found.add(_NUMBER_WORDS[word])
        elif _NUMBER.fullmatch(word):
            found.add(f"{float(word):g}")
        elif _NAME.search(word):
            found.add(word)
    return found


def _says(text: str, value: str) -> bool:
    """Whether the value adds nothing to the text."""
    text, value = one_line(text), one_line(value).removeprefix("...").removesuffix("...")
    if value in text:
        return True
    from difflib import SequenceMatcher  # for failures only

    text, value = text[:_COMPARED], value[:_COMPARED]
    same = SequenceMatcher(None, text, value, autojunk=False).find_longest_match()
    return same.size > len(value) / 2


def _check(check: EvaluationResult, page: Page, *, beside: TrialRecord | None) -> Iterator[str]:
    """`beside` is the trial whose transcript is shown below."""
    severity = f"  severity {check.severity:g}" if check.severity is not None else ""
    where = f"step {check.step + 1}" + (f", turn {check.turn}" if check.turn is not None else "")
    verdict = page.paint(check.verdict, check.verdict)
    yield f"  {verdict}  {one_line(label(check))}{severity}  {page.paint(where, 'faint')}"
    indent = _INDENT * 2
    if check.description:
        yield from _indented(page, check.description, indent)
    if check.place is not None:
        path = f"  {check.place.path}" if check.place.path else ""
        yield from _indented(page, f"{check.place}{path}", indent, style="faint")
    text = check_text(check, _shown_below(beside) if beside is not None else ())
    yield from _indented(page, text.message, indent)
    for name, value in text.fields.items():
        judge = f"judge {check.judge.model}" if name == "judge" and check.judge is not None else name
        yield from _field(page, judge, value, indent)


def _shown_below(trial: TrialRecord) -> list[str]:
    """What the transcript and the lines about conversations already show."""
    said = [said.message.content[:_COMPARED] for said in exported_transcript(trial) if said.message.role != "system"]
    if not is_conversation(trial):
        said = said[-1:]
    return [*said, *(f"ended by {talk.termination_reason}" for talk in trial.conversations)]


def _indented(page: Page, text: str, indent: int, *, style: str = "") -> Iterator[str]:
    for line in page.wrap(text, indent=indent):
        yield " " * indent + page.paint(line, style)


def _field(page: Page, name: str, value: str, indent: int) -> Iterator[str]:
    """A name, with its value wrapped next to it."""
    name = one_line(name).ljust(8)
    hang = indent + len(name) + 2
    lines = list(page.wrap(value, indent=hang)) or [""]
    yield f"{' ' * indent}{page.paint(name, 'faint')}  {lines[0]}".rstrip()
    for line in lines[1:]:
        yield (" " * hang + line).rstrip()
