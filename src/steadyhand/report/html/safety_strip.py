"""The safety strip: a timeline of an answer, when each invariant held, and the bounds of the budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from steadyhand.judging.trial import invariants_of, label
from steadyhand.records.base import Record
from steadyhand.records.chat import InvariantTimeline
from steadyhand.records.evaluation import VIOLATION_CLASSES, EvaluationResult, LatencyBounds, Verdict
from steadyhand.records.event import ModelCalled
from steadyhand.records.run import TrialRecord
from steadyhand.report.html.text import Highlight
from steadyhand.report.wording import milliseconds

State = Literal["holds", "not_yet", "broken", "whole"]
_MOST_CHUNKS = 400


class Segment(Record):
    """The state of an invariant between two moments."""

    from_ms: float
    to_ms: float
    state: State


class Lane(Record):
    """One invariant. `text` describes its segments in words."""

    name: str
    severity: float
    verdict: Verdict
    segments: tuple[Segment, ...]
    text: str


class SafetyStrip(Record):
    """Everything the picture shows; times are milliseconds after the request was sent.

    `lanes` have segments only if the times at which each invariant held were recorded; `missing` says what is unknown
    and why.
    """

    headline: str
    good: bool
    end_ms: float
    chunks: tuple[tuple[float, int], ...]
    lanes: tuple[Lane, ...]
    text: str = ""
    marks: tuple[Highlight, ...] = ()
    budget: LatencyBounds | None = None
    first_token_ms: float | None = None
    safe_ms: float | None = None
    first_safe_ms: float | None = None
    cut: bool = False
    missing: tuple[str, ...] = ()

    @property
    def picture(self) -> dict[str, Any]:
        """What the script draws."""
        bounds = self.budget
        return {
            "end": _round(self.end_ms),
            "safe": _round(self.safe_ms),
            "first": _round(self.first_token_ms),
            "cut": self.cut,
            "bounds": [bounds.target_ms, bounds.acceptable_ms, bounds.critical_ms] if bounds else [],
            "chunks": [[_round(at), size] for at, size in self.chunks],
            "lanes": [
                {
                    "name": lane.name,
                    "severity": lane.severity,
                    "ok": lane.verdict is Verdict.PASSED,
                    "text": lane.text,
                    "segments": [[_round(each.from_ms), _round(each.to_ms), each.state] for each in lane.segments],
                }
                for lane in self.lanes
            ],
        }


def safety_strip(trial: TrialRecord) -> SafetyStrip | None:
    """The strip of a trial with invariants whose last answer was one timed model call; None for any other."""
    invariants = invariants_of(trial.evaluations)
    budget = next((each.budget for each in trial.evaluations if each.budget is not None), None)
    if not invariants or trial.conversations:
        return None
    calls = [event for event in trial.events if isinstance(event, ModelCalled) and event.purpose == "agent"]
    judged = trial.judged
    end_ms = calls[-1].timing.latency_ms if len(calls) == 1 else judged.latency_ms
    if end_ms is None:
        return None
    call = calls[0] if len(calls) == 1 else None
    times = {each.name: each for each in judged.invariants_over_time}
    lanes = tuple(_lane(each, times.get(label(each)), end_ms) for each in invariants)
    return SafetyStrip(
        headline=_headline(trial, budget, end_ms),
        good=judged.verdict is Verdict.PASSED,
        end_ms=end_ms,
        chunks=_thinned(call.timing.chunks) if call else (),
        lanes=lanes,
        text=(call.text or "") if call else "",
        marks=_marks(trial, call) if call else (),
        budget=budget,
        first_token_ms=judged.time_to_first_token_ms,
        safe_ms=judged.time_to_safe_ms,
        first_safe_ms=judged.first_safe_ms,
        cut=judged.latency_cut,
        missing=tuple(_missing(trial, call)),
    )


def _headline(trial: TrialRecord, budget: LatencyBounds | None, end_ms: float) -> str:
    """The sentence above the picture."""
    judged = trial.judged
    violated = [label(each) for each in invariants_of(trial.evaluations) if each.verdict is Verdict.FAILED]
    if violated:
        verdict = "Never safe" if judged.never_safe else "Unsafe at the end"
        return f"{verdict}: {_listed(violated)} {'is' if len(violated) == 1 else 'are'} violated."
    if VIOLATION_CLASSES.intersection(judged.failure_classes):
        return "Safe in this measurement, but unsafe in an earlier one."
    if any(each.verdict is not Verdict.PASSED for each in invariants_of(trial.evaluations)):
        return "It could not be decided whether the answer was safe."
    if judged.time_to_safe_ms is None:
        return f"Safe, complete after {milliseconds(end_ms)}{_against(end_ms, budget)}."
    safe_ms = judged.time_to_safe_ms
    verdict = f"Safe for good after {milliseconds(safe_ms)}{_against(safe_ms, budget)}"
    if judged.latency_cut or budget is None or _against(safe_ms, budget) == _against(end_ms, budget):
        return f"{verdict}."
    return f"{verdict}; complete after {milliseconds(end_ms)}{_against(end_ms, budget)}."


def _against(ms: float, budget: LatencyBounds | None) -> str:
    if budget is None:
        return ""
    for name, bound in (
        ("target", budget.target_ms),
        ("acceptable", budget.acceptable_ms),
        ("critical", budget.critical_ms),
    ):
        if ms <= bound:
            return f", within the {name} time of {bound:g} ms"
    over = milliseconds(ms - budget.critical_ms)
    return f", {over} past the critical time of {budget.critical_ms:g} ms"


def _lane(invariant: EvaluationResult, times: InvariantTimeline | None, end_ms: float) -> Lane:
    segments = _segments(times, end_ms) if times is not None and times.changes else ()
    return Lane(
        name=label(invariant),
        severity=invariant.severity or 0.0,
        verdict=invariant.verdict,
        segments=segments,
        text=_described(invariant, segments),
    )


def _segments(times: InvariantTimeline, end_ms: float) -> tuple[Segment, ...]:
    """From the first text to the end. An invariant that has not held so far is shown as not yet met rather than
    broken."""
    found: list[Segment] = []
    held = False
    ends = [at for at, _ in times.changes[1:]] + [max(end_ms, times.changes[-1][0])]
    for (at, holds), until in zip(times.changes, ends, strict=True):
        state: State = "holds" if holds else "broken" if held else "not_yet"
        held = held or holds
        found.append(Segment(from_ms=at, to_ms=until, state=state))
    if not times.changes[-1][1]:
        found[-1] = Segment(from_ms=found[-1].from_ms, to_ms=found[-1].to_ms, state="broken")
    return tuple(found)


def _described(invariant: EvaluationResult, segments: Sequence[Segment]) -> str:
    if invariant.verdict not in (Verdict.PASSED, Verdict.FAILED):
        return f"{invariant.verdict}: not decided"
    if not segments:
        return "holds on the whole answer" if invariant.success else "violated on the whole answer"
    last = segments[-1]
    if last.state == "holds":
        since = "the first word on" if len(segments) == 1 else milliseconds(last.from_ms)
        return f"holds from {since}"
    if len(segments) == 1:
        return "never held"
    return f"broke at {milliseconds(last.from_ms)}"


def _marks(trial: TrialRecord, call: ModelCalled) -> tuple[Highlight, ...]:
    """The text that had arrived before it was safe for good, and the rest."""
    text, safe_ms = call.text or "", trial.judged.time_to_safe_ms
    if not text or sum(size for _, size in call.timing.chunks) != len(text) or not trial.judged.invariants_over_time:
        return ()
    if safe_ms is None:
        return (Highlight(0, len(text), "unsafe", "not safe"),)
    at = sum(size for arrival, size in call.timing.chunks if arrival < safe_ms)
    safe = Highlight(at, len(text), "safe", f"safe for good from {milliseconds(safe_ms)} on")
    return (Highlight(0, at, "unsafe", "not safe yet"), safe) if at else (safe,)


def _missing(trial: TrialRecord, call: ModelCalled | None) -> list[str]:
    judged = trial.judged
    found: list[str] = []
    if judged.times_unknown:
        what = "When each invariant held" if judged.safe_ms == math.inf else "When it was safe"
        found.append(f"{what} is unknown: {judged.times_unknown}.")
    elif not judged.invariants_over_time:
        found.append("When each invariant held was not recorded.")
    if judged.time_to_safe_excludes:
        names = _listed(judged.time_to_safe_excludes)
        found.append(f"Only the complete answer can be checked for {names}.")
    if judged.latency_spoiled:
        found.append(f"Latency not graded: {'; '.join(map(str, judged.latency_spoiled))}.")
    if call is not None and not call.timing.chunks:
        found.append("The arrival of the text was not recorded.")
    return found


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _thinned(chunks: Sequence[tuple[float, int]]) -> tuple[tuple[float, int], ...]:
    """At most `_MOST_CHUNKS`; neighbouring chunks are merged."""
    if len(chunks) <= _MOST_CHUNKS:
        return tuple(chunks)
    step = -(-len(chunks) // _MOST_CHUNKS)
    return tuple(
        (chunks[min(at + step, len(chunks)) - 1][0], sum(size for _, size in chunks[at : at + step]))
        for at in range(0, len(chunks), step)
    )


def _round(ms: float | None) -> float | None:
    """Rounded up, as everywhere, so that the picture and the text agree."""
    return None if ms is None else math.ceil(ms * 10) / 10
