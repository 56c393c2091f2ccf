"""The base of every record, and how values from outside are made safe to keep in one.

A record is frozen, compared by value, keyword-only and compact on disk.

Agents, models, mocks and plugins may return anything: keys that are not strings, half a surrogate pair, an integer of a
thousand digits, an object that contains itself. `plain` turns it into a value that JSON and msgpack can hold, that
reads back as it was written, and that is never nested so deep that a reader runs out of stack.
"""

from __future__ import annotations

import base64
import dataclasses
import math
import re
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import Enum
from functools import cache, lru_cache
from typing import Annotated, Any, Literal, TypeVar, cast, dataclass_transform, get_args

import msgspec

MAX_DEPTH = 100
MAX_VALUES = 1_000_000
_MANY_VALUES = 10_000
TOO_DEEP = f"[nested more than {MAX_DEPTH} levels deep]"
CIRCULAR = "[contains itself]"
_LARGEST = 2**64
_SMALLEST = -(2**63)
_LISTS = (list, tuple, set, frozenset)
_BUILT_IN = (dict, list, tuple)
S = TypeVar("S", bound=msgspec.Struct)


@dataclass_transform(frozen_default=True, kw_only_default=True)
class _RecordMeta(msgspec.StructMeta):
    """Makes every record keyword-only; msgspec would need `kw_only` on each class."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any) -> _RecordMeta:
        config.setdefault("kw_only", True)
        return super().__new__(mcls, name, bases, namespace, **config)


class Record(msgspec.Struct, metaclass=_RecordMeta, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A value that is passed around and stored. Fields left at their default are not written."""


def doc(description: str) -> msgspec.Meta:
    """What a field is, for the JSON Schema."""
    return msgspec.Meta(description=description)


# Bounds for the schema alone: a value outside of them can still be stored and read.
Natural = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 0})]
Proportion = Annotated[float, msgspec.Meta(extra_json_schema={"minimum": 0, "maximum": 1})]


def record_schema(record: type[Record], title: str) -> dict[str, Any]:
    """The JSON Schema of a record as it is written. A key that is absent has its default."""
    found = msgspec.json.schema(record)
    definitions: dict[str, Any] = found["$defs"]
    top: dict[str, Any] = definitions.pop(record.__name__)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **top, "title": title, "$defs": definitions}


def ms_of(seconds: float) -> float:
    """Milliseconds to three decimals. `round` takes several times as long, and a trial has dozens of times."""
    return (seconds * 1e6 + 0.5) // 1 / 1e3


def rounded_ms(ms: float) -> float:
    """To three decimals, as `ms_of` does. Must be finite."""
    return (ms * 1e3 + 0.5) // 1 / 1e3


def utc_now() -> str:
    """The time of day, such as `2026-01-31T12:00:00.123+00:00`."""
    ms = time.time_ns() // 1_000_000
    return f"{_utc_second(ms // 1000)}.{ms % 1000:03d}+00:00"


@lru_cache(maxsize=4)
def _utc_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


class UnreadableValue(ValueError):
    """A value that can be turned neither into JSON nor into text."""


def plain(value: Any, *, keep: tuple[type, ...] = ()) -> Any:
    """A copy in built-in types that JSON can hold; other values become their text.

    Objects keep all their entries; a key that is not a string is written as in JSON, or with `str`. A note replaces
    what is nested more than `MAX_DEPTH` levels deep, or contains itself. `keep` may name `bytes` and `float`, for
    formats other than JSON: bytes, infinity and NaN are then kept.

    Raises `UnreadableValue` if a `__str__` raises, and for more than `MAX_VALUES` values.
    """
    if _is_flat(value):
        return value.copy()
    try:
        return _Plain(value, keep).copy(value, 0)
    except UnreadableValue:
        raise
    except Exception as error:  # a foreign `__str__`, `items` or `__iter__` may raise anything
        raise UnreadableValue(f"a value of type {type(value).__name__} cannot be read: {_reason(error)}") from error


def _is_flat(value: Any) -> bool:
    """Whether it is an object of texts and numbers that are plain already, as figures of checks are."""
    if type(value) is not dict:
        return False
    for name, held in cast("dict[Any, Any]", value).items():
        if type(name) is not str or not name.isascii():
            return False
        if type(held) is float:
            if not math.isfinite(held):
                return False
        elif type(held) is str:
            if not held.isascii():
                return False
        elif type(held) is int:
            if not _SMALLEST <= held < _LARGEST:
                return False
        elif type(held) is not bool and held is not None:
            return False
    return True


def plain_object(value: Any) -> dict[str, Any]:
    """`plain` for a value that must be an object. Raises `UnreadableValue`."""
    copy = plain(value)
    if not isinstance(copy, dict):
        raise UnreadableValue(f"a {type(value).__name__} cannot be read as an object with named values")
    return cast("dict[str, Any]", copy)


def plain_text(text: str) -> str:
    """The text with lone surrogates escaped, which UTF-8 cannot encode; a subclass of `str` becomes a plain string."""
    text = text if type(text) is str else str.__str__(text)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def shorten(
    text: str, limit: int, *, keep: Literal["start", "end", "both"] | tuple[int, int] = "start", count: bool = False
) -> str:
    """The text, or `limit` characters of a longer one with `...` in place of the rest.

    `keep` names the part that stays: the start, the end, half of the limit from both, or the surroundings of a place
    `(start, end)` in the text. With `count`, the mark is a line of its own that says how many characters are missing.
    """
    length = len(text)
    if length <= limit:
        return text
    mark = f"[... {length - limit} of {length} characters left out ...]" if count else "..."
    gap = "\n" if count else ""
    if keep == "both":
        head = limit - limit // 2
        return f"{text[:head]}{gap}{mark}{gap}{text[length - limit // 2 :]}"
    match keep:
        case "start":
            first = 0
        case "end":
            first = length - limit
        case (start, end):
            before = max(0, limit - (end - start)) // 2
            first = start if end - start >= limit else max(0, min(start - before, length - limit))
    last = min(length, first + limit)
    return f"{mark + gap if first else ''}{text[first:last]}{gap + mark if last < length else ''}"


def first_few(named: Iterable[object], most: int, *, between: str = ", ") -> str:
    """Such as `a, b and 2 more`."""
    listed = list(named)
    rest = f"{between.rstrip(', ')} and {len(listed) - most} more" if len(listed) > most else ""
    return between.join(map(str, listed[:most])) + rest


def counted(number: int, noun: str, plural: str = "") -> str:
    """Such as `1 trial` and `2 trials`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def check_fields(record: msgspec.Struct) -> None:
    """Raises `TypeError` for a field of another type than declared, which `msgspec` accepts and cannot read again."""
    for name, kind in _typed_fields(type(record)):
        value = getattr(record, name)
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            reason = str(error).partition(" - at ")[0]
            raise TypeError(f"`{name}` of {type(record).__name__} is {value!r}: {reason}") from None


def plain_fields(record: S) -> S:
    """The record with the fields that may hold anything made plain. Raises `UnreadableValue`."""
    names = _loose_fields(type(record))
    if not names:
        return record
    changed: dict[str, Any] = {}
    for name in names:
        held = getattr(record, name)
        if held or not isinstance(held, dict | list | None):
            changed[name] = plain(held)
    return msgspec.structs.replace(record, **changed) if changed else record


def too_deep(value: Any) -> bool:
    """Whether built-in containers are nested more than `MAX_DEPTH` levels deep. Not recursive."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [held for each in level for held in _inner(each)]
        if not level:
            return False
    return True


def _inner(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[Any, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list | tuple) else ()


def _surely_too_many(value: Any) -> bool:
    """Whether built-in containers contain more than `MAX_VALUES` values, each counted as often as it occurs.

    Looks into each container once, at the depth nearest to the top, so that a few containers that contain each other
    many times are recognised at once. A container that contains itself, or occurs at several depths, may contain more
    than is counted here.
    """
    count, seen = 1, set[int]()
    level = {id(value): (value, 1)}
    for _ in range(MAX_DEPTH):
        seen.update(level)
        below: dict[int, tuple[Any, int]] = {}
        for each, times in level.values():
            for held in _inner(each):
                count += times
                identity = id(held)
                if type(held) in _BUILT_IN and identity not in seen:
                    below[identity] = (held, times + below.get(identity, (held, 0))[1])
        if count > MAX_VALUES or not below:
            break
        level = below
    return count > MAX_VALUES


class _Plain:
    def __init__(self, whole: Any, keep: tuple[type, ...]) -> None:
        self._whole = whole
        self._keep = keep
        self._values = 0
        self._allowed = _MANY_VALUES
        self._inside: set[int] = set()

    def copy(self, value: Any, depth: int) -> Any:
        self._values += 1
        if self._values > self._allowed:
            if self._allowed == MAX_VALUES or _surely_too_many(self._whole):
                raise UnreadableValue(f"it contains more than {MAX_VALUES:,} values")
            self._allowed = MAX_VALUES
        if type(value) in _BUILT_IN:  # earlier than the cases below would notice
            return self._container(value, depth)
        match value:
            case None | bool():
                return value
            case Enum():
                return self.copy(value.value, depth)
            case str():
                return plain_text(str.__str__(value))
            case int():
                return _integer(int(value))
            case float():
                return self._number(float.__float__(value))
            case bytes() | bytearray() | memoryview():
                held = bytes(cast("bytes", value))
                return held if bytes in self._keep else base64.b64encode(held).decode("ascii")
            case _:
                return self._container(value, depth)

    def _number(self, value: float) -> float | str:
        return value if math.isfinite(value) or float in self._keep else str(value)

    def _container(self, value: Any, depth: int) -> Any:
        if depth >= MAX_DEPTH:
            return TOO_DEEP
        identity = id(value)
        if identity in self._inside:
            return CIRCULAR
        self._inside.add(identity)
        try:
            if type(value) is not list and isinstance(value, Mapping):
                return self._object(cast("Mapping[Any, Any]", value).items(), depth + 1)
            if isinstance(value, _LISTS):
                return [self.copy(held, depth + 1) for held in list(cast("Iterable[Any]", value))]
            if dataclasses.is_dataclass(value) and not isinstance(value, type):
                fields = ((each.name, getattr(value, each.name)) for each in dataclasses.fields(value))
                return self._object(fields, depth + 1)
            return self._other(value, depth)
        finally:
            self._inside.discard(identity)

    def _object(self, items: Iterable[tuple[Any, Any]], depth: int) -> dict[str, Any]:
        copy: dict[str, Any] = {}
        for key, held in items:
            name = plain_text(key) if type(key) is str else self._name(key)
            if name in copy:
                name = _free_name(f"{name} ({type(key).__name__})", copy)
            copy[name] = self.copy(held, depth)
        return copy

    def _name(self, key: Any) -> str:
        """The key as JSON writes it, if it can."""
        if key is None or isinstance(key, bool):
            return {None: "null", True: "true", False: "false"}[key]
        return str(self.copy(key, MAX_DEPTH)) if isinstance(key, str | int | float | Enum) else plain_text(str(key))

    def _other(self, value: Any, depth: int) -> Any:
        """Records, dates, UUIDs and similar values as msgspec writes them; anything else as its text."""
        try:
            written = msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=lambda held: plain_text(str(held)))
        except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
            written = str(value)
        return self.copy(written, depth)


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} {number}"
    return free


def _integer(value: int) -> int | str:
    # The interpreter limits decimal conversion to 4300 digits, but not hexadecimal.
    if _SMALLEST <= value < _LARGEST:
        return value
    return str(value) if value.bit_length() < 10_000 else hex(value)


def _reason(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - even the `__str__` of an exception may raise
        return type(error).__name__


@cache
def _typed_fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, field.type) for field in msgspec.structs.fields(kind) if field.type is not Any)


@cache
def _loose_fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind) if _holds_anything(field.type))


def _holds_anything(annotation: Any) -> bool:
    return annotation is Any or any(_holds_anything(argument) for argument in get_args(annotation))


_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def csv_cell(text: str) -> str:
    """The text as a cell of a CSV file that a spreadsheet takes for data: one that could be a formula gets a quote."""
    return f"'{text}" if _FORMULA.match(text) else text


def from_csv_cell(cell: str) -> str:
    """What `csv_cell` was given."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
