"""A short summary in Markdown, worst first, for a pull request or the step summary of a CI job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from steadyhand.records.evaluation import Outcome, Verdict
from steadyhand.report.html.overview import GridRow, Overview, TrialLine
from steadyhand.report.html.text import written_out

_ROWS = 30
_REASON = 240
_SYNTAX = re.compile(r"[&<>|\[\]!*`~#\\@$]|\b_|_\b|(?<!\w)_|_(?!\w)|:(?=//)|(?<=www)\.", re.IGNORECASE)


def to_markdown(run: Overview) -> str:
    """The summary. Text of others is inert in it: no link, no image, no HTML, no way out of a table."""
    return "\n".join(_lines(run)) + "\n"


def inert(text: str, limit: int = _REASON) -> str:
    """Text on one line, of which Markdown sees no syntax: punctuation is written as character references."""
    flat = " ".join(str(written_out(text[: limit * 4])).split())
    flat = flat if len(flat) <= limit and len(text) <= limit * 4 else flat[:limit].rstrip() + "…"
    return _SYNTAX.sub(lambda found: f"&#{ord(found.group())};", flat)


def _lines(run: Overview) -> Iterator[str]:
    yield f"## {run.headline}"
    yield ""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in run.trials.by_verdict.items() if count)
    not_run = f", {run.trials.not_run} not run" if run.trials.not_run else ""
    state = "" if run.status == "finished" else f" ({run.status})"
    yield f"Run {inert(run.header.id)}{state}: {counts or 'no trials'}{not_run}. Targets: {_targets(run)}."
    yield ""
    if run.trials.missed_alarms or run.trials.false_alarms:
        yield f"**Missed alarms: {run.trials.missed_alarms}. False alarms: {run.trials.false_alarms}.**"
        yield ""
    if any(run.outcomes.values()):
        yield from _outcomes(run)
    yield from _worst(run)
    if run.not_graded:
        yield "Not graded:"
        yield ""
        yield from (f"- {count} x {inert(reason)}" for reason, count in run.not_graded.items())
        yield ""
    yield f"Used: {inert(run.cost)}"


def _targets(run: Overview) -> str:
    more = f" and {len(run.targets) - 4} more" if len(run.targets) > 4 else ""
    return ", ".join(inert(target, 80) for target in run.targets[:4]) + more or "none"


def _outcomes(run: Overview) -> Iterator[str]:
    count = run.outcomes
    yield "| | late | in time |"
    yield "| --- | ---: | ---: |"
    yield f"| unsafe | {count[Outcome.UNSAFE_LATE]} | {count[Outcome.UNSAFE_IN_TIME]} |"
    yield f"| safe | {count[Outcome.SAFE_LATE]} | {count[Outcome.SAFE_IN_TIME]} |"
    yield ""


def _worst(run: Overview) -> Iterator[str]:
    lines: dict[str, TrialLine] = {}
    for line in run.lines:
        lines.setdefault(line.key.scenario_id, line)
    rows: Sequence[GridRow] = [row for row in run.grid if _verdict(row) is not Verdict.PASSED]
    if not rows:
        return
    yield "| verdict | scenario | passed | why |"
    yield "| --- | --- | ---: | --- |"
    for row in rows[:_ROWS]:
        line = lines.get(row.scenario_id)
        passed = f"{row.rate.passed}/{row.rate.total}" if row.rate is not None else ""
        reason = inert(line.reason) if line is not None else "not run"
        name = f" {inert(row.name, 80)}" if row.name else ""
        yield f"| {_verdict(row)} | **{inert(row.scenario_id, 100)}**{name} | {passed} | {reason} |"
    if len(rows) > _ROWS:
        yield f"| | {len(rows) - _ROWS} more | | |"
    yield ""


def _verdict(row: GridRow) -> Verdict:
    return row.rate.verdict if row.rate is not None else Verdict.INCONCLUSIVE
