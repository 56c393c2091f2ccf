"""What the variants of a run show: what must not change the decision, what must, and the pairs that differ."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

import msgspec

from steadyhand.judging.invariance import InvarianceFinding, SensitivityFinding, VariantFindings
from steadyhand.reading.run import Reading
from steadyhand.records.base import Record
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import TrialKey, TrialRecord, exported_transcript
from steadyhand.report.table import Cell, Page, cells, one_line, render_table

SAME = "What must not change the decision"
CHANGES = "What must change the decision"
SAME_COLUMNS = (
    "finding",
    "variant",
    "target",
    "pairs",
    "difference",
    "interval",
    "margin",
    "pairs that differ",
    "unchanged",
    "would tell",
)
CHANGES_COLUMNS = ("finding", "variant", "target", "followed", "95% interval")
_ANSWERS = {
    "invariant": ("invariant", Verdict.PASSED),
    "not_invariant": ("not invariant", Verdict.FAILED),
    "followed": ("followed", Verdict.PASSED),
    "not_followed": ("not followed", Verdict.FAILED),
    "cannot_tell": ("cannot tell", Verdict.INCONCLUSIVE),
}
_PAIRS = 3
_MOST_PAIRS = 12
_LINES = 6


class FindingRow(NamedTuple):
    """A finding as a row of a table, and the verdict that it is shown as."""

    style: Verdict
    cells: tuple[str, ...]


class ShownTrial(Record):
    """`asked` is what the user said last, `reply` the agent's last message."""

    key: TrialKey
    verdict: Verdict
    reason: str
    asked: str
    reply: str


class ShownPair(Record):
    """Two trials that differ, side by side."""

    variant: str
    original: ShownTrial
    varied: ShownTrial


class VariantTable(NamedTuple):
    title: str
    columns: tuple[str, ...]
    rows: list[FindingRow]


def tables(found: VariantFindings) -> list[VariantTable]:
    """Invariance and sensitivity, without those that there are no variants of."""
    several = len({each.target for each in (*found.same, *found.changes)}) > 1
    same = [_same_row(each, several=several) for each in found.same]
    changes = [_changes_row(each, several=several) for each in found.changes]
    both = (VariantTable(SAME, SAME_COLUMNS, same), VariantTable(CHANGES, CHANGES_COLUMNS, changes))
    return [_without_empty(each) for each in both if each.rows]


def _without_empty(table: VariantTable) -> VariantTable:
    kept = [at for at in range(len(table.columns)) if any(row.cells[at] for row in table.rows)]
    rows = [FindingRow(row.style, tuple(row.cells[at] for at in kept)) for row in table.rows]
    return VariantTable(table.title, tuple(table.columns[at] for at in kept), rows)


def _same_row(found: InvarianceFinding, *, several: bool) -> FindingRow:
    answer, style = _ANSWERS[found.answer]
    low, high = found.interval or (0.0, 0.0)
    interval = f"{_points(low)} to {_points(high)} ({100 * found.confidence:.4g}%)" if found.interval else ""
    needed = f"{found.trials_needed} trials" if found.trials_needed is not None else ""
    return FindingRow(
        style,
        (
            answer,
            found.name,
            found.target if several else "",
            f"{found.pairs}" + (f" + {found.missing} missing" if found.missing else ""),
            "" if found.difference is None else _points(found.difference),
            interval,
            f"{100 * found.margin:g}",
            _percent(found.flipped),
            _percent(found.floor),
            needed,
        ),
    )


def _changes_row(found: SensitivityFinding, *, several: bool) -> FindingRow:
    answer, style = _ANSWERS[found.answer]
    interval = "" if found.interval is None else f"{_percent(found.interval[0])} to {_percent(found.interval[1])}"
    told = f"{found.followed} of {found.chances}"
    return FindingRow(style, (answer, found.name, found.target if several else "", told, interval))


def _is_shown(answer: str) -> Verdict:
    return _ANSWERS[answer][1]


def _points(difference: float) -> str:
    return f"{100 * difference:+.1f}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f}%"


def pairs_to_show(reading: Reading) -> list[ShownPair]:
    """Pairs that differ where they should not, and pairs in which the decision did not follow; the worst first."""
    findings = (*reading.variants.same, *reading.variants.changes)
    found: list[ShownPair] = []
    for finding in sorted(findings, key=lambda each: _is_shown(each.answer) is not Verdict.FAILED):
        most = _PAIRS if _is_shown(finding.answer) is Verdict.FAILED else 1
        keys = [
            (at, TrialKey(scenario_id=pairs.scenario, index=number), TrialKey(scenario_id=pairs.variant, index=number))
            for pairs in finding.scenarios
            for at, number in enumerate(pairs.differing)
            if isinstance(finding, InvarianceFinding) or at < pairs.lost
        ]
        for _, original, varied in sorted(keys, key=lambda each: each[0])[:most]:  # one of each scenario first
            one, other = _shown_trial(reading.trial(original)), _shown_trial(reading.trial(varied))
            if one is not None and other is not None and len(found) < _MOST_PAIRS:
                found.append(ShownPair(variant=finding.name, original=one, varied=other))
    return found


def _shown_trial(trial: TrialRecord | None) -> ShownTrial | None:
    if trial is None:
        return None
    said = exported_transcript(trial)
    last = {each.message.role: each.message.content for each in said}
    return ShownTrial(
        key=trial.key,
        verdict=trial.judged.verdict,
        reason=trial.judged.reason,
        asked=last.get("user", ""),
        reply=last.get("assistant", ""),
    )


def render_variants(reading: Reading, page: Page, *, quiet: bool = False) -> Iterator[str]:
    """Two tables, then the pairs unless `quiet`."""
    found = reading.variants
    for title, columns, rows in tables(found):
        yield ""
        yield page.paint(title, "strong")
        shown = [
            (Cell(text=row.cells[0], style=row.style), *(Cell(text=one_line(text)) for text in row.cells[1:]))
            for row in rows
        ]
        optional = [columns.index(each) for each in ("margin", "unchanged", "pairs that differ") if each in columns]
        yield from render_table(columns, shown, page, giving_way=1, optional=optional)
    if quiet:
        return
    for pair in pairs_to_show(reading):
        yield ""
        yield from _side_by_side(pair, page)


def _side_by_side(pair: ShownPair, page: Page) -> Iterator[str]:
    width = (page.width - 3) // 2
    half = msgspec.structs.replace(page, width=width)
    one, other = pair.original, pair.varied
    for left, right in (
        (f"{one_line(str(one.key))} {one.verdict}", f"{one_line(str(other.key))} {other.verdict}"),
        (f"user: {one.asked.strip()}", f"user: {other.asked.strip()}"),
        (f"agent: {one.reply.strip()}", f"agent: {other.reply.strip()}"),
    ):
        for mine, theirs in zip_longest(half.wrap(left, most=_LINES), half.wrap(right, most=_LINES), fillvalue=""):
            yield f"{mine}{' ' * max(width - cells(mine), 0)} | {theirs}".rstrip()
