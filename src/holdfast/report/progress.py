"""Progress while a run goes on, always to stderr: live on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

from contextlib import suppress
from typing import TextIO

from holdfast.ports.observer import RunObserver
from holdfast.records.event import Retried
from holdfast.records.run import RunHeader, TrialKey, TrialRecord
from holdfast.records.verdict import Verdict
from holdfast.report import wording
from holdfast.report.page import one_line

_WIDEST = max(map(len, Verdict))


def progress_for(stream: TextIO, *, enabled: bool = True) -> RunObserver:
    """The observer that suits the stream."""
    if not enabled:
        return SilentProgress()
    if stream.isatty():
        from holdfast.report.live_progress import LiveProgress

        return LiveProgress(stream)
    return PlainProgress(stream)


def retries_of(record: TrialRecord) -> int:
    """How often a model call of the trial was tried again, repeated measurements included."""
    own = sum(isinstance(event, Retried) for event in record.events)
    return own + sum(retries_of(earlier) for earlier in record.earlier)


class SilentProgress:
    def run_started(self, header: RunHeader) -> None: ...

    def trial_started(self, key: TrialKey, name: str) -> None: ...

    def trial_finished(self, record: TrialRecord) -> None: ...

    def noted(self, message: str) -> None: ...

    def run_finished(self) -> None: ...


class PlainProgress(SilentProgress):
    """One line per finished trial. A reader that has gone away is no reason to stop the run."""

    def __init__(self, stream: TextIO) -> None:
        self._stream: TextIO = stream

    def trial_finished(self, record: TrialRecord) -> None:
        judged = record.judged
        name = f"{record.key.scenario_id}#{record.key.index}" if record.key.index else record.key.scenario_id
        parts = [judged.verdict.ljust(_WIDEST), one_line(name)]
        if judged.latency_ms is not None:
            parts.append(wording.milliseconds(judged.latency_ms))
        retries = retries_of(record)
        if retries:
            parts.append(f"{retries} {'retry' if retries == 1 else 'retries'}")
        if judged.verdict is not Verdict.PASSED:
            parts.append(one_line(judged.reason))
        self._say("  ".join(parts))

    def noted(self, message: str) -> None:
        self._say(f"note: {one_line(message)}")

    def _say(self, line: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(line + "\n")
            self._stream.flush()
