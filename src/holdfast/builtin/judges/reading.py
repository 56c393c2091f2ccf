"""Finding the one JSON object in what a judge wrote. Nothing is guessed: a text that is not clear is unreadable."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Never, cast

from holdfast.builtin.judges.defuse import defuse

_THINKING = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
# A model that copies may drop or add space, and drop hidden characters, which `shown` spells out.
_NEITHER_HERE_NOR_THERE = re.compile(r"\s+|\\u\{[0-9a-f]+\}")
_EFFORT = 2_000_000
_LONGEST = 200_000


class Unreadable(Exception):
    """The answer cannot be used; the message says why, in words fit for the judge and the user."""


def read_object(answer: str, *, shown: str = "", nonce: str | None = None) -> dict[str, Any]:
    """The object that the answer consists of, whatever words or fences stand around it.

    Raises `Unreadable` when there is none, when there are several that differ, when a brace does not begin valid
    JSON, when a key is given twice, when the answer is endless or carries our marks, and when the object is a
    quotation from `shown`, the data that is judged, as it was defused for the judge.
    """
    if nonce is not None and nonce in answer.casefold():
        raise Unreadable("it repeats the marks around the data instead of answering")
    if len(answer) > _LONGEST:
        raise Unreadable(f"it is {len(answer)} characters long")
    found = _objects(_THINKING.sub("", answer, count=1))
    if not found:
        raise Unreadable("it holds no JSON object")
    value, source = found[0]
    if any(_canonical(other) != _canonical(value) for other, _ in found[1:]):
        raise Unreadable("it holds several JSON objects that differ")
    if _quoted(value, source, shown):
        raise Unreadable("its JSON object is a quotation from the data, not an answer")
    return value


def _objects(text: str) -> list[tuple[dict[str, Any], str]]:
    found: list[tuple[dict[str, Any], str]] = []
    at = text.find("{")
    while at >= 0:
        value, end = _decode(text, at)
        found.append((value, text[at:end]))
        at = text.find("{", end)
    return found


def _decode(text: str, at: int) -> tuple[dict[str, Any], int]:
    decoder = json.JSONDecoder(object_pairs_hook=_distinct, parse_constant=_no_constant)
    try:
        value, end = decoder.raw_decode(text, at)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Unreadable("its JSON holds half a character (a lone surrogate)") from None
    except RecursionError:
        raise Unreadable("its JSON is nested too deeply") from None
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise Unreadable(f"its JSON is invalid: {reason}") from None
    return cast("dict[str, Any]", value), end


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise ValueError(f"the key {key!r} is given twice")
        seen[key] = value
    return seen


def _no_constant(name: str) -> Never:
    raise ValueError(f"{name} is not a JSON number")


def _quoted(value: dict[str, Any], source: str, shown: str) -> bool:
    if "{" not in shown:
        return False
    squeezed = _NEITHER_HERE_NOR_THERE.sub("", shown)
    for text in (source, _canonical(value)):
        if _NEITHER_HERE_NOR_THERE.sub("", defuse(text)) in squeezed:
            return True
    return any(_canonical(other) == _canonical(value) for other in _embedded(shown))


def _embedded(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of the text and those nested in them, as far as a bounded effort finds them."""
    decoder = json.JSONDecoder()
    effort = _EFFORT
    at = text.find("{")
    while at >= 0 and effort > 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            effort -= max(1, error.pos - at)
            at = text.find("{", at + 1)
            continue
        except (ValueError, RecursionError):
            effort -= 10_000
            at = text.find("{", at + 1)
            continue
        yield from _nested(value)
        effort -= end - at
        at = text.find("{", end)


def _nested(value: Any) -> Iterator[dict[str, Any]]:
    waiting: list[Any] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            found = cast("dict[str, Any]", item)
            yield found
            waiting.extend(found.values())
        elif isinstance(item, list):
            waiting.extend(cast("list[Any]", item))


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
