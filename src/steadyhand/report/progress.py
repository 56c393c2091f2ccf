"""Progress of a run, always on stderr: a live display on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from steadyhand.judging.cost import Prices, cost_of_trial
from steadyhand.ports.observer import RunObserver, reads_whole_trials
from steadyhand.reading.totals import Incidents
from steadyhand.records.base import counted, first_few
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import CallWait, RunHeader, RunHealth, Spent, TrialKey, TrialRecord
from steadyhand.redaction import Redactor
from steadyhand.report import wording
from steadyhand.report.details import short_incidents
from steadyhand.report.table import clip, one_line

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live


_SHOWN_LAG_MS = 5.0
_SHOWN_WAIT_S = 0.5


def health_line(health: RunHealth) -> str:
    """Such as `waiting 42 s: openai is rate limiting us (429), 8 calls; lag 12 ms`; empty without waits."""
    return "; ".join(_delays(health))


def _delays(health: RunHealth) -> list[str]:
    parts = [_wait(each) for each in health.waits if each.left_s >= _SHOWN_WAIT_S or each.down]
    if health.lag_ms >= _SHOWN_LAG_MS:
        parts.append(f"lag {health.lag_ms:.0f} ms")
    return parts


def _wait(held: CallWait) -> str:
    calls = counted(held.calls, "call")
    seconds = math.ceil(held.left_s)
    if held.down:
        return f"{held.down} is down, retrying {f'in {seconds} s' if seconds else 'now'}, {calls}"
    return f"waiting {seconds} s: {held.reason}, {calls}"


class ProgressRate:
    """The progress of a run, its speed and the time left, estimated from the last trials."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock: Callable[[], float] = clock
        self._ended: deque[float] = deque(maxlen=_LAST_TRIALS)
        self._most: bool = False
        self.planned: int = 0
        self.done: int = 0

    def start(self, header: RunHeader) -> None:
        self.planned = header.planned
        self._most = header.until is not None
        self._ended.append(self._clock())

    def count(self) -> None:
        self.done += 1
        self._ended.append(self._clock())

    @property
    def _per_second(self) -> float | None:
        """Finished trials per second, including the time since the last one."""
        if len(self._ended) < 2:
            return None
        return (len(self._ended) - 1) / max(self._clock() - self._ended[0], 1e-6)

    def share(self) -> str:
        """Such as `12 of 60 (20%)`. With `--until decided`, it may end much earlier."""
        if not self.planned:
            return f"{self.done} done"
        return f"{self.done} of {'at most ' if self._most else ''}{self.planned} ({self.done * 100 // self.planned}%)"

    def speed(self) -> str:
        """Such as `4.2 trials/s, 12 s left`; empty before the first trial has ended."""
        rate = self._per_second
        if rate is None:
            return ""
        rate_text = f"{rate:.1f} trials/s" if rate >= 1 else f"{rate * 60:.1f} trials/min"
        left = max(self.planned - self.done, 0) / rate
        most = "at most " if self._most else ""
        return f"{rate_text}, {most}{wording.seconds(left * 1000)} left" if left else rate_text


_LAST_TRIALS = 50
_WAITS_EVERY_S = 10.0
_WIDEST = max(map(len, Verdict))


def progress_for(
    stream: TextIO, *, enabled: bool = True, live: bool | None = None, health: Callable[[], RunHealth] = RunHealth
) -> RunObserver:
    """The observer that suits the stream; `live` says whether it is a terminal that can redraw a line.

    `health` returns what is currently delaying the run.
    """
    if not enabled:
        return SilentProgress()
    if stream.isatty() if live is None else live:
        return LiveProgress(stream, health)
    return PlainProgress(stream, health)


class SilentProgress:
    reads_whole_trials = False

    def run_started(self, header: RunHeader) -> None: ...

    def trial_started(self, key: TrialKey, name: str) -> None: ...

    def trial_finished(self, record: TrialRecord) -> None: ...

    def noted(self, message: str) -> None: ...

    def run_finished(self) -> None: ...


class PlainProgress(SilentProgress):
    """One line per finished trial, and one every few seconds about progress and delays.

    The latter comes from a separate thread, and only if something has changed. If the output is closed, the run
    continues.
    """

    def __init__(
        self, stream: TextIO, health: Callable[[], RunHealth] = RunHealth, *, every_s: float = _WAITS_EVERY_S
    ) -> None:
        self._stream: TextIO = stream
        self._health: Callable[[], RunHealth] = health
        self._every_s: float = every_s
        self._pace: ProgressRate = ProgressRate()
        self._over: threading.Event = threading.Event()
        self._watch: threading.Thread | None = None

    def run_started(self, header: RunHeader) -> None:
        self._pace.start(header)
        self._watch = threading.Thread(target=self._tell, name="progress", daemon=True)
        self._watch.start()

    def run_finished(self) -> None:
        self._over.set()
        if self._watch is not None:
            self._watch.join()

    def _tell(self) -> None:
        printed: object = None
        while not self._over.wait(self._every_s):
            health = self._health()
            now = (self._pace.done, [(each.reason, each.down) for each in health.waits])
            if now != printed:
                printed = now
                held_up = health_line(health) if health.waits else ""
                self._say("; ".join(filter(None, (self._pace.share(), self._pace.speed(), held_up))))

    def trial_finished(self, record: TrialRecord) -> None:
        self._pace.count()
        judged = record.judged
        parts = [judged.verdict.ljust(_WIDEST), _trial_name(record.key)]
        if judged.latency_ms is not None:
            parts.append(wording.milliseconds(judged.latency_ms))
        if incidents := short_incidents(Incidents.of(record)):
            parts.append(incidents)
        if judged.verdict is not Verdict.PASSED:
            parts.append(one_line(judged.reason))
        self._say("  ".join(parts))

    def noted(self, message: str) -> None:
        self._say(f"note: {one_line(message)}")

    def _say(self, line: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(line + "\n")
            self._stream.flush()


_PER_SECOND = 5
_SHOWN = 3
_STYLES = {
    Verdict.PASSED: "green",
    Verdict.FAILED: "bold red",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.ERROR: "bold magenta",
}
_BAR = 16


class LiveProgress:
    """A progress bar with verdict counts and what was spent, what the run waits for, the trials in progress, and the
    last that did not pass. It disappears at the end. No line is wider than the terminal.
    """

    def __init__(self, stream: TextIO, health: Callable[[], RunHealth] = RunHealth) -> None:
        self._stream: TextIO = stream
        self._health: Callable[[], RunHealth] = health
        self._live: Live | None = None
        self._pace: ProgressRate = ProgressRate()
        self._began: float = 0.0
        self._counts: dict[Verdict, int] = dict.fromkeys(Verdict, 0)
        self._running: dict[TrialKey, str] = {}
        self._incidents: Incidents = Incidents()
        self._prices: Prices | None = None
        self._spent: Spent = Spent()
        self._fell: deque[tuple[Verdict, str]] = deque(maxlen=_SHOWN)

    def run_started(self, header: RunHeader) -> None:
        from rich.console import Console
        from rich.live import Live

        self._pace.start(header)
        self._prices = Prices.of_run(header)
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
        self._pace.count()
        self._incidents.add(record)
        if self._prices is not None:
            self._spent = self._spent.plus(cost_of_trial(record, self._prices).total)
        if record.judged.verdict is not Verdict.PASSED:
            self._fell.append((record.judged.verdict, f"{_trial_name(record.key)}: {one_line(record.judged.reason)}"))

    def noted(self, message: str) -> None:
        """May be called before the run has started, when there is no bar yet."""
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

        def line(text: str, style: str) -> Text:
            return Text(text, style=style, no_wrap=True, overflow="ellipsis")

        pace = self._pace
        counts = Text("  ", no_wrap=True, overflow="ellipsis").join(
            Text(f"{count} {verdict}", style=_STYLES[verdict]) for verdict, count in self._counts.items() if count
        )
        head = Table.grid(padding=(0, 2))
        bar = ProgressBar(total=pace.planned or None, completed=pace.done, width=_BAR, pulse=not pace.planned)
        head.add_row(bar, line(pace.share(), ""), counts)
        elapsed = wording.seconds((time.monotonic() - self._began) * 1000)
        lines = [line("; ".join(filter(None, (elapsed, pace.speed(), self._cost()))), "dim")]
        held_up = (*_delays(self._health()), short_incidents(self._incidents))
        lines += [line(text, "yellow") for text in held_up if text]
        if running := self._now():
            lines.append(line(f"running: {running}", "dim"))
        lines += [line(f"{verdict}  {reason}", _STYLES[verdict]) for verdict, reason in tuple(self._fell)]
        return Group(head, *lines)

    def _cost(self) -> str:
        """Such as `1,200 tokens, 0.0031 spent`; empty while nothing is known."""
        known = [f"{self._spent.tokens:,} tokens"] if self._spent.tokens else []
        return ", ".join([*known, f"{self._spent.cost:.4f} spent"] if self._spent.cost else known)

    def _now(self) -> str:
        """The scenarios with trials in progress, each once, such as `stemi (3), sepsis and 2 more`."""
        trials = Counter(key.scenario_id for key in self._running.copy())
        shown = [
            clip(one_line(scenario), 24) + (f" ({count})" if count > 1 else "") for scenario, count in trials.items()
        ]
        return first_few(shown, _SHOWN)


def _trial_name(key: TrialKey) -> str:
    return one_line(f"{key.scenario_id}#{key.index}" if key.index else key.scenario_id)


class RedactedProgress:
    """A `RunObserver` that redacts secrets from what another one shows.

    Finished trials were redacted when they were recorded, and are passed on as they are.
    """

    def __init__(self, shown: RunObserver, redactor: Redactor) -> None:
        self._shown: RunObserver = shown
        self._redactor: Redactor = redactor
        self._clean: dict[str, str] = {}

    @property
    def reads_whole_trials(self) -> bool:
        return reads_whole_trials(self._shown)

    def run_started(self, header: RunHeader) -> None:
        self._shown.run_started(self._redactor.value(header))

    def trial_started(self, key: TrialKey, name: str) -> None:
        scenario_id = self._text(key.scenario_id)
        if scenario_id is not key.scenario_id:
            key = TrialKey(scenario_id=scenario_id, index=key.index)
        self._shown.trial_started(key, self._text(name))

    def trial_finished(self, record: TrialRecord) -> None:
        self._shown.trial_finished(record)

    def _text(self, text: str) -> str:
        """Cached: a run starts thousands of trials with the same few names."""
        known = self._clean.get(text)
        if known is None:
            known = self._clean[text] = self._redactor.text(text)
        return known

    def noted(self, message: str) -> None:
        self._shown.noted(self._redactor.text(message))

    def run_finished(self) -> None:
        self._shown.run_finished()
