"""Values as the record keeps them: plain data, copied, and not too large."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Callable
from typing import Any

import msgspec

from steadyhand.records.values import Unreadable, plain

EVENT_LIMIT = 16_384


def as_text(value: Any) -> str:
    """Text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(plain(value)).decode()
    except Unreadable as error:
        return f"[{error}]"


def shortened(text: str, limit: int) -> str:
    """The text, or its beginning and a note of how much was left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut: {len(text) - limit} of {len(text)} characters left out]"


def bounded(value: Any, limit: int = EVENT_LIMIT) -> Any:
    """The value as plain data, or the beginning of its text when it is larger than `limit` characters.

    Made for what came back from somewhere: what cannot be read is told in its place.
    """
    return kept_part(value, limit)[0]


def kept_part(value: Any, limit: int = EVENT_LIMIT) -> tuple[Any, bool]:
    """What `bounded` gives, and whether anything was left out."""
    try:
        copy = plain(value)
    except Unreadable as error:
        copy = f"[{error}]"
    text = as_text(copy)
    return (copy, False) if len(text) <= limit else (shortened(text, limit), True)


async def run_either(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """The function's result. A plain function runs in a thread, so that it cannot hold up the other trials."""
    if _is_async(function):
        return await function(*args, **named)
    result = await asyncio.to_thread(function, *args, **named)
    return await result if inspect.isawaitable(result) else result


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object may be callable by a coroutine method
    )


def raised(error: BaseException) -> str:
    """What was raised, and the file and line it was raised at."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" (raised at {frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"
