"""The report as one self-contained file: the overview, then as many trials as fit, worst first."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from markupsafe import Markup

from steadyhand.judging.statistics import percentile
from steadyhand.reading.run import Reading
from steadyhand.records.base import Record, counted
from steadyhand.records.evaluation import LatencyBounds, Verdict
from steadyhand.report.faults import COLUMNS, TITLE, fault_rows
from steadyhand.report.html.overview import Overview, TrialLine
from steadyhand.report.html.template import SCRIPTS, STYLES, asset, content_security_policy, fragment
from steadyhand.report.html.trial import trial_part, trial_view
from steadyhand.report.variants import pairs_to_show, tables
from steadyhand.report.wording import milliseconds
from steadyhand.version import __version__

ROOM = 620_000
"""The maximum size of the trials in a report; with scripts and overview it stays below a megabyte."""
_WORST = 12
_GRID_ROWS = 400
_OPEN = 1
_MOST_ROWS = 60
_MOST_POINTS = 500


def to_html(reading: Reading, *, room: int = ROOM) -> Iterator[bytes]:
    """The page in chunks. Trials that do not fit are counted at its end; they are in the run record."""
    found = Overview(reading)
    head = fragment(
        "page.html",
        run=found,
        policy=content_security_policy(),
        version=__version__,
        style=_trusted(*STYLES),
        overview=overview_part(found),
        latency=latency_rows(found.lines),
        body="",
    )
    yield _bytes(head)
    yield from _trials(found, room)
    scripts = [_trusted(name) for name in SCRIPTS]
    asked = reading.header.command
    command = shlex.join(("steadyhand", *asked)) if asked else ""
    yield _bytes(fragment("page_end.html", run=found, version=__version__, scripts=scripts, command=command))


def overview_part(run: Overview) -> Markup:
    """The overview as HTML: the headline, the outcomes, worst first, the grid and the latencies."""
    rows = latency_rows(run.lines)
    # One line for each scenario and target that did not pass: its worst trial, and how many more there are.
    found: dict[tuple[str, str], list[TrialLine]] = {}
    for line in run.lines:
        if line.verdict is not Verdict.PASSED:
            found.setdefault((line.scenario, line.target), []).append(line)
    worst = [(group[0], len(group) - 1) for group in found.values()]
    trials = counted(run.reading.summary.finished, "trial")
    return fragment(
        "overview.html",
        run=run,
        started=run.reading.header.started_at[:16].replace("T", " "),
        targets=f"{trials} {f'of {run.targets[0]}' if len(run.targets) == 1 else f'on {len(run.targets)} targets'}",
        several=len(run.targets) > 1,
        decided=sum(run.outcomes.values()),
        worst=worst[:_WORST],
        more_worst=max(len(worst) - _WORST, 0),
        rows=run.grid[:_GRID_ROWS],
        more_rows=max(len(run.grid) - _GRID_ROWS, 0),
        latency=rows,
        picture=latency_picture(rows),
        variant_tables=tables(run.reading.variants),
        variant_pairs=pairs_to_show(run.reading),
        faults=(TITLE, COLUMNS, fault_rows(run.reading)),
    )


def trial_card(line: TrialLine, content: Markup, *, numbered: bool, several: bool, is_open: bool = False) -> Markup:
    """A trial as an expandable line."""
    return fragment("trial_card.html", line=line, content=content, numbered=numbered, several=several, open=is_open)


def _trials(found: Overview, room: int) -> Iterator[bytes]:
    reading = found.reading
    counts: dict[str, int] = {}
    for line in found.lines:
        counts[line.key.scenario_id] = counts.get(line.key.scenario_id, 0) + 1
    yield b'<section id="trials" aria-labelledby="trials-h"><h2 id="trials-h">Trials, worst first</h2>\n'
    left_out = 0
    for position, line in enumerate(found.lines):
        trial = reading.trial(line.key) if not left_out else None
        if trial is None:
            left_out += 1
            continue
        content = trial_part(trial_view(trial, reading))
        card = _bytes(
            trial_card(
                line,
                content,
                numbered=counts[line.key.scenario_id] > 1,
                several=len(found.targets) > 1,
                is_open=position < _OPEN and line.verdict is not Verdict.PASSED,
            )
        )
        room -= len(card)
        if room < 0 and position:
            left_out += 1
            continue
        yield card
    if left_out:
        note = f"{left_out} more trials are in the run record only; to see one: steadyhand show {reading.header.id}"
        yield _bytes(Markup('<p class="note">{}</p>').format(note))
    yield b"</section>\n"


def _trusted(*assets: str) -> Markup:
    return Markup("\n").join(Markup(asset(name)) for name in assets)  # noqa: S704 - shipped with the package


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


class LatencyRow(Record):
    """The trials of a scenario on a target. `percentiles` are shown only if there are enough values."""

    name: str
    target: str
    budget: LatencyBounds
    points: tuple[tuple[float, str, str], ...]
    percentiles: str
    not_graded: int = 0
    worst_share: float = 0.0


def latency_rows(lines: Iterable[TrialLine]) -> list[LatencyRow]:
    """Those that used most of their critical time first. A latency that was not graded is counted, not drawn."""
    groups: dict[tuple[str, str], list[TrialLine]] = {}
    for each in lines:
        if each.budget is not None:
            groups.setdefault((each.scenario, each.target), []).append(each)
    rows = [_row(group) for group in groups.values()]
    return sorted(rows, key=lambda row: -row.worst_share)


def latency_picture(rows: list[LatencyRow]) -> list[dict[str, Any]]:
    """What the script draws of the first rows."""
    several = len({row.target for row in rows}) > 1
    return [
        {
            "name": f"{row.name} · {row.target}" if several else row.name,
            "bounds": [row.budget.target_ms, row.budget.acceptable_ms, row.budget.critical_ms],
            "points": [[round(ms, 1), tier, anchor] for ms, tier, anchor in row.points[:_MOST_POINTS]],
        }
        for row in rows[:_MOST_ROWS]
    ]


def _row(group: list[TrialLine]) -> LatencyRow:
    budget = group[0].budget
    assert budget is not None
    graded = [each for each in group if each.latency_ms is not None and each.tier is not None]
    points = tuple((each.latency_ms or 0.0, each.tier or "", each.anchor) for each in graded)
    values = [ms for ms, _, _ in points]
    return LatencyRow(
        name=group[0].scenario,
        target=group[0].target,
        budget=budget,
        points=points,
        percentiles=_percentiles(values),
        not_graded=len(group) - len(graded),
        worst_share=max(values, default=0.0) / budget.critical_ms,
    )


def _percentiles(values: list[float]) -> str:
    found = [("median", percentile(values, 0.5)), ("p95", percentile(values, 0.95)), ("p99", percentile(values, 0.99))]
    parts = [
        f"{name} {milliseconds(each.value)} ({milliseconds(each.low or 0.0)} to {milliseconds(each.high or 0.0)})"
        for name, each in found
        if each.value is not None
    ]
    return ", ".join(parts)
