"""JSON read strictly, and paths into it.

What two programs could read differently is refused: names used twice, `NaN`, numbers out of range. Paths are the part
of RFC 9535 that says where a value is: `$.orders[0].id`, `$['a b']`, and `*` for every value; no filters, slices or
`..`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple, cast

from steadyhand.text_match import nfc

_LONGEST_NUMBER = 1_000
_STEP = re.compile(
    r"\.(?P<name>[^\W\d][\w-]*)|\[(?P<index>-?(?:0|[1-9]\d{0,8}))\]|(?P<all>\.\*|\[\*\])"
    r"""|\[(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]"""
)
_UNSUPPORTED = (
    (re.compile(r"\.\."), "`..` is not supported; write the whole path"),
    (re.compile(r"\[\?"), "filters are not supported; use json_schema"),
    (re.compile(r"\[-?\d*:"), "slices are not supported; name one position, or all with `[*]`"),
    (re.compile(r"\[[^\]'\"]*,"), "several positions are not supported; name one, or all with `[*]`"),
)


class NotJson(ValueError):
    """The text is not JSON that every program reads alike; the message says where or why."""


def parse_json(text: str) -> Any:
    """The value; numbers with a fraction or an exponent are exact (`Decimal`). Raises `NotJson`."""
    try:
        return json.loads(
            text, parse_float=_fraction, parse_int=_whole, parse_constant=_refuse, object_pairs_hook=_object
        )
    except json.JSONDecodeError as error:
        raise NotJson(f"{error.msg[:1].lower()}{error.msg[1:]} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise NotJson("it is nested too deeply") from None


def _fraction(number: str) -> Decimal:
    if len(number) > _LONGEST_NUMBER or not math.isfinite(float(number)):
        raise NotJson(f"the number {number[:20]} is out of range")
    return Decimal(number)


def _whole(number: str) -> int:
    if len(number) > _LONGEST_NUMBER:
        raise NotJson(f"the number {number[:20]}... has {len(number)} digits")
    return int(number)


def _refuse(name: str) -> Any:
    raise NotJson(f"{name} is not a number in JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise NotJson(f"the name {json.dumps(twice)} is used twice in one object")
    return found


def plain_numbers(value: Any) -> Any:
    """The value with floats for exact fractions, for readers that know no others."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [plain_numbers(each) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: plain_numbers(each) for name, each in cast("dict[str, Any]", value).items()}
    return value


def show_json(value: Any) -> str:
    return json.dumps(plain_numbers(value), ensure_ascii=True, default=repr)


def same_json(one: Any, other: Any) -> bool:
    """Whether two values are equal. `1` is `1.0`, but neither is `true`; accented letters are one however encoded."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float | Decimal) and isinstance(other, int | float | Decimal):
        return _exact(one) == _exact(other)
    if isinstance(one, str) and isinstance(other, str):
        return nfc(one) == nfc(other)
    if isinstance(one, list) and isinstance(other, list):
        items, others = cast("list[Any]", one), cast("list[Any]", other)
        return len(items) == len(others) and all(map(same_json, items, others))
    if isinstance(one, dict) and isinstance(other, dict):
        own, theirs = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return own.keys() == theirs.keys() and all(same_json(each, theirs[name]) for name, each in own.items())
    return one is None and other is None


def _exact(number: float | Decimal) -> int | Decimal:
    return Decimal(repr(number)) if isinstance(number, float) else number


class FoundValue(NamedTuple):
    """A value, and the path that leads to it."""

    where: str
    value: Any


class JsonPath:
    """A path. Raises `ValueError` for one that is not supported."""

    def __init__(self, path: str) -> None:
        if not path.startswith("$"):
            raise ValueError(f"a path begins with `$`, such as `$.{path.strip('.') or 'status'}`")
        self._steps: list[str | int | None] = []
        at = 1
        while at < len(path):
            for pattern, advice in _UNSUPPORTED:
                if pattern.match(path, at):
                    raise ValueError(f"at character {at + 1}: {advice}")
            step = _STEP.match(path, at)
            if step is None:
                raise ValueError(f"at character {at + 1}: expected `.name`, `['name']`, `[0]` or `[*]`")
            self._steps.append(_step(step))
            at = step.end()

    def find(self, value: Any) -> list[FoundValue]:
        """The values that it leads to: one, or none, or with `*` any number."""
        found = [FoundValue("$", value)]
        for step in self._steps:
            found = [inner for each in found for inner in _inside(each, step)]
        return found

    def strays(self, value: Any) -> str:
        """Where it looks for a name in a list, or for a position in an object: the value may be elsewhere in there."""
        found = [FoundValue("$", value)]
        for step in self._steps:
            for where, each in found:
                if each and (
                    (isinstance(each, list) and isinstance(step, str))
                    or (isinstance(each, Mapping) and isinstance(step, int))
                ):
                    return where
            found = [inner for each in found for inner in _inside(each, step)]
        return ""


def _step(match: re.Match[str]) -> str | int | None:
    if match["all"]:
        return None
    if match["index"]:
        return int(match["index"])
    if match["name"]:
        return match["name"]
    quoted = match["quoted"]
    inner = quoted[1:-1].replace("\\'", "'").replace('\\"', '"').replace('"', '\\"')
    name: str = json.loads(f'"{inner}"')
    return name


def _inside(found: FoundValue, step: str | int | None) -> list[FoundValue]:
    where, value = found
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        names = list(members) if step is None else [step] if isinstance(step, str) and step in members else []
        return [FoundValue(f"{where}[{json.dumps(name)}]", members[name]) for name in names]
    if isinstance(value, list):
        items = cast("list[Any]", value)
        if step is None:
            return [FoundValue(f"{where}[{at}]", each) for at, each in enumerate(items)]
        if isinstance(step, int) and -len(items) <= step < len(items):
            at = step % len(items)
            return [FoundValue(f"{where}[{at}]", items[at])]
    return []
