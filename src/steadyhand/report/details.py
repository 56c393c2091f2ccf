"""Why a trial did not pass: its checks with their evidence, what was said, and where that stands in the file."""

from __future__ import annotations

from collections.abc import Iterator

from steadyhand.judging.severity import alarm_of
from steadyhand.judging.strategy import label
from steadyhand.records.evaluation import EvaluationResult, RubricScore, Verdict
from steadyhand.records.run import Judged, TrialRecord, answers_finish
from steadyhand.report.incidents import incidents_of
from steadyhand.report.page import Page, clip, one_line, visible
from steadyhand.report.transcript import render_endings, render_transcript
from steadyhand.report.wording import milliseconds, safe_by_deadline, scenario_label

_CHECKS = 10
_INDENT = 2
_ALARMS = {
    "missed": "missed: the scenario expects the agent to act",
    "false": "false: the scenario expects the agent to leave it be",
}


def render_details(trial: TrialRecord, page: Page, *, numbered: bool = False, transcript: bool = True) -> Iterator[str]:
    """The lines about one trial, the first being its heading."""
    verdict = trial.judged.verdict
    heading = clip(visible(scenario_label(trial, numbered=numbered)), page.width - len(verdict) - 2)
    yield f"{page.paint(verdict.upper(), verdict)}  {page.paint(heading, 'strong')}"
    yield from _indented(page, str(trial.place), _INDENT, style="faint")
    yield from _indented(page, trial.judged.reason, _INDENT)
    for phase in trial.phases:
        if phase.error and phase.error not in trial.judged.reason:
            yield from _field(page, f"in {phase.name}", phase.error, _INDENT)
    for name, told in (*_facts(trial), *incidents_of(trial)):
        yield from _field(page, name, told, _INDENT)
    yield from render_endings(trial, page)
    if times := _times(trial.judged):
        yield from _field(page, "times", times, _INDENT)
    if trial.judged.rubric is not None:
        yield from _field(page, "rubric", _rubric(trial.judged.rubric), _INDENT)
    open_checks = [check for check in trial.evaluations if check.verdict is not Verdict.PASSED]
    for check in open_checks[:_CHECKS]:
        yield from _check(check, page)
    if len(open_checks) > _CHECKS:
        yield f"  and {len(open_checks) - _CHECKS} more checks that did not pass"
    if transcript:
        yield from render_transcript(trial, page)


def _facts(trial: TrialRecord) -> Iterator[tuple[str, str]]:
    finish = answers_finish(trial.events)
    if finish is not None and not finish.plain:
        yield "ended", str(finish)
    if trial.judged.failure_classes:
        yield "classes", ", ".join(trial.judged.failure_classes)
    if alarm := alarm_of(trial):
        yield "alarm", _ALARMS[alarm]
    if trial.judged.latency_spoiled:
        yield "latency not graded", "; ".join(map(str, trial.judged.latency_spoiled))


def _times(judged: Judged) -> str:
    told: list[str] = []
    if judged.time_to_first_token_ms is not None:
        told.append(f"first token after {milliseconds(judged.time_to_first_token_ms)}")
    at = judged.safety_at_deadline
    if judged.time_to_safe_ms is not None:
        told.append(f"safe after {milliseconds(judged.time_to_safe_ms)}")
    elif at is not None and judged.first_safe_ms is not None:
        told.append(f"safe for a while from {milliseconds(judged.first_safe_ms)} on, not in the end")
    elif at is not None:
        told.append("never safe")
    if at is not None:
        told.append(f"safe by target/acceptable/critical time: {safe_by_deadline(judged)}")
    if judged.time_to_safe_excludes:
        told.append(f"without {', '.join(judged.time_to_safe_excludes)}, which only a whole answer shows")
    if judged.times_unknown and not judged.latency_spoiled:
        told.append(f"not known: {judged.times_unknown}")
    return "; ".join(told)


def _rubric(score: RubricScore) -> str:
    scores = ", ".join(f"{name} {value:g}" for name, value in score.scores.items())
    overall = "" if score.overall is None else f" {score.overall:.2f}"
    told = f"{score.name}{overall}" + (f": {scores}" if scores else "")
    told += f"; {score.reason}" if score.reason else ""
    return told + (f"; fabricated: {score.evidence or 'yes'}" if score.fabricated else "")


def _check(check: EvaluationResult, page: Page) -> Iterator[str]:
    severity = f"  severity {check.severity:g}" if check.severity is not None else ""
    where = f"step {check.step + 1}" + (f", turn {check.turn}" if check.turn is not None else "")
    verdict = page.paint(check.verdict, check.verdict)
    yield f"  {verdict}  {one_line(label(check))}{severity}  {page.paint(where, 'faint')}"
    indent = _INDENT * 2
    if check.place is not None:
        path = f"  {check.place.path}" if check.place.path else ""
        yield from _indented(page, f"{check.place}{path}", indent, style="faint")
    if check.description:
        yield from _indented(page, check.description, indent)
    yield from _indented(page, check.message, indent)
    if check.evidence is not None:
        for name in ("expected", "found", "where", "excerpt"):
            value: str | None = getattr(check.evidence, name)
            if value is not None:
                yield from _field(page, name, value, indent)
    if check.judge is not None and check.judge.reasoning:
        yield from _field(page, f"judge {check.judge.model}", check.judge.reasoning, indent)


def _indented(page: Page, text: str, indent: int, *, style: str = "") -> Iterator[str]:
    for line in page.wrap(text, indent=indent):
        yield " " * indent + page.paint(line, style)


def _field(page: Page, name: str, value: str, indent: int, *, width: int = 8) -> Iterator[str]:
    """A name, and a value that hangs beside it."""
    name = one_line(name).ljust(width)
    hang = indent + len(name) + 2
    lines = list(page.wrap(value, indent=hang)) or [""]
    yield f"{' ' * indent}{page.paint(name, 'faint')}  {lines[0]}".rstrip()
    for line in lines[1:]:
        yield (" " * hang + line).rstrip()
