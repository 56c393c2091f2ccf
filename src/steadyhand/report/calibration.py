"""A judge's results on labelled cases, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from steadyhand.judging.agreement import shortfall
from steadyhand.records.calibration import Agreement, Calibration, JudgedCase, Rate
from steadyhand.records.config import CalibrationConfig
from steadyhand.records.run import CanaryTally
from steadyhand.report.table import Cell, Page, one_line, render_table

_COLUMNS = ("", "cases", "no judgement", "accuracy", "kappa", "false pass", "false fail")
_SHOWN = 10


def render_calibration(found: Calibration, bars: CalibrationConfig, page: Page) -> Iterator[str]:
    """Tables by check and class, the disagreements, and whether the judge meets the thresholds."""
    yield f"judge {one_line(found.judge)} against {one_line(found.labels)}"
    rows = [_row("all", found.overall)]
    rows += [_row(f"class {kind}", figures) for kind, figures in found.classes.items()]
    rows += [_row(f"{check.scenario}: {check.name}", check.figures) for check in found.checks]
    yield from render_table(_COLUMNS, rows, page, giving_way=0)
    yield from _listed("disagrees", [_case(case) for case in found.disagreements])
    yield from _listed("left out", found.skipped)
    short = shortfall(found.overall, bars)
    yield "it meets the bar set in [calibration]" if short is None else f"it is below the bar: {short}"


def render_canaries(tally: CanaryTally) -> Iterator[str]:
    """The hit rate and the misses."""
    asked = len(tally.cases)
    share = f" ({100 * tally.hits / asked:.0f}%)" if asked else ""
    wrong = f", {tally.false_passes} passed that should fail" if tally.false_passes else ""
    yield f"judge canaries: {tally.hits} of {asked} right{share}{wrong}; they do not affect any verdict"
    yield from _listed("missed", [_case(case) for case in tally.cases if not case.hit])
    yield from _listed("left out", tally.skipped)


def _row(name: str, found: Agreement) -> tuple[Cell, ...]:
    kappa = "-" if found.kappa is None else f"{found.kappa:.2f}"
    if found.kappa_low is not None and found.kappa_high is not None:
        kappa += f" ({found.kappa_low:.2f}..{found.kappa_high:.2f})"
    texts = (
        one_line(name),
        str(found.cases),
        str(found.no_judgement) if found.no_judgement else "",
        _rate(found.accuracy),
        kappa,
        _rate(found.false_pass),
        _rate(found.false_fail),
    )
    return tuple(Cell(text=text) for text in texts)


def _rate(rate: Rate) -> str:
    if rate.rate is None or rate.low is None or rate.high is None:
        return "-"
    return f"{rate.count}/{rate.of} ({rate.low:.2f}..{rate.high:.2f})"


def _case(case: JudgedCase) -> str:
    said = case.judged or "no judgement"
    return f"{case.scenario}#{case.trial} {case.check}: labelled {case.label}, judged {said}: {case.message}"


def _listed(title: str, lines: list[str] | tuple[str, ...]) -> Iterator[str]:
    for line in lines[:_SHOWN]:
        yield f"  {title}: {one_line(line)}"
    if len(lines) > _SHOWN:
        yield f"  {title}: {len(lines) - _SHOWN} more"
