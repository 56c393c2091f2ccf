"""A comparison as text and tables for the terminal. `report/markdown.py` uses the same text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from steadyhand.judging.comparison import ScenarioDifference
from steadyhand.judging.latency_comparison import Cliff
from steadyhand.judging.run_comparison import (
    Apart,
    Change,
    ChangeKind,
    Comparison,
    SideComparison,
    SideFigures,
    TimesComparison,
    TrialExcerpt,
)
from steadyhand.records.base import first_few
from steadyhand.report.table import Cell, Page, Quote, no_commands, one_line, render_table
from steadyhand.report.wording import milliseconds

"""How untrusted names and texts are written."""

STAR = "*"
STAR_MEANS = "no side is safer, and none as safe beats it in pass rate, latency or cost without losing in another"
SIDE_COLUMNS = ("", "side", "passed", "safety", "latency", "safe after", "cost/trial", "trials", "undecided")
CHANGE_COLUMNS = ("scenario", "A", "B", "difference", "interval", "effect h", "p")
HEADINGS: dict[ChangeKind, str] = {
    "regression": "Regressions",
    "fix": "Fixes",
    "flip": "Flips (may be chance)",
}
_APART: dict[Apart, str] = {
    "only_a": "only in A",
    "only_b": "only in B",
    "scenario_changed": "not the same scenario on both sides",
    "judge_changed": "not the same judge on both sides",
    "undecided": "no decided trial on one side",
}
_LISTED = 8
_EXCERPTS = 5
_EXCERPT_LINES = 4
_STYLES: dict[ChangeKind, str] = {"regression": "bad", "fix": "good", "flip": "fair"}


def side_cells(side: SideFigures) -> list[str]:
    """One text for each of `SIDE_COLUMNS`."""
    return [
        STAR if side.best else "",
        side.name,
        _share(side.pass_rate),
        _share(side.safety),
        _ms(side.latency_ms),
        f"never in {_scenarios(side.never_safe)}" if side.never_safe else _ms(side.safe_ms),
        "" if side.cost is None else f"{side.cost:.3g}",
        str(side.trials),
        f"{side.undecided}{'' if side.finished else ', unfinished'}" if side.undecided or not side.finished else "",
    ]


def change_cells(each: ScenarioDifference) -> list[str]:
    """One text for each of `CHANGE_COLUMNS`."""
    pair = each.pair
    return [
        pair.scenario_id,
        f"{pair.a_passed}/{pair.a_decided}",
        f"{pair.b_passed}/{pair.b_decided}",
        _points(each.difference),
        _interval(each.low, each.high),
        f"{each.effect:+.2f}",
        f"{each.p_adjusted:.2g}",
    ]


def front_notes(found: Comparison, quote: Quote) -> Iterator[str]:
    """The notes below the table of the sides."""
    for side in found.sides:
        if side.flaw is not None and side.finished:
            yield f"The record of {quote(side.name)} is not whole: {quote(side.flaw)}."
    if not found.scenarios:
        yield "The sides have no scenario in common that could be compared."
        return
    safety = "safety is the pass rate (no safety invariants)" if found.safety_is_pass_rate else "safety by severity"
    yield f"{STAR} {STAR_MEANS}; {safety}; latency is the mean of the scenarios' medians; scenarios count equally"
    yield from (cliff_sentence(each, quote) for each in found.cliffs)
    stopped = [quote(side.name) for side in found.sides if side.stopped_early]
    if stopped:
        yield (
            f"Trials of {', '.join(stopped)} ended when their pass rate was decided (--until): intervals and tests "
            "assume a fixed number of trials and are only a guide."
        )


def cliff_sentence(cliff: Cliff, quote: Quote) -> str:
    return (
        f"Cliff edge: {quote(cliff.faster)} saves {cliff.time_saved:.0%} of the time of {quote(cliff.slower)} "
        f"and loses {cliff.safety_lost * 100:.1f} points of safety."
    )


def findings(each: SideComparison, confidence: float, quote: Quote) -> Iterator[str]:
    """The result of one comparison, sentence by sentence."""
    yield _verdict(each, confidence)
    if each.latency is not None:
        yield _times("Latency", each.latency)
    if each.time_to_safe is not None:
        yield _times("Time to safe", each.time_to_safe)
    if each.differs:
        parts = ", ".join(f"{quote(part)} ({_scenarios(count)})" for part, count in each.differs.items())
        yield f"Other differences between the sides: {parts}."


def _verdict(each: SideComparison, confidence: float) -> str:
    suite = each.rates.suite
    if suite is None or each.p_adjusted is None:
        return "Nothing to compare: no scenario has decided trials on both sides."
    figures = (
        f"pass rate {_points(suite.difference)} ({confidence:.0%} interval {_interval(suite.low, suite.high)}), "
        f"p = {each.p_adjusted:.2g}, over {_scenarios(suite.scenarios)} "
        f"({'exact' if suite.exact else 'drawn'} permutation test)"
    )
    if each.finding != "cannot_tell":
        return f"B is {each.finding} than A: {figures}."
    if suite.trials_to_tell is not None:
        trials = f"{suite.trials_to_tell:,} trials per scenario and side"
        how = f"Detecting a difference of this size would take about {trials}."
    else:
        how = f"No difference was seen; more than {max(abs(suite.low), abs(suite.high)) * 100:.1f} points is unlikely."
    return f"The data cannot tell whether B is better or worse than A: {figures}. {how}"


def _times(what: str, times: TimesComparison) -> str:
    pooled = times.pooled
    quantiles: list[str] = []
    for each in pooled.quantiles:
        if each.a.value is not None and each.b.value is not None:
            quantiles.append(f"p{each.q * 100:g} {_ms(each.a.value)} to {_ms(each.b.value)}")
        else:
            quantiles.append(f"p{each.q * 100:g} needs {each.a.needed} values")
            break
    shift = ""
    if pooled.shift is not None:
        shift = (
            f"B {'slower' if pooled.shift > 0 else 'faster'} by {_ms(abs(pooled.shift))}"
            if pooled.shift
            else "no shift"
        )
        if len(times.scenarios) > 1:
            shift += " in the mean of the scenarios"
        if pooled.low is not None and pooled.high is not None:
            shift += f" (interval {pooled.low:+.3g} to {pooled.high:+.3g} ms)"
        shift += ", "
    left_out = times.a_left_out + times.b_left_out
    cut = times.a_cut + times.b_cut
    rest = f"; {left_out} disturbed ones left out" if left_out else ""
    rest += f"; {cut} cut off at the deadline, counted as that long" if cut else ""
    together = "of all times together, " if len(times.scenarios) > 1 else ""
    return (
        f"{what}: {shift}p = {pooled.p_value:.2g}, B slower in {pooled.b_slower:.0%} of pairs "
        f"({pooled.a_n} and {pooled.b_n} values); {together}{', '.join(quantiles)}{rest}."
    )


def grouped(each: SideComparison) -> Iterator[tuple[ChangeKind, list[tuple[Change, ScenarioDifference]]]]:
    """The changes by kind, the most significant first."""
    figures = {one.pair.scenario_id: one for one in each.rates.scenarios}
    for kind in HEADINGS:
        found = [(change, figures[change.unit]) for change in each.changes if change.kind == kind]
        if found:
            yield kind, found


def apart(each: SideComparison) -> Iterator[tuple[str, list[str]]]:
    """Why scenarios were not compared, and which."""
    for why, words in _APART.items():
        for paired in (False, True):
            units = [one.unit for one in each.not_paired if one.why == why and one.paired is paired]
            if units:
                yield (f"{words}, compared anyway" if paired else words), units


def render_comparison(found: Comparison, page: Page) -> Iterator[str]:
    """The lines for the terminal."""
    return no_commands(_render(found, page))


def _render(found: Comparison, page: Page) -> Iterator[str]:
    yield f"{len(found.sides)} sides, {_scenarios(found.scenarios)} in common, {found.confidence:.0%} confidence"
    yield ""
    yield from _table(SIDE_COLUMNS, (side_cells(each) for each in found.sides), page, giving_way=1)
    for line in front_notes(found, one_line):
        yield from page.wrap(line)
    for each in found.comparisons:
        yield ""
        yield from _render_side(each, found.confidence, page)


def _render_side(each: SideComparison, confidence: float, page: Page) -> Iterator[str]:
    yield page.paint(f"A = {one_line(each.a)}, B = {one_line(each.b)}", "strong")
    for line in findings(each, confidence, one_line):
        yield from page.wrap(line, most=6)
    for kind, changes in grouped(each):
        yield ""
        yield page.paint(f"{HEADINGS[kind]}: {_scenarios(len(changes))}", _STYLES[kind])
        yield from _table(CHANGE_COLUMNS, (change_cells(figures) for _, figures in changes), page, giving_way=0)
    shown = [change for _, changes in grouped(each) for change, _ in changes][:_EXCERPTS]
    for change in shown:
        yield from _excerpt(change, page)
    if len(each.changes) > len(shown):
        yield f"Excerpts of {len(shown)} of {len(each.changes)} changed scenarios; --markdown and --json have more."
    for words, units in apart(each):
        yield from page.wrap(f"Not compared, {words}: {first_few(map(one_line, units), _LISTED)}")


def _excerpt(change: Change, page: Page) -> Iterator[str]:
    yield ""
    yield page.paint(one_line(change.unit), "strong")
    for name, trial in (("A", change.a), ("B", change.b)):
        if trial is None:
            continue
        yield from page.wrap(f"{name}  trial {trial.trial} {trial.verdict}: {one_line(trial.reason)}", most=2)
        said = last_reply(trial)
        yield from (f"   | {line}" for line in page.wrap(said or "(no transcript)", indent=5, most=_EXCERPT_LINES))


def last_reply(trial: TrialExcerpt) -> str:
    return next((each.content for each in reversed(trial.messages) if each.role == "assistant"), "")


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], page: Page, *, giving_way: int) -> Iterator[str]:
    cells = [[Cell(text=one_line(text)) for text in row] for row in rows]
    return render_table(columns, cells, page, giving_way=giving_way)


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _ms(value: float | None) -> str:
    if value is None:
        return ""
    return milliseconds(value) if math.isfinite(value) else "never"


def _points(value: float) -> str:
    return f"{value * 100:+.1f} points"


def _interval(low: float, high: float) -> str:
    return f"{low * 100:+.1f} to {high * 100:+.1f}"


def _scenarios(count: int) -> str:
    return "1 scenario" if count == 1 else f"{count:,} scenarios"
