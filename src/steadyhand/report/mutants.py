"""What a suite noticed of answers that were made bad on purpose, for the terminal."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from steadyhand.records.base import counted
from steadyhand.records.mutation import MutantResult, MutationReport, ScenarioMutants
from steadyhand.report.table import Cell, Page, one_line, render_table

_SCENARIOS = ("scenario", "killed", "survived", "equivalent", "needs a judge", "not applicable", "share")
_CHECKS = ("scenario", "check", "killed", "survived", "not applicable")
_PIECE = re.compile(r"\s+|\d+[.,]\d+|\w+|[^\w\s]")
_MOST_SHOWN = 40


def render_mutants(report: MutationReport, page: Page, *, checks: bool = False) -> Iterator[str]:
    """A table by scenario, with `checks` one by check, then the survivors, worst first, and the share killed."""
    yield from render_table(_SCENARIOS, [_row(each) for each in report.scenarios], page, giving_way=0)
    if checks:
        rows = [
            tuple(Cell(text=text) for text in (one_line(each.id), one_line(check.name), *map(str, numbers)))
            for each in report.scenarios
            for check in each.checks
            for numbers in [(check.killed, check.survived, check.not_applicable)]
        ]
        yield ""
        yield from render_table(_CHECKS, rows, page, giving_way=1)
    survivors = [
        (each.id, mutant) for each in report.scenarios for mutant in each.mutants if mutant.status == "survived"
    ]
    survivors.sort(key=lambda found: -(found[1].severity or 0.0))
    for scenario, mutant in survivors[:_MOST_SHOWN]:
        yield ""
        severity = "" if mutant.severity is None else f", severity {mutant.severity:g}"
        title = f"survived: {one_line(scenario)}, {mutant.operator} ({mutant.origin}{severity}, hash {mutant.hash})"
        yield page.paint(title, "failed")
        yield from (f"  {line}" for line in page.wrap(marked(mutant), indent=2, most=8))
    if len(survivors) > _MOST_SHOWN:
        yield f"and {len(survivors) - _MOST_SHOWN} more survivors; --json has all of them"
    yield ""
    yield from _summary(report)


def marked(mutant: MutantResult) -> str:
    """The text with what was added as {+this+} and what was removed as [-this-]."""
    before, after = _PIECE.findall(mutant.original), _PIECE.findall(mutant.text)
    compared = difflib.SequenceMatcher(None, before, after, autojunk=False)
    if compared.ratio() < 0.3:
        return mutant.text  # another text altogether, or a description of what was done
    parts: list[str] = []
    for kind, start, end, first, last in compared.get_opcodes():
        gone, new = "".join(before[start:end]), "".join(after[first:last])
        if kind == "equal":
            parts.append(new)
            continue
        parts.append((f"[-{gone}-]" if gone.strip() else "") + (f"{{+{new}+}}" if new.strip() else new))
    return "".join(parts)


def _row(found: ScenarioMutants) -> tuple[Cell, ...]:
    if not found.originals:
        return tuple(Cell(text=text) for text in (one_line(found.id), *[""] * 5, "no good answer"))
    share = "-" if found.share is None else f"{100 * found.share:.0f}%"
    numbers = (found.killed, found.survived, found.equivalent, found.needs_judge, found.not_applicable)
    return tuple(Cell(text=text) for text in (one_line(found.id), *map(str, numbers), share))


def _summary(report: MutationReport) -> Iterator[str]:
    killed = sum(each.killed for each in report.scenarios)
    tried = killed + sum(each.survived for each in report.scenarios)
    left = sum(each.needs_judge for each in report.scenarios)
    equivalent = sum(each.equivalent for each in report.scenarios)
    share = "" if report.killed is None else f" ({100 * report.killed:.1f}%)"
    beside = [f"{equivalent} equivalent"] if equivalent else []
    beside += [f"{left} need a judge, which --judge asks"] if left else []
    yield f"{killed} of {counted(tried, 'mutant')} killed{share}" + (f"; {', '.join(beside)}" if beside else "")
    unstored = sum(each.not_applicable for each in report.scenarios)
    if unstored:
        yield f"{unstored} not applicable: only checks on files, commands or a database could notice"
    without = [one_line(each.id) for each in report.scenarios if not each.originals]
    if without:
        yield f"no good answer on which a check holds: {', '.join(without)}; add `examples`, or mutate a run"
    for entry in report.unused:
        yield f"mutants.yaml: no mutant is {one_line(entry)}; remove the entry"
    for name in dict.fromkeys(report.unsigned):
        yield f"mutants.yaml: {report.unsigned.count(name)} of {one_line(name)} not signed, and not tried"
