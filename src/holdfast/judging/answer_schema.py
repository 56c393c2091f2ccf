"""Whether a scenario's own `json_schema` lets a judge give the answer that is expected of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from holdfast.judging.expected import Expected


def check_answer_schema(schema: Mapping[str, Any], expected: Expected) -> None:
    """Raises `ValueError` when the schema is not one, or rules out a judgment, or rules out what is expected."""
    _check_is_schema(schema)
    if not _allows_type(schema, "object"):
        raise ValueError("json_schema must describe an object with a `judgment`")
    judgment = _member(schema, "judgment")
    if judgment is None:
        raise ValueError("json_schema rules out a `judgment`: add it to `properties`, as a string")
    words = _words(judgment)
    if not _allows_type(judgment, "string") or words == []:
        raise ValueError("json_schema must allow a string as `judgment`")
    if expected.word is not None and words is not None and expected.word not in [w.strip().casefold() for w in words]:
        listed = ", ".join(repr(word) for word in words)
        raise ValueError(f"`expected` is {expected.text!r}, and json_schema allows only {listed} as `judgment`")
    if expected.numeric and _member(schema, "confidence") is None:
        raise ValueError(
            f"`expected` is {expected.text!r}, and json_schema rules out a `confidence` to compare with it"
        )


def _check_is_schema(schema: Mapping[str, Any]) -> None:
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    try:
        validator_for(schema).check_schema(dict(schema))
    except SchemaError as error:
        where = ".".join(str(part) for part in error.absolute_path) or "its top"
        raise ValueError(f"json_schema is not a JSON Schema, at {where}: {error.message}") from None


def _member(schema: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The schema of a member; empty when nothing is said about it, None when it is ruled out."""
    properties = cast("Mapping[str, Any]", schema.get("properties", {}))
    if name in properties:
        found: Any = properties[name]
        if found is False:
            return None
        return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}
    return None if schema.get("additionalProperties") is False else {}


def _allows_type(schema: Mapping[str, Any], wanted: str) -> bool:
    given: Any = schema.get("type", wanted)
    return wanted in cast("list[Any]", given) if isinstance(given, list) else given == wanted


def _words(schema: Mapping[str, Any]) -> list[str] | None:
    """The strings allowed, when they are enumerated."""
    values: Any = [schema["const"]] if "const" in schema else schema.get("enum")
    if values is None:
        return None
    return [value for value in cast("list[Any]", values) if isinstance(value, str)]
