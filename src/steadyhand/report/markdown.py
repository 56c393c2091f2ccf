"""A comparison and a gate result as Markdown. Untrusted text is formatted as code, so that it cannot be a link or
HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from steadyhand.judging.gate import GateResult
from steadyhand.judging.run_comparison import Change, Comparison, SideComparison, TrialExcerpt
from steadyhand.records.base import first_few
from steadyhand.report.comparison import (
    CHANGE_COLUMNS,
    HEADINGS,
    SIDE_COLUMNS,
    apart,
    change_cells,
    findings,
    front_notes,
    grouped,
    side_cells,
)
from steadyhand.report.gate import conclusion, doubt_sentences, statistics_sentences, violation_groups
from steadyhand.report.table import one_line, visible

_RUNS = re.compile("`+")
_LISTED = 100


def code(text: str) -> str:
    """Untrusted text as a code span that is also safe in a table."""
    inner = one_line(text)
    if not inner:
        return ""
    mark = "`" * (max((len(run) for run in _RUNS.findall(inner)), default=0) + 1)
    pad = " " if inner.startswith("`") or inner.endswith("`") else ""
    return f"{mark}{pad}{inner}{pad}{mark}".replace("|", "\\|")


def fenced(text: str) -> Iterator[str]:
    """Untrusted text as a code block."""
    inner = visible(text)
    mark = "`" * max(max((len(run) for run in _RUNS.findall(inner)), default=0) + 1, 3)
    yield f"{mark}text"
    yield inner
    yield mark


def comparison_markdown(found: Comparison) -> Iterator[str]:
    """The lines of the whole comparison."""
    yield "# Comparison"
    yield ""
    yield from table(SIDE_COLUMNS, ([row[0], code(row[1]), *row[2:]] for row in map(side_cells, found.sides)))
    yield ""
    for note in front_notes(found, code):
        yield note.replace("* ", "\\* ", 1) if note.startswith("* ") else note
        yield ""
    for each in found.comparisons:
        yield from _side(each, found.confidence)


def _side(each: SideComparison, confidence: float) -> Iterator[str]:
    yield f"## {code(each.b)} against {code(each.a)}"
    yield ""
    yield f"A is {code(each.a)}, B is {code(each.b)}."
    yield ""
    for sentence in findings(each, confidence, code):
        yield f"- {sentence}"
    yield ""
    for kind, changes in grouped(each):
        yield f"### {HEADINGS[kind]}"
        yield ""
        rows = (change_cells(figures) for _, figures in changes)
        yield from table(CHANGE_COLUMNS, ([code(row[0]), *row[1:]] for row in rows))
        yield ""
        for change, _ in changes:
            yield from _transcripts(change)
    for words, units in apart(each):
        yield f"Scenarios not compared, {words}: {first_few(map(code, units), _LISTED)}"
        yield ""


def _transcripts(change: Change) -> Iterator[str]:
    sides = [(name, each) for name, each in (("A", change.a), ("B", change.b)) if each is not None and each.messages]
    if not sides:
        return
    yield "<details>"
    yield f"<summary>Transcripts of {_escaped(one_line(change.unit))}</summary>"
    yield ""
    for name, each in sides:
        yield f"**{name}**, trial {each.trial}, {each.verdict}: {code(each.reason)}"
        yield ""
        yield from fenced(_talk(each))
        yield ""
    yield "</details>"
    yield ""


def _talk(trial: TrialExcerpt) -> str:
    lines = [f"({trial.left_out} earlier messages left out)"] if trial.left_out else []
    for each in trial.messages:
        rest = f" (and {each.cut} more characters)" if each.cut else ""
        lines.append(f"{each.role}: {each.content}{rest}")
    return "\n".join(lines)


def _escaped(text: str) -> str:
    """For HTML. Inside a `summary` Markdown may still be read, so its marks are written as entities too."""
    return re.sub(r"[^\w .,/-]", lambda found: f"&#{ord(found.group())};", text)


def gate_markdown(result: GateResult) -> Iterator[str]:
    """The lines of a step summary."""
    yield f"# Gate: {conclusion(result)}"
    yield ""
    yield f"Run {code(result.run)} against baseline {code(result.baseline)}."
    yield ""
    for rule, words, violations in violation_groups(result):
        yield f"## {rule}: {words}"
        yield ""
        for each in violations[:_LISTED]:
            yield f"- {' '.join(filter(None, (code(each.unit), code(each.detail)))) or 'the run as a whole'}"
        if len(violations) > _LISTED:
            yield f"- and {len(violations) - _LISTED} more"
        yield ""
    for sentence in (*doubt_sentences(result, code), *statistics_sentences(result, code)):
        yield f"- {sentence}"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{' --- |' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
