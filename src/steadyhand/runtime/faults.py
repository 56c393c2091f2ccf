"""What a service that goes wrong answers, made from what it would have answered."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from steadyhand.records.scenario import FaultKind

SLOW_S = 5.0
FAILURES: Mapping[FaultKind, tuple[str, str, int]] = {
    "timeout": ("timed out", "TIMEOUT", 504),
    "error": ("failed: service unavailable", "SERVICE_UNAVAILABLE", 503),
}
"""In words, the code and the HTTP status of the faults in which nothing is answered."""
_YEAR = re.compile(r"(?<!\d)(\d{4})(?=-\d\d-\d\d(?!\d))")


def faulty(kind: FaultKind, value: Any) -> Any:
    """What is answered instead of the value."""
    match kind, value:
        case "empty", str():
            return ""
        case "empty", list() | dict():
            return [] if isinstance(value, list) else {}
        case "empty", _:
            return None
        case "truncated", _:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            return text[: len(text) // 2]
        case "twice", str():
            return value * 2
        case "twice", _:
            return [*cast("list[Any]", value)] * 2 if isinstance(value, list) else [value, value]
        case "stale", _:
            return _a_year_ago(value)
        case _:
            return value


def _a_year_ago(value: Any) -> Any:
    if isinstance(value, str):
        return _YEAR.sub(lambda found: str(int(found[1]) - 1).zfill(4), value).replace("-02-29", "-02-28")
    if isinstance(value, Mapping):
        return {key: _a_year_ago(each) for key, each in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [_a_year_ago(each) for each in cast("list[Any]", value)]
    return value
