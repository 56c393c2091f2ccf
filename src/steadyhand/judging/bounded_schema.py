"""Validates a value against an untrusted JSON Schema, from a scenario, a plugin or an MCP server.

`jsonschema` alone could match a pattern for hours, fetch remote references, and follow circular ones.
"""

from __future__ import annotations

import functools
import json
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any, cast
from urllib.parse import unquote

import regex

from steadyhand.records.base import shorten
from steadyhand.suggestion import nearest
from steadyhand.text_match import compiled, search_now, within_limit

_SEARCH_S = 0.25
_MOST_S = 1.0
_MOST_REFERENCES = 10_000
_MOST_ERRORS = 50
_LONGEST = 500
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class EndlessSchema(ValueError):
    """Validation takes too long, or the schema refers to itself endlessly."""


def bounded_validator(schema: Mapping[str, Any]) -> Any:
    """A `jsonschema` validator with limits on time, for patterns and in total, and on references, which are not
    fetched. For one value, or a few.

    Validation raises `EndlessSchema` if a limit is reached, `RecursionError`, and
    `referencing.exceptions.Unresolvable`. Raises `ValueError` for a schema that it cannot bound, and for one with
    patterns instead of named properties.
    """
    return _bounded(schema, _Bounds("json_schema"), "json_schema", named=True)


def _bounded(schema: Mapping[str, Any], bounds: _Bounds, name: str, *, named: bool) -> Any:
    from jsonschema import validators
    from referencing import Registry

    _check_patterns(schema, name, named=named)
    base: Any = validators.validator_for(schema, default=validators.Draft202012Validator)
    own = {
        "pattern": bounds.pattern,
        "patternProperties": bounds.pattern_properties,
        "additionalProperties": bounds.additional_properties,
        "uniqueItems": bounds.unique_items,
    }
    keywords = {**base.VALIDATORS, **{each: checked for each, checked in own.items() if each in base.VALIDATORS}}
    bounded: Any = cast("Any", validators).extend(
        base, {each: bounds.limited(checked, counted=each in _REFERENCES) for each, checked in keywords.items()}
    )
    registry: Registry[Any] = Registry()
    return bounded(dict(schema), registry=registry)


def complaint(schema: Mapping[str, Any], value: Any, name: str) -> str | None:
    """What is wrong with the value, or None. Raises `ValueError` if the schema, called `name`, is invalid."""
    from jsonschema.exceptions import SchemaError, ValidationError, relevance
    from referencing.exceptions import Unresolvable

    try:
        written = json.dumps(schema)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is not valid: {error}") from None
    try:
        validator, bounds = _prepared(written, name, threading.get_ident())
        bounds.begin()
        found: list[ValidationError] = list(islice(validator.iter_errors(value), _MOST_ERRORS))
    except SchemaError as error:
        raise ValueError(f"{name} is not valid: {error.message}") from None
    except Unresolvable as error:
        raise ValueError(f"{name} refers to {error.ref!r}, which it does not contain") from None
    except RecursionError:
        raise ValueError(f"{name} refers to itself endlessly") from None
    errors = sorted(found, key=relevance)
    return "; ".join(f"{error.json_path}: {shorten(error.message, _LONGEST)}" for error in errors[:5]) or None


@functools.lru_cache(maxsize=64)
def _prepared(written: str, name: str, thread: int) -> tuple[Any, _Bounds]:
    """A validator and its bounds, for one value after another in this thread. A tool's schema is the same in every
    call, and checking it takes a hundred times as long as checking a value. Raises what `complaint` handles."""
    from jsonschema import Draft202012Validator

    schema: dict[str, Any] = json.loads(written)
    Draft202012Validator.check_schema(schema)
    bounds = _Bounds(name)
    return _bounded(schema, bounds, name, named=False), bounds


_SUBSCHEMAS = frozenset(
    (
        "additionalProperties", "items", "contains", "not", "if", "then", "else", "propertyNames", "unevaluatedItems",
        "unevaluatedProperties", "additionalItems",
    )
)  # fmt: skip
_OF_SCHEMAS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems", "items"))
_BY_NAME = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
_BESIDE = frozenset(
    (
        "$schema", "$id", "$anchor", "$dynamicAnchor", "$defs", "definitions", "$comment", "$vocabulary", "title",
        "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "then", "else", "minContains",
        "maxContains", "contentEncoding", "contentMediaType", "contentSchema",
    )
)  # fmt: skip
"""Keywords that check nothing by themselves."""


_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def flaw(schema: Mapping[str, Any]) -> str | None:
    """Why a schema that is to decide something cannot, or None: it is invalid, nothing fits it, or part of it would be
    ignored, such as a misspelt keyword."""
    from jsonschema import validators
    from jsonschema.exceptions import SchemaError

    default, draft = validators.Draft202012Validator, schema.get("$schema", _DRAFT)
    kind: Any = validators.validator_for(schema, default=default) if isinstance(draft, str) else default
    if kind is default and str(draft).rstrip("#") != _DRAFT:
        return f"unknown `$schema` {draft!r}; expected a draft of JSON Schema, such as {_DRAFT}"
    try:
        kind.check_schema(schema)
        _check_patterns(schema, "`schema`", named=False)
    except SchemaError as error:
        return f"not a JSON Schema: {error.message}"
    except ValueError as error:
        return str(error)
    known = {*kind.VALIDATORS, *_BESIDE} - {"format"}
    if schema.get("not") in ({}, True) or schema.get("enum") == [] or schema.get("type") == []:
        return "nothing fits the schema, so the check can never pass"
    anchors = {part["$anchor"] for part in _parts(schema) if isinstance(part.get("$anchor"), str)}
    for part in _parts(schema):
        for keyword in part:
            if keyword == "format":
                return "`format` is not checked; say what is wanted with `pattern`"
            if keyword not in known and not keyword.startswith("x-"):
                near = nearest(keyword, sorted(known))
                hint = f"; did you mean `{near}`?" if near else ""
                return f"unknown keyword `{keyword}`, which would be ignored{hint}"
        if isinstance(reference := part.get("$ref"), str) and not _is_inside(reference, schema, anchors):
            return f"the schema refers to {reference!r}, which it does not contain"
    return None


def _parts(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The schema and all schemas in it."""
    yield schema
    for keyword, value in schema.items():
        inner: list[Any] = []
        if isinstance(value, list) and keyword in _OF_SCHEMAS:
            inner = cast("list[Any]", value)
        elif isinstance(value, Mapping) and keyword in _BY_NAME:
            inner = list(cast("Mapping[str, Any]", value).values())
        elif keyword in _SUBSCHEMAS:
            inner = [value]
        for each in inner:
            if isinstance(each, Mapping):
                yield from _parts(cast("Mapping[str, Any]", each))


def _is_inside(reference: str, schema: Mapping[str, Any], anchors: Collection[str]) -> bool:
    if reference == "#" or reference == schema.get("$id"):
        return True
    if not reference.startswith("#/"):
        return reference.startswith("#") and reference[1:] in anchors
    place: Any = schema
    for step in reference[2:].split("/"):
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(place, list) and name.isdecimal() and int(name) < len(cast("list[Any]", place)):
            place = cast("list[Any]", place)[int(name)]
        elif isinstance(place, Mapping) and name in place:
            place = cast("Mapping[str, Any]", place)[name]
        else:
            return False
    return True


class _Bounds:
    """The keywords that could take forever, and how much one validation has used up."""

    def __init__(self, name: str) -> None:
        self._name: str = name
        self._until_s: float = 0.0
        self._followed: int = 0
        self.begin()

    def begin(self) -> None:
        """Nothing is used up yet."""
        self._until_s = time.thread_time() + within_limit(_MOST_S)
        self._followed = 0

    def limited(self, check: Any, *, counted: bool) -> Any:
        def run(*arguments: Any) -> Any:
            if time.thread_time() > self._until_s:
                raise EndlessSchema(f"{self._name} takes too long to check; simplify it")
            self._followed += counted
            if self._followed > _MOST_REFERENCES:
                raise EndlessSchema(f"{self._name} follows more than {_MOST_REFERENCES:,} references; simplify it")
            return check(*arguments)

        return run

    def _found(self, pattern: str, text: str) -> bool:
        try:
            return search_now(pattern, text, case_sensitive=True, timeout_s=_SEARCH_S) is not None
        except TimeoutError:
            raise EndlessSchema(
                f"the pattern {pattern!r} of {self._name} takes too long to match; simplify it"
            ) from None

    def pattern(self, validator: Any, wanted: str, value: Any, _: Any) -> Iterator[Any]:
        if validator.is_type(value, "string") and not self._found(wanted, value):
            yield _error(f"{value!r} does not match {wanted!r}")

    def pattern_properties(self, validator: Any, wanted: Mapping[str, Any], value: Any, _: Any) -> Iterator[Any]:
        if not validator.is_type(value, "object"):
            return
        for pattern, member in wanted.items():
            for key, each in value.items():
                if self._found(pattern, key):
                    yield from validator.descend(each, member, path=key, schema_path=pattern)

    def additional_properties(
        self, validator: Any, wanted: Any, value: Any, schema: Mapping[str, Any]
    ) -> Iterator[Any]:
        if not validator.is_type(value, "object"):
            return
        patterns, named = schema.get("patternProperties", {}), schema.get("properties", {})
        extra = [key for key in value if key not in named and not any(self._found(each, key) for each in patterns)]
        if validator.is_type(wanted, "object"):
            for key in extra:
                yield from validator.descend(value[key], wanted, path=key)
        elif not wanted and extra:
            verb = "was" if len(extra) == 1 else "were"
            listed = ", ".join(sorted(map(repr, extra)))
            yield _error(f"Additional properties are not allowed ({listed} {verb} unexpected)")

    def unique_items(self, validator: Any, wanted: Any, value: Any, _: Any) -> Iterator[Any]:
        """Compares their JSON, because comparing each with each would take quadratic time."""
        if wanted and validator.is_type(value, "array"):
            shown = {json.dumps(_canonical(each), sort_keys=True) for each in value}
            if len(shown) < len(value):
                yield _error(f"{value!r} has non-unique elements")


def _error(message: str) -> Any:
    from jsonschema.exceptions import ValidationError

    return ValidationError(message)


def _canonical(value: Any) -> Any:
    """With numbers that JSON Schema considers equal normalised."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_canonical(each) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _canonical(each) for key, each in cast("dict[str, Any]", value).items()}
    return value


def _check_patterns(schema: Mapping[str, Any], name: str, *, named: bool) -> None:
    """Raises `ValueError` for a pattern that cannot be compiled, and for patterns on names that cannot be bounded."""
    left: list[Any] = [schema]
    patterned = unevaluated = False
    while left:
        part = left.pop()
        if isinstance(part, list):
            left += cast("list[Any]", part)
        if not isinstance(part, Mapping):
            continue
        for key, value in cast("Mapping[str, Any]", part).items():
            unevaluated |= key == "unevaluatedProperties"
            if key == "patternProperties" and isinstance(value, Mapping):
                patterned = True
                for pattern in cast("Mapping[str, Any]", value):
                    _check_pattern(pattern, name)
            if key in ("properties", "$defs", "definitions", "dependentSchemas", "patternProperties") and isinstance(
                value, Mapping
            ):
                left += cast("Mapping[str, Any]", value).values()
            elif key == "pattern" and isinstance(value, str):
                _check_pattern(value, name)
            elif key not in ("const", "enum", "default", "examples"):
                left.append(value)
    if patterned and (named or unevaluated):
        beside = "" if named else " with `unevaluatedProperties`"
        raise ValueError(f"{name} uses `patternProperties`{beside}, which is not supported; name the properties")


def _check_pattern(pattern: str, name: str) -> None:
    try:
        compiled(pattern, case_sensitive=True)
    except (regex.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{name} has the pattern {pattern!r}, which is not valid: {error}") from None
