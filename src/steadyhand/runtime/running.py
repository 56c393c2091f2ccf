"""Calling what a plugin brought, coroutine or plain function alike."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


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
