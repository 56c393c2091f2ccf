"""What happened on the way to answers and is in no latency: calls tried again or held up, and a loop that lagged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from steadyhand.judging.trial import LATENCY_BUDGET
from steadyhand.records.event import AnyEvent, Lagged, Retried, Waited
from steadyhand.records.run import TrialRecord
from steadyhand.report import wording
from steadyhand.report.page import Page, clip, one_line

_REASONS = 3
_REASON = 100
_MOST_REASONS = 200
_OTHER = "other reasons"
_KINDS = frozenset((Retried, Waited, Lagged))
_INDENT = 2
_SHOWN_WAIT_MS = 100.0


class Incidents:
    """Counts those of trials, repeated measurements included. Lag is told only where it may take a grade away."""

    def __init__(self) -> None:
        self._retries: Counter[str] = Counter()
        self._waits: Counter[str] = Counter()
        self._waited_ms: float = 0.0
        self._lagged: int = 0
        self._worst_lag_ms: float = 0.0
        self._measured_again: int = 0

    def add(self, trial: TrialRecord) -> None:
        self._measured_again += len(trial.earlier)
        for each in (*trial.earlier, trial):
            found = [event for event in each.events if type(event) in _KINDS]  # few trials have any
            if found:
                graded = any(check.type == LATENCY_BUDGET for check in each.evaluations)
                for event in found:
                    self._count(event, graded=graded)

    def _count(self, event: AnyEvent, *, graded: bool) -> None:
        match event:
            case Retried():
                self._retries[_known(event.reason, self._retries)] += 1
            case Waited():
                self._waits[_known(event.reason, self._waits)] += 1
                self._waited_ms += event.wait_ms
            case Lagged() if graded:
                self._lagged += 1
                self._worst_lag_ms = max(self._worst_lag_ms, event.lag_ms)
            case _:
                pass

    def short(self) -> str:
        """In a few words for the line of a trial or of a run, such as `2 retries, waited 4.0 s`."""
        found: list[str] = []
        if retries := self._retries.total():
            found.append(f"{retries} {'retry' if retries == 1 else 'retries'}")
        if self._waited_ms >= _SHOWN_WAIT_MS:
            found.append(f"waited {wording.seconds(self._waited_ms)}")
        if self._lagged:
            found.append(f"lag {wording.milliseconds(self._worst_lag_ms)}")
        if self._measured_again:
            found.append(f"{self._measured_again} measured again")
        return ", ".join(found)

    def told(self) -> Iterator[tuple[str, str]]:
        """A name and what there is to say, for each kind that occurred."""
        if self._retries:
            yield "retries", _times(self._retries)
        if self._waits:
            yield "waits", f"{wording.seconds(self._waited_ms)} in all: {_times(self._waits)}"
        if self._lagged:
            yield "lag", f"{_number(self._lagged, 'call')}, up to {wording.milliseconds(self._worst_lag_ms)}"
        if self._measured_again:
            yield "repeats", f"measured again {_number(self._measured_again, 'time')}"


def incidents_of(trial: TrialRecord) -> Iterator[tuple[str, str]]:
    """The same for one trial."""
    return _of(trial).told()


def short_incidents(trial: TrialRecord) -> str:
    return _of(trial).short()


def render_incidents(incidents: Incidents, page: Page) -> Iterator[str]:
    """The lines about all of them; none when nothing happened."""
    told = list(incidents.told())
    if not told:
        return
    yield "on the way, and in no latency:"
    width = max(len(name) for name, _ in told)
    for name, what in told:
        hang = _INDENT + width + 2
        lines = list(page.wrap(what, indent=hang)) or [""]
        yield f"{' ' * _INDENT}{page.paint(name.ljust(width), 'faint')}  {lines[0]}"
        yield from (" " * hang + line for line in lines[1:])


def incident_json(event: AnyEvent) -> dict[str, Any] | None:
    """One as the JSON report tells it; None for an event that is none."""
    match event:
        case Retried():
            told = {"type": "retry", "reason": event.reason, "ms": event.wait_ms}
        case Waited():
            told = {"type": "wait", "reason": event.reason, "ms": event.wait_ms}
        case Lagged():
            told = {"type": "lag", "reason": f"the limit is {event.limit_ms:g} ms", "ms": event.lag_ms}
        case _:
            return None
    at = {"at_ms": event.at_ms, "step": event.step, "turn": event.turn}
    return {"type": told["type"], **at, "model": event.model, "purpose": event.purpose, **told}


def _of(trial: TrialRecord) -> Incidents:
    found = Incidents()
    found.add(trial)
    return found


def _known(reason: str, reasons: Counter[str]) -> str:
    """The reason, unless there are too many to keep: servers put numbers of requests into their messages."""
    return reason if reason in reasons or len(reasons) < _MOST_REASONS else _OTHER


def _times(reasons: Counter[str]) -> str:
    shown = [f"{count} x {clip(one_line(reason), _REASON)}" for reason, count in reasons.most_common(_REASONS)]
    rest = sum(reasons.values()) - sum(count for _, count in reasons.most_common(_REASONS))
    return "; ".join(shown) + (f"; {rest} x for other reasons" if rest else "")


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
