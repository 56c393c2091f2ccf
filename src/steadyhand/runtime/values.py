"""Values as records keep them (plain, copied and limited in size), how they are compared, and calling plugin code."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

import msgspec

from steadyhand.records.base import UnreadableValue, plain, shorten

EVENT_LIMIT = 16_384


def as_text(value: Any) -> str:
    """A string as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(plain(value)).decode()
    except UnreadableValue as error:
        return f"[{error}]"


def bounded(value: Any) -> Any:
    """The value as plain data, or the start of its text if that is longer than `EVENT_LIMIT`.

    If the value cannot be read, a note takes its place.
    """
    return kept_part(value)[0]


def kept_part(value: Any, limit: int = EVENT_LIMIT) -> tuple[Any, bool]:
    """The same as `bounded`, and whether anything was left out."""
    try:
        copy = plain(value)
    except UnreadableValue as error:
        copy = f"[{error}]"
    text = as_text(copy)
    return (copy, False) if len(text) <= limit else (shorten(text, limit, count=True), True)


class Mismatch(NamedTuple):
    """Where a value differs from the expected one. `path` is like `items[0].amount`, or empty."""

    path: str
    kind: Literal["missing", "length", "value"]
    found: Any
    expected: Any


def mismatches(found: Any, expected: Any, path: str = "") -> Iterator[Mismatch]:
    """Every place where `found` lacks what `expected` names.

    Objects may have additional keys, at any depth; lists must have the expected length. Numbers are compared by value,
    booleans are not numbers, and tuples count as lists.
    """
    wanted, given = _as_object(expected), _as_object(found)
    if wanted is not None and given is not None:
        for key, value in wanted.items():
            place = f"{path}.{key}" if path else str(key)
            if key in given:
                yield from mismatches(given[key], value, place)
            else:
                yield Mismatch(place, "missing", None, value)
        return
    elements, given_elements = as_list(expected), as_list(found)
    if elements is not None and given_elements is not None:
        if len(elements) != len(given_elements):
            yield Mismatch(path, "length", found, expected)
            return
        for index, (one, other) in enumerate(zip(given_elements, elements, strict=True)):
            yield from mismatches(one, other, f"{path}[{index}]")
    elif not _same_scalar(found, expected):
        yield Mismatch(path, "value", found, expected)


def includes(found: Any, expected: Any) -> bool:
    """Whether `found` has everything that `expected` names; see `mismatches`."""
    return next(mismatches(found, expected), None) is None


def differs_in_spelling(found: Any, expected: Any) -> bool:
    """Whether `found` would include what `expected` names, but for the case of a text or a number given as a text."""
    different = list(mismatches(found, expected))
    return bool(different) and all(
        each.kind == "value" and _spelled(each.found) == _spelled(each.expected) is not None for each in different
    )


def _spelled(value: Any) -> str | None:
    return str(value).strip().casefold() if isinstance(value, str | int | float) else None


def same(found: Any, expected: Any) -> bool:
    """Deep equality of JSON values, by the rules of `mismatches`."""
    return includes(found, expected) and includes(expected, found)


def as_list(value: Any) -> Sequence[Any] | None:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return cast("Sequence[Any]", value)
    return None


def _as_object(value: Any) -> Mapping[Any, Any] | None:
    return cast("Mapping[Any, Any]", value) if isinstance(value, Mapping) else None


def _same_scalar(found: Any, expected: Any) -> bool:
    if isinstance(expected, bool) or isinstance(found, bool):
        return found is expected
    try:
        return bool(found == expected)
    except (TypeError, ValueError):
        return False  # an agent's own type that cannot be compared with plain values


async def run_either(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """The function's result. A plain function runs in a thread, so that it cannot block other trials."""
    if _is_async(function):
        return await function(*args, **named)
    result = await asyncio.to_thread(function, *args, **named)
    return await result if inspect.isawaitable(result) else result


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object's `__call__` may be a coroutine function
    )
