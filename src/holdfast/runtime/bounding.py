"""Values as the record keeps them: plain data, copied, and not too large."""

from __future__ import annotations

from typing import Any

import msgspec

EVENT_LIMIT = 16_384


def plain(value: Any) -> Any:
    """A copy that JSON can hold; what JSON has no form for becomes its text."""
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=str)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return str(value)


def as_text(value: Any) -> str:
    """Text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(plain(value)).decode()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return str(value)


def shortened(text: str, limit: int) -> str:
    """The text, or its beginning and a note of how much was left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut: {len(text) - limit} of {len(text)} characters left out]"


def bounded(value: Any, limit: int = EVENT_LIMIT) -> Any:
    """The value as plain data, or the beginning of its text when it is larger than `limit` characters."""
    return kept_part(value, limit)[0]


def kept_part(value: Any, limit: int = EVENT_LIMIT) -> tuple[Any, bool]:
    """What `bounded` gives, and whether anything was left out."""
    copy = plain(value)
    text = as_text(copy)
    return (copy, False) if len(text) <= limit else (shortened(text, limit), True)
