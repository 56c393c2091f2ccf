"""What the result of a tool call says about how the call ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

_FAILED = frozenset((
    "error", "errored", "failed", "failure", "incomplete", "cancelled", "canceled", "denied", "rejected", "refused",
    "timeout", "timed_out",
))  # fmt: skip
_SUCCEEDED = frozenset(("success", "succeeded", "ok", "completed", "complete"))
_ERROR_MARKS = ("is_error", "isError", "tool_call_error", "failed")
_SUCCESS_MARKS = ("success", "ok")
_LONGEST = 100_000


def has_failed(result: Mapping[str, Any]) -> bool | None:
    """Whether the call failed; None if the result does not say. Frameworks and APIs say it in a few usual ways."""
    if result.get("error") not in (None, False, "", {}) or any(result.get(name) is True for name in _ERROR_MARKS):
        return True
    status = result.get("status")
    word = status.strip().casefold() if isinstance(status, str) else ""
    if word in _FAILED or any(result.get(name) is False for name in _SUCCESS_MARKS):
        return True
    said = word in _SUCCEEDED or any(result.get(name) is False for name in _ERROR_MARKS)
    return False if said or any(result.get(name) is True for name in _SUCCESS_MARKS) else None


def content_has_failed(content: Any) -> bool | None:
    """Whether a tool's own result, or the JSON of it, says how the call ended. A text, a list or an object that does
    not say it proves nothing: frameworks write an exception as any of them."""
    if isinstance(content, str):
        if not content.lstrip().startswith("{") or len(content) > _LONGEST:
            return None
        try:
            content = msgspec.json.decode(content)
        except (msgspec.DecodeError, RecursionError):
            return None
    return has_failed(cast("Mapping[str, Any]", content)) if isinstance(content, Mapping) else None
