"""The figures of a run on the terminal: pass rates, times and their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator

from steadyhand.judging.figures import CLUSTERED, Figures, RunFigures, TimeFigures
from steadyhand.judging.statistics import trials_for_bound
from steadyhand.records.base import counted
from steadyhand.records.evaluation import Verdict
from steadyhand.report.table import Cell, Page, one_line, render_table
from steadyhand.report.wording import milliseconds

FIGURE_COLUMNS = ("failure rate", "latency p50", "safe p50")
_TARGET_COLUMNS = (
    "target",
    "scenarios",
    "passed",
    "pass rate",
    "95% interval",
    "pass^k",
    "left out",
    "latency p50",
    "safe p50",
    "safety",
)
_SMALL_RATE = 0.05
_LEFT_OUT_FIRST = (8, 7, 9, 5)


def render_figures(figures: RunFigures, page: Page) -> Iterator[str]:
    """A line for each figure of the suite, or, with several targets, a line for each of them."""
    if figures.suite is None:
        rows = [_target_row(each) for each in figures.targets]
        yield from render_table(_TARGET_COLUMNS, rows, page, giving_way=0, optional=_LEFT_OUT_FIRST)
        return
    for line in _lines(figures.suite):
        yield from page.wrap(line, indent=0)


def figure_cells(figures: Figures) -> tuple[Cell, ...]:
    """A cell for each of `FIGURE_COLUMNS`."""
    bound = figures.failure_bound
    several = figures.trials.total > 1
    return (
        Cell(text=f"at most {_at_most(bound)}" if bound is not None and several else ""),
        Cell(text=_median(figures.latency)),
        Cell(text=_median(figures.time_to_safe)),
    )


def _lines(suite: Figures) -> Iterator[str]:
    times = {"latency": suite.latency, "time to safe": suite.time_to_safe}
    measured = {name: each for name, each in times.items() if each.percentiles}
    # Where times were disturbed, more trials may not be what is missing.
    if measured and all(each.percentiles[0].value is None and not each.left_out for each in measured.values()):
        yield "; ".join(_of_few(suite, min(each.percentiles[0].needed for each in measured.values())))
        return
    yield from _rates(suite)
    if suite.failure_bound is not None:
        yield f"no failures: the failure rate is at most {_at_most(suite.failure_bound)}, with 95% confidence"
    for name, each in measured.items():
        yield f"{name}: {_percentiles(each, _noun(suite))}"
    if suite.safety is not None:
        yield _safety(suite.safety)


def _of_few(suite: Figures, needed: int) -> Iterator[str]:
    """All that can be said of trials too few for any time, and how many would say more."""
    yield from _rates(suite)
    if suite.safety is not None:
        yield _safety(suite.safety)
    noun = _noun(suite)
    bound = suite.failure_bound
    more = f"a median time takes {needed} {noun}s"
    if bound is not None:
        few = trials_for_bound(_SMALL_RATE, suite.confidence)
        more += f", and a failure rate of at most {share(_SMALL_RATE)} takes {few} without a failure"
    yield f"too few {noun}s to say more: {more}"


def _noun(suite: Figures) -> str:
    return "scenario" if suite.method == CLUSTERED else "trial"


def _safety(safety: float) -> str:
    return f"safety: {_two_digits(safety)}, weighted by severity"


def _rates(suite: Figures) -> Iterator[str]:
    over = counted(suite.trials.decided, "trial")
    if suite.method == CLUSTERED:
        over = f"{counted(suite.scenarios, 'scenario')}, {over}"
    left_out = _left_out(suite)
    beside = f"; left out: {left_out}" if left_out else ""
    if suite.rate is not None and suite.method == CLUSTERED:  # one scenario has its own line
        yield f"pass rate: {share(suite.rate)}{_interval(suite)} over {over}{beside}"
    elif suite.rate is None and beside:
        yield f"pass rate: no trial passed or failed{beside}"
    k = max(suite.pass_hat_k, default=1)
    if k > 1:
        yield f"pass@{k}: {share(suite.pass_at_k[k])}; pass^{k}: {share(suite.pass_hat_k[k])}"


def _target_row(figures: Figures) -> tuple[Cell, ...]:
    k = max(figures.pass_hat_k, default=1)
    return (
        Cell(text=one_line(figures.name)),
        Cell(text=str(figures.scenarios)),
        Cell(text=f"{figures.trials.passed}/{figures.trials.total}"),
        Cell(text="" if figures.rate is None else share(figures.rate)),
        Cell(text=_interval(figures).strip(" ()")),
        Cell(text=f"k={k}: {share(figures.pass_hat_k[k])}" if k > 1 else ""),
        Cell(text=_left_out(figures)),
        Cell(text=_median(figures.latency)),
        Cell(text=_median(figures.time_to_safe)),
        Cell(text="" if figures.safety is None else _two_digits(figures.safety)),
    )


def _interval(figures: Figures) -> str:
    if figures.low is None or figures.high is None:
        return ""
    return f" ({share(figures.low)} to {share(figures.high)})"


def _left_out(figures: Figures) -> str:
    """Such as `2 inconclusive, 1 error`: trials that are excluded from estimates."""
    tally = figures.trials
    counts = {Verdict.INCONCLUSIVE: tally.inconclusive, Verdict.ERROR: tally.error, "not run": tally.not_run}
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def _percentiles(times: TimeFigures, noun: str) -> str:
    """Such as `p50 812 ms (790 ms to 870 ms); p95 needs 59 trials, there are 20`."""
    parts: list[str] = []
    refused: list[str] = []
    for each in times.percentiles:
        name = f"p{each.q * 100:g}"
        if each.value is None or each.low is None or each.high is None:
            refused.append(f"{name} needs {each.needed}")
        else:
            parts.append(f"{name} {_time(each.value)} ({_time(each.low)} to {_time(each.high)})")
    if refused:
        there = times.percentiles[0].n
        # Without any, the smallest number needed is enough.
        listed = ", ".join(refused if parts else refused[:1])
        parts.append(f"{listed} {noun}s, there {'is' if there == 1 else 'are'} {there}")
    if times.left_out:
        parts.append(f"{counted(times.left_out, 'trial')} without a reliable time left out")
    return "; ".join(parts)


def _median(times: TimeFigures) -> str:
    found = next((each for each in times.percentiles if each.q == 0.5), None)
    if found is None:
        return ""
    return f"needs {found.needed}" if found.value is None else _time(found.value)


def _time(ms: float) -> str:
    return milliseconds(ms) if math.isfinite(ms) else "never"


def share(value: float) -> str:
    """Rounded, but 100% and 0% are shown only if exact."""
    text = f"{value:.0%}"
    if (text == "100%" and value < 1) or (text == "0%" and value > 0):
        return f"{min(max(value * 100, 0.01), 99.99):.2f}%"
    return text


def _at_most(bound: float) -> str:
    """Rounded up."""
    return f"{math.ceil(bound * 1000 - 1e-9) / 10:g}%"


def _two_digits(value: float) -> str:
    """Never rounded up to 1."""
    return f"{math.floor(value * 100) / 100:.2f}"
