"""Validates plain data against a file shape: every mistake is reported once, with its location and the closest valid
name.

Also the base class of the shapes and the types of their fields.
"""

from __future__ import annotations

import re
import types
import typing
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeVar, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from steadyhand.language.thoughts import tags_of
from steadyhand.records.base import Record, shorten
from steadyhand.records.location import Place, Problem
from steadyhand.suggestion import nearest

PathPart = str | int
FieldPath = tuple[PathPart, ...]
ShapeT = TypeVar("ShapeT", bound=BaseModel)
RecordT = TypeVar("RecordT", bound=Record)
Name = Annotated[str, Field(min_length=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Temperature = Annotated[float, Field(ge=0, le=2)]
Milliseconds = Annotated[int, Field(gt=0)]
FreeForm = dict[str, Any]
Trials = Annotated[int, Field(ge=1, le=100_000)]
PassRate = Annotated[float, Field(gt=0, le=1)]
ReasoningTags = Annotated[str | list[str], AfterValidator(lambda setting: list(tags_of(setting)))]


class Shape(BaseModel):
    """What a user may write. An optional key has a default; `null` is accepted where that is None."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, defer_build=True
    )


def lowered(record: type[RecordT], shape: BaseModel, **given: Any) -> RecordT:
    """What was written as a record: fields that are not `given` are copied by name, lists as tuples."""
    for name in record.__struct_fields__:
        if name not in given:
            value: Any = getattr(shape, name)
            given[name] = tuple(cast("list[Any]", value)) if isinstance(value, list) else value
    return record(**given)


class Located(Protocol):
    """A file that can locate its fields."""

    def locate(self, path: FieldPath, *, key: bool = False) -> Place: ...


class Unlocated:
    """For values that do not come from a file: a place is just the field's path."""

    def locate(self, path: FieldPath, *, key: bool = False) -> Place:
        return Place(file="", path=show_path(path))


class Findings:
    """The problems of one document. `failed` once one of them is an error."""

    def __init__(self, document: Located, problems: Sequence[Problem] = ()) -> None:
        self.document: Located = document
        self._problems: list[Problem] = list(problems)

    def error(self, path: FieldPath, message: str, code: str, *, key: bool = False) -> None:
        self._add(path, message, code, "error", key)

    def warning(self, path: FieldPath, message: str, code: str, *, key: bool = False) -> None:
        self._add(path, message, code, "warning", key)

    def _add(self, path: FieldPath, message: str, code: str, level: Literal["error", "warning"], key: bool) -> None:
        place = self.document.locate(path, key=key)
        self._problems.append(Problem(place=place, message=message, code=code, level=level))

    def add(self, problem: Problem) -> None:
        """One that is located already, such as in another file."""
        self._problems.append(problem)

    @property
    def failed(self) -> bool:
        return any(problem.level == "error" for problem in self._problems)

    @property
    def problems(self) -> list[Problem]:
        return sorted(self._problems, key=lambda problem: (problem.place.line, problem.place.column))


def show_path(path: FieldPath) -> str:
    """A field's path as people write it: `run[0].evaluations[1].pattern`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.removeprefix("+").replace("-", "_").isidentifier():
            text += f".{part}" if text else part
        else:
            text += f"[{part!r}]"
    return text


def describe(value: Any) -> str:
    """A value as described in messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{shorten(value, 60)}"'
    if isinstance(value, int | float):
        return f"{value}"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return "a mapping" if isinstance(value, dict) else str(value)


def advice(name: str, allowed: Iterable[str]) -> str:
    """`; did you mean `x`? (allowed: x, y)`, or the parts of it that apply."""
    names = list(allowed)
    near = nearest(name, names)
    hint = f"; did you mean `{near}`?" if near else ""
    return f"{hint} (allowed: {', '.join(names)})" if names else hint


def has_misspelt(entry: Mapping[str, Any], known: Iterable[str], wanted: Collection[str]) -> bool:
    """Whether an unknown key of `entry`, which is reported as such, was meant to be one of the `wanted` keys."""
    names = list(known)
    free = [name for name in names if name not in entry]
    return any(key not in names and nearest(key, free) in wanted for key in entry)


def mappings(entries: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """The mappings in what should be a list of mappings, with their index."""
    if isinstance(entries, list):
        for index, entry in enumerate(cast("list[Any]", entries)):
            if isinstance(entry, dict):
                yield index, cast("dict[str, Any]", entry)


def with_value(data: Any, path: FieldPath, value: Any) -> Any:
    """A copy of `data` with `value` at `path`; everything off that path is shared."""
    part, rest = path[0], path[1:]
    if isinstance(part, int):
        entries = list(cast("list[Any]", data))
        entries[part] = with_value(entries[part], rest, value) if rest else value
        return entries
    members = dict(cast("dict[str, Any]", data)) if isinstance(data, dict) else dict[str, Any]()
    members[part] = with_value(members.get(part), rest, value) if rest else value
    return members


_EXPECTED: dict[str, str] = {
    "string_type": "text",
    "string_sub_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "mapping_type": "a mapping",
    "none_required": "nothing",
}
_QUOTED = re.compile(r"'([^']*)'")
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "less_than_equal": ("le", "at most"),
    "greater_than": ("gt", "more than"),
    "less_than": ("lt", "less than"),
}


def validate(
    shape: type[ShapeT], data: Any, path: FieldPath, findings: Findings, *, also: Collection[str] = ()
) -> ShapeT | None:
    """`data` as a `shape`, or None with its mistakes added to `findings`.

    Keys that start with `x-` are left out. `path` is the place of `data` in the file; `also` are keys allowed there
    besides the shape's own.
    """
    try:
        return shape.model_validate(data)
    except ValidationError as error:
        details = error.errors(include_url=False)
    if any(_is_extension(detail) for detail in details):
        data = _without_extensions(data, details)
        try:
            return shape.model_validate(data)
        except ValidationError as error:
            details = error.errors(include_url=False)
    _Report(shape, data, path, findings, also).add(details)
    return None


def _is_extension(detail: ErrorDetails) -> bool:
    return detail["type"] == "extra_forbidden" and str(detail["loc"][-1]).startswith("x-")


def _without_extensions(data: Any, details: list[ErrorDetails]) -> Any:
    """A copy of `data` without the unknown keys that start with `x-`."""
    dropped = {detail["loc"] for detail in details if _is_extension(detail)}

    def copy(value: Any, loc: FieldPath) -> Any:
        if isinstance(value, dict):
            pairs = cast("dict[str, Any]", value).items()
            return {key: copy(item, (*loc, key)) for key, item in pairs if (*loc, key) not in dropped}
        if isinstance(value, list):
            return [copy(item, (*loc, index)) for index, item in enumerate(cast("list[Any]", value))]
        return value

    return copy(data, ())


class _Report:
    def __init__(
        self, shape: type[BaseModel], data: Any, path: FieldPath, findings: Findings, also: Collection[str]
    ) -> None:
        self._shape = shape
        self._data = data
        self._path = path
        self._findings = findings
        self._also = also

    def add(self, details: list[ErrorDetails]) -> None:
        unknown: defaultdict[FieldPath, list[str]] = defaultdict(list)
        missing: defaultdict[FieldPath, list[str]] = defaultdict(list)
        values: defaultdict[FieldPath, list[ErrorDetails]] = defaultdict(list)
        for detail in details:
            loc = detail["loc"]
            if detail["type"] == "extra_forbidden":
                unknown[self._real(loc[:-1])].append(str(loc[-1]))
            elif detail["type"] == "missing":
                missing[self._real(loc[:-1])].append(str(loc[-1]))
            else:
                values[self._real(loc)].append(detail)
        for loc, names in unknown.items():
            self._unknown(loc, names, missing[loc])
        for loc, names in missing.items():
            for name in names:
                message = f"required key `{name}` is missing"
                self._findings.error((*self._path, *loc, name), message, "missing-key")
        for loc, group in values.items():
            self._value(loc, group)

    def _real(self, loc: FieldPath) -> FieldPath:
        """The part of a location that exists in the file; pydantic also names the branches of unions."""
        value, real = self._data, list[str | int]()
        for part in loc:
            inside = isinstance(value, dict) and part in value
            inside = inside or (
                isinstance(value, list) and isinstance(part, int) and part < len(cast("list[Any]", value))
            )
            if inside:
                real.append(part)
                value = cast("Any", value)[part]
        return tuple(real)

    def _unknown(self, loc: FieldPath, names: list[str], missing: list[str]) -> None:
        """A misspelt required key is one mistake, so it is removed from `missing`."""
        at = _shape_at(self._shape, loc)
        keys = [field.alias or name for name, field in at.model_fields.items()] if at else []
        if not loc:
            keys = [*keys, *(name for name in self._also if name not in keys)]
        present = _value_at(self._data, loc)
        free = [key for key in keys if key not in present]
        for name in names:
            near = nearest(name, missing) or nearest(name, free)
            if near in missing:
                missing.remove(near)
            hint = f"; did you mean `{near}`?" if near else ""
            allowed = f" (allowed: {', '.join(keys)})" if keys else ""
            message = f"unknown key `{name}`{hint}{allowed}"
            self._findings.error((*self._path, *loc, name), message, "unknown-key", key=True)

    def _value(self, loc: FieldPath, group: list[ErrorDetails]) -> None:
        path = (*self._path, *loc)
        if len(group) > 1 and all(detail["type"] in _EXPECTED for detail in group):
            expected = " or ".join(dict.fromkeys(_EXPECTED[detail["type"]] for detail in group))
            message = f"expected {expected}, found {describe(_value_at(self._data, loc))}"
            self._findings.error(path, message, "wrong-type")
            return
        # Every branch of a union reports; the author meant the one that got past the type.
        telling = [detail for detail in group if detail["type"] not in _EXPECTED] or group[:1]
        for detail in telling:
            code, message = _explain(detail)
            self._findings.error(path, message, code)


def _explain(detail: ErrorDetails) -> tuple[str, str]:
    kind, found = detail["type"], detail["input"]
    context = detail.get("ctx", {})
    if kind in _EXPECTED:
        note = ""
        if _EXPECTED[kind] == "true or false" and str(found).lower() in {"yes", "no", "on", "off", "y", "n"}:
            note = "; YAML 1.2 reads it as text"
        return "wrong-type", f"expected {_EXPECTED[kind]}, found {describe(found)}{note}"
    if kind in {"literal_error", "enum"}:
        allowed = _QUOTED.findall(str(context.get("expected", "")))
        hint = advice(found, allowed) if isinstance(found, str) else f" (allowed: {', '.join(allowed)})"
        return "bad-value", f"expected one of the allowed values, found {describe(found)}{hint}"
    if kind in {"value_error", "assertion_error"}:
        return "bad-value", str(context.get("error", detail["msg"]))
    if kind == "string_pattern_mismatch":
        return "bad-value", f"expected text of the form {context['pattern']}, found {describe(found)}"
    bound = _bound(kind, context)
    if bound:
        return "out-of-range", f"expected {bound}, found {describe(found)}"
    message = detail["msg"]
    return "bad-value", f"{message[:1].lower()}{message[1:]}, found {describe(found)}"


def _bound(kind: str, context: Mapping[str, Any]) -> str | None:
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return (
            f"a number of {words} {context[name]:g}"
            if kind.endswith("equal")
            else f"a number {words} {context[name]:g}"
        )
    if kind in {"too_short", "string_too_short"}:
        return _count("at least", context["min_length"], kind)
    if kind in {"too_long", "string_too_long"}:
        return _count("at most", context["max_length"], kind)
    return None


def _count(words: str, number: int, kind: str) -> str:
    noun = "character" if kind.startswith("string") else "entry"
    plural = noun if number == 1 else {"character": "characters", "entry": "entries"}[noun]
    return f"{words} {number} {plural}"


def _value_at(data: Any, loc: FieldPath) -> Any:
    for part in loc:
        data = data[part]
    return data


def _shape_at(shape: type[BaseModel], loc: FieldPath) -> type[BaseModel] | None:
    current: Any = shape
    for part in loc:
        current = inner_annotation(current, part)
        if current is None:
            return None
    return shape_of(current)


def inner_annotation(annotation: Any, part: str | int) -> Any:
    """The annotation of the value at `part` inside a value with this annotation, with the field's metadata."""
    shape = shape_of(annotation)
    if shape is not None:
        for name, field in shape.model_fields.items():
            if part in {field.alias, name}:
                return typing.Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
        return None
    for option in annotation_options(annotation):
        arguments = typing.get_args(option)
        if arguments and typing.get_origin(option) in {list, tuple, dict}:
            return arguments[-1] if typing.get_origin(option) is dict else arguments[0]
    return None


def shape_of(annotation: Any) -> type[BaseModel] | None:
    """The model of a value with this annotation, if it has one."""
    for option in annotation_options(annotation):
        if isinstance(option, type) and issubclass(option, BaseModel):
            return option
    return None


def annotation_options(annotation: Any) -> list[Any]:
    """The branches of a union; metadata is left out."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return annotation_options(typing.get_args(annotation)[0])
    if origin in {typing.Union, types.UnionType}:
        return [option for argument in typing.get_args(annotation) for option in annotation_options(argument)]
    return [annotation]
