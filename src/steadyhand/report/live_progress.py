"""Live progress on a terminal. What is called from the event loop only counts; a thread of its own draws."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import RunHeader, Standing, TrialKey, TrialRecord
from steadyhand.report import wording
from steadyhand.report.incidents import Incidents
from steadyhand.report.page import clip, one_line
from steadyhand.report.standing_line import standing_line

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

_PER_SECOND = 5
_SHOWN = 3
_STYLES = {
    Verdict.PASSED: "green",
    Verdict.FAILED: "bold red",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.ERROR: "bold magenta",
}


class LiveProgress:
    """A bar with what is done, the count of each verdict, what runs now, what it waits for. It goes away at the end."""

    def __init__(self, stream: TextIO, standing: Callable[[], Standing] = Standing) -> None:
        self._stream: TextIO = stream
        self._standing: Callable[[], Standing] = standing
        self._live: Live | None = None
        self._planned: int = 0
        self._began: float = 0.0
        self._counts: dict[Verdict, int] = dict.fromkeys(Verdict, 0)
        self._running: dict[TrialKey, str] = {}
        self._incidents: Incidents = Incidents()

    def run_started(self, header: RunHeader) -> None:
        from rich.console import Console
        from rich.live import Live

        self._planned = header.planned
        self._began = time.monotonic()
        self._live = Live(
            console=Console(file=self._stream),
            get_renderable=self._draw,
            refresh_per_second=_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        with suppress(OSError, ValueError):
            self._live.start()

    def trial_started(self, key: TrialKey, name: str) -> None:
        self._running[key] = name

    def trial_finished(self, record: TrialRecord) -> None:
        self._running.pop(record.key, None)
        self._counts[record.judged.verdict] += 1
        self._incidents.add(record)

    def noted(self, message: str) -> None:
        """Also before the run has started, when there is no bar yet."""
        note = f"note: {one_line(message)}"
        with suppress(OSError, ValueError):
            if self._live is not None:
                self._live.console.print(note, markup=False, highlight=False)
            else:
                self._stream.write(note + "\n")
                self._stream.flush()

    def run_finished(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            with suppress(OSError, ValueError):
                live.stop()

    def _draw(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        done = sum(self._counts.values())
        elapsed = wording.seconds((time.monotonic() - self._began) * 1000)
        counts = Text("  ").join(
            Text(f"{count} {verdict}", style=_STYLES[verdict]) for verdict, count in self._counts.items() if count
        )
        line = Table.grid(padding=(0, 2))
        bar = ProgressBar(total=self._planned or None, completed=done, width=24, pulse=not self._planned)
        line.add_row(bar, f"{done}/{self._planned or '?'}", counts, Text(elapsed, style="dim"))
        if happened := self._incidents.short():
            line.add_row("", "", Text(happened, style="yellow"), "")
        held_up = Text(standing_line(self._standing()), style="yellow")
        now = Text(self._now(), style="dim", no_wrap=True, overflow="ellipsis")
        return Group(line, held_up, now) if held_up else Group(line, now)

    def _now(self) -> str:
        running = list(self._running.copy().items())
        shown = [clip(one_line(f"{key.scenario_id} {name}"), 40) for key, name in running[:_SHOWN]]
        rest = len(running) - _SHOWN
        return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")
