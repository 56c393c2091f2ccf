"""Why a trial did not pass: its checks with their evidence, what was said, and where that stands in the file."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.judging.wording import label
from holdfast.records.evaluation import EvaluationResult
from holdfast.records.history import transcript_of
from holdfast.records.run import TrialRecord
from holdfast.records.verdict import Verdict
from holdfast.report.page import Page, clip, one_line, visible
from holdfast.report.wording import scenario_label

_MESSAGES = 4
_CHECKS = 10
_INDENT = 2


def render_details(trial: TrialRecord, page: Page, *, numbered: bool = False) -> Iterator[str]:
    """The lines about one trial, the first being its heading."""
    verdict = trial.judged.verdict
    heading = clip(visible(scenario_label(trial, numbered=numbered)), page.width - len(verdict) - 2)
    yield f"{page.paint(verdict.upper(), verdict)}  {page.paint(heading, 'strong')}"
    yield from _indented(page, str(trial.place), _INDENT, style="faint")
    yield from _indented(page, trial.judged.reason, _INDENT)
    for phase in trial.phases:
        if phase.error and phase.error not in trial.judged.reason:
            yield from _field(page, f"in {phase.name}", phase.error, _INDENT)
    if trial.judged.failure_classes:
        yield from _field(page, "classes", ", ".join(trial.judged.failure_classes), _INDENT)
    if trial.judged.latency_spoiled:
        yield from _field(page, "latency not graded", "; ".join(trial.judged.latency_spoiled), _INDENT)
    open_checks = [check for check in trial.evaluations if check.verdict is not Verdict.PASSED]
    for check in open_checks[:_CHECKS]:
        yield from _check(check, page)
    if len(open_checks) > _CHECKS:
        yield f"  and {len(open_checks) - _CHECKS} more checks that did not pass"
    yield from _transcript(trial, page)


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


def _transcript(trial: TrialRecord, page: Page) -> Iterator[str]:
    said = transcript_of(trial.events)
    if not said:
        return
    yield "  transcript" + (f" (the last {_MESSAGES} of {len(said)} messages)" if len(said) > _MESSAGES else "")
    for event in said[-_MESSAGES:]:
        yield from _field(page, event.message.role, event.message.content or "(no text)", _INDENT * 2, width=9)


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
