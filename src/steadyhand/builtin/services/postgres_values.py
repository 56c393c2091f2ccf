"""PostgreSQL's values as values that JSON can hold."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Mapping
from typing import Any, cast


def plain_value(value: Any) -> Any:
    """Numbers stay numbers, bytes become hexadecimal digits, dates ISO 8601, and the rest text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case decimal.Decimal():
            return _number(value)
        case bytes():
            return value.hex()
        case dt.date() | dt.time():
            return value.isoformat()
        case list() | tuple():
            return [plain_value(item) for item in cast("list[Any]", value)]
        case Mapping():
            return {str(key): plain_value(item) for key, item in cast("Mapping[Any, Any]", value).items()}
        case _:
            return str(value)


def _number(value: decimal.Decimal) -> int | float | str:
    if not value.is_finite():
        return str(value)
    return int(value) if value == value.to_integral_value() else float(value)
