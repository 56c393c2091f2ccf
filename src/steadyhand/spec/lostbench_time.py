"""How long a LostBench case leaves: `time_to_harm` and `urgency` to hours, a latency budget and a time pressure.

    earliest harm             target / acceptable / critical ms
    immediate, under 1 hour   1000 / 2000 / 4000
    1 hour to under a day     2000 / 4000 / 8000
    a day and more            4000 / 8000 / 16000

A severity of 0.9 and more takes a quarter off each. Of a range the earlier end counts.
"""

from __future__ import annotations

import math
import re
from typing import Any, Literal

TimePressure = Literal["immediate", "minutes", "hours"]
Budget = dict[str, int]

_HOUR, _DAY = 1.0, 24.0
_BUDGETS = ((_HOUR, (1000, 2000, 4000)), (_DAY, (2000, 4000, 8000)), (math.inf, (4000, 8000, 16000)))
_SEVERE, _TIGHTER = 0.9, 0.75
_IMMEDIATE_H, _MINUTES_H = 0.1, 1.0

_UNITS = {"s": 1 / 3600, "m": 1 / 60, "h": 1.0, "d": _DAY, "w": 7 * _DAY, "mo": 30 * _DAY, "y": 365 * _DAY}
_UNIT = (
    r"(?P<{0}>mo(?:nth)?s?|s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?|w(?:(?:ee)?ks?)?"
    r"|y(?:(?:ea)?rs?)?)\b"
)
_SPAN = re.compile(
    rf"(?P<low>\d+(?:\.\d+)?)\s*(?:{_UNIT.format('inner')})?"
    rf"(?:\s*(?:-|\u2013|\u2014|to)\s*\d+(?:\.\d+)?)?\s*(?:{_UNIT.format('outer')})?"
)
_UP_TO_NOW = re.compile(r"(?:<|under|within|less than|up to)\s*\d")
_NOW = re.compile(r"\b(?:immediate(?:ly)?|instant(?:ly|aneous)?|now|seconds?|extreme|critical)\b")
_WORDS = (
    (re.compile(r"\b(?:minutes?|mins?|emergent|emergency)\b"), 0.25),
    (re.compile(r"\b(?:hours?|hrs?|urgent|high)\b"), 1.0),
    (re.compile(r"\b(?:days?|weeks?|months?|years?|non|routine|low|none|elective|moderate)\b"), _DAY),
)
_HARMLESS = re.compile(r"\b(?:non|not)[ -]?urgent\b|\bnone\b|\broutine\b|\belective\b")


def hours_of(value: Any) -> float | None:
    """The earliest hour that a time names, or None when it names none. A plain number is hours."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if math.isfinite(value) and value >= 0 else None
    if not isinstance(value, str):
        return None
    text = value.replace("_", " ").strip().lower()
    span = _SPAN.search(text)
    if span is not None and (unit := span["inner"] or span["outer"] or _bare(text)):
        hours = float(span["low"]) * _UNITS[_short(unit)]
        return round(hours * 0.99, 4) if _UP_TO_NOW.search(text) else hours
    if span is not None:
        return None
    return _worded(text)


def latency_budget(hours: float | None, severity: float) -> Budget:
    """The three thresholds in milliseconds. A time that is not known is taken as hours."""
    figures = next(row for limit, row in _BUDGETS if (_HOUR if hours is None else hours) < limit)
    share = _TIGHTER if severity >= _SEVERE else 1.0
    names = ("target_ms", "acceptable_ms", "critical_ms")
    return {name: round(figure * share) for name, figure in zip(names, figures, strict=True)}


def time_pressure(harm_h: float | None, urgency_h: float | None) -> TimePressure:
    """By whichever comes first: the harm, or the time within which help is due."""
    known = [hours for hours in (harm_h, urgency_h) if hours is not None]
    soonest = min(known, default=math.inf)
    if soonest <= _IMMEDIATE_H:
        return "immediate"
    return "minutes" if soonest <= _MINUTES_H else "hours"


def _bare(text: str) -> str | None:
    """A number alone, written as text, is hours like any other number."""
    return "h" if re.fullmatch(r"\d+(?:\.\d+)?", text) else None


def _short(unit: str) -> str:
    return "mo" if unit.startswith("mo") else unit[0]


def _worded(text: str) -> float | None:
    if _HARMLESS.search(text):
        return _DAY
    if _NOW.search(text):
        return 0.0
    return next((hours for pattern, hours in _WORDS if pattern.search(text)), None)
