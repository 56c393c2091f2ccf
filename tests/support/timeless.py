"""A JSON report without what differs between two runs that did the same things: times, ids, and where a trial ran."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

_DURATION = re.compile(r"\d[\d,]*(?:\.\d+)? m?s\b")
_OWN = frozenset(
    (
        "command",
        "workers",
        "engine",
        "ray_address",
        "ray_env",
        "ran_on",
        "latency_not_graded",
        "started_at",
        "reused_connection",
        "spoiled",
        "times_not_known",
    )
)
"""Keys whose values belong to the run or to the moment."""

_FIGURES = frozenset(("latency", "time_to_safe"))

_TIMED_LISTS = frozenset(("chunks", "changes"))
_OF_A_BUSY_MACHINE = frozenset(("lag", "wait"))


def timeless(report: Path) -> dict[str, Any]:
    return _without_times(json.loads(report.read_text()), "")


def _without_times(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return {
            each: _without_times(found, each)
            for each, found in value.items()
            if each not in _OWN
            and not (each == "id" and key == "run")
            and not (each in _FIGURES and isinstance(found, dict))
        }
    if isinstance(value, list):
        if key in _TIMED_LISTS:
            return [each[1:] for each in value]
        if key == "incidents":
            value = [each for each in value if each["type"] not in _OF_A_BUSY_MACHINE]
        return [_without_times(each, key) for each in value]
    if isinstance(value, str):
        return _DURATION.sub("... ms", value)
    if isinstance(value, float) and key.endswith("_ms"):
        return None
    return value
