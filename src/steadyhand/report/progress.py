"""Progress while a run goes on, always to stderr: live on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from steadyhand.ports.observer import RunObserver
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import RunHeader, Standing, TrialKey, TrialRecord
from steadyhand.report import wording
from steadyhand.report.incidents import short_incidents
from steadyhand.report.page import one_line
from steadyhand.report.standing_line import standing_line

_WAITS_EVERY_S = 10.0
_WIDEST = max(map(len, Verdict))


def progress_for(stream: TextIO, *, enabled: bool = True, standing: Callable[[], Standing] = Standing) -> RunObserver:
    """The observer that suits the stream. `standing` says what holds the run up at the moment it is asked."""
    if not enabled:
        return SilentProgress()
    if stream.isatty():
        from steadyhand.report.live_progress import LiveProgress

        return LiveProgress(stream, standing)
    return PlainProgress(stream, standing)


class SilentProgress:
    def run_started(self, header: RunHeader) -> None: ...

    def trial_started(self, key: TrialKey, name: str) -> None: ...

    def trial_finished(self, record: TrialRecord) -> None: ...

    def noted(self, message: str) -> None: ...

    def run_finished(self) -> None: ...


class PlainProgress(SilentProgress):
    """One line per finished trial, and one now and then while calls wait, from a thread of its own.

    A reader that has gone away is no reason to stop the run.
    """

    def __init__(
        self, stream: TextIO, standing: Callable[[], Standing] = Standing, *, every_s: float = _WAITS_EVERY_S
    ) -> None:
        self._stream: TextIO = stream
        self._standing: Callable[[], Standing] = standing
        self._every_s: float = every_s
        self._over: threading.Event = threading.Event()
        self._watch: threading.Thread | None = None

    def run_started(self, header: RunHeader) -> None:
        self._watch = threading.Thread(target=self._tell_waits, name="progress", daemon=True)
        self._watch.start()

    def run_finished(self) -> None:
        self._over.set()
        if self._watch is not None:
            self._watch.join()

    def _tell_waits(self) -> None:
        while not self._over.wait(self._every_s):
            standing = self._standing()
            if standing.waits and (told := standing_line(standing)):
                self._say(told)

    def trial_finished(self, record: TrialRecord) -> None:
        judged = record.judged
        name = f"{record.key.scenario_id}#{record.key.index}" if record.key.index else record.key.scenario_id
        parts = [judged.verdict.ljust(_WIDEST), one_line(name)]
        if judged.latency_ms is not None:
            parts.append(wording.milliseconds(judged.latency_ms))
        if incidents := short_incidents(record):
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
