"""Whether a scenario's own `json_schema` lets a judge give the answer that is expected of it, and another one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from steadyhand.judging.expected import Expected

_DEPTH = 8


def check_answer_schema(schema: Mapping[str, Any], expected: Expected, capabilities: Sequence[str] = ()) -> None:
    """Raises `ValueError` when the schema is not one, rules out a judgment, or makes a check of it that can never pass
    or never fail."""
    answers = _Answers(schema)
    words = answers.words("judgment")
    if not answers.has("judgment"):
        raise ValueError("json_schema has no `judgment`: add it to `properties`, as a string")
    if words == [] or not answers.may_be_text("judgment"):
        raise ValueError("json_schema must allow a string as `judgment`")
    if expected.word is None:
        _check_confidence(answers, expected)
    else:
        _check_word(answers, expected, expected.word, words)
    if capabilities and answers.has("capabilities"):
        entries = [{"capability": name, "achieved": True, "reasoning": "x"} for name in capabilities]
        bare = [{"capability": name, "achieved": True} for name in capabilities]
        if not answers.takes("capabilities", (entries, bare)):
            form = "a list of entries with `capability`, `achieved` and `reasoning`"
            raise ValueError(f"json_schema rules out {form} as `capabilities`; leave `capabilities` out of it")


def _check_word(answers: _Answers, expected: Expected, word: str, words: Sequence[str] | None) -> None:
    text = expected.text
    if words is None:
        if not answers.takes("judgment", (text, word, word.upper(), word.capitalize(), word.title())):
            raise ValueError(f"`expected` is {text!r}, and json_schema does not allow that as `judgment`")
        return
    listed = ", ".join(repr(each) for each in words)
    plain = [each.strip().casefold() for each in words]
    if word not in plain:
        raise ValueError(f"`expected` is {text!r}, and json_schema allows only {listed} as `judgment`")
    if set(plain) == {word}:
        raise ValueError(f"`expected` is {text!r}, and json_schema allows nothing else: the check can never fail")


def _check_confidence(answers: _Answers, expected: Expected) -> None:
    text, low, high = expected.text, expected.low, expected.high
    if not answers.has("confidence"):
        raise ValueError(f"`expected` is {text!r}, and json_schema has no `confidence` to compare with it")
    values = {0, 1, low, high, *(step / 20 for step in range(21)), *answers.numbers("confidence")}
    possible = [value for value in values if 0 <= value <= 1 and answers.takes("confidence", (value,))]
    if not any(low <= value <= high for value in possible):
        raise ValueError(
            f"`expected` is {text!r}, and json_schema allows no such `confidence`: the check can never pass"
        )
    if all(low <= value <= high for value in possible):
        raise ValueError(f"`expected` is {text!r}, and json_schema allows no other `confidence`: it can never fail")


class _Answers:
    """The objects that a schema describes, by member."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raises `ValueError` when it is no JSON Schema, or not one of objects."""
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import validator_for
        from referencing import Registry

        try:
            validator_for(schema).check_schema(dict(schema))
        except SchemaError as error:
            where = ".".join(str(part) for part in error.absolute_path) or "its top"
            raise ValueError(f"json_schema is not a JSON Schema, at {where}: {error.message}") from None
        if not _allows_type(schema, "object"):
            raise ValueError("json_schema must describe an object with a `judgment`")
        registry: Registry[Any] = Registry()
        self._root = schema
        self._validator: Any = validator_for(schema)(dict(schema), registry=registry)

    def has(self, name: str) -> bool:
        return any(member is not False for member in self._members(name))

    def takes(self, name: str, values: Iterable[Any]) -> bool:
        """Whether the member may have one of these values. A reference to elsewhere is not followed, and allows it."""
        from referencing.exceptions import Unresolvable

        checks = [self._validator.evolve(schema=member) for member in self._members(name)]
        try:
            return any(check.is_valid(value) for value in values for check in checks)
        except Unresolvable:
            return True

    def may_be_text(self, name: str) -> bool:
        members = [list(self._parts(member, _DEPTH)) for member in self._members(name)]
        return all(_allows_type(part, "string") for parts in members for part in parts)

    def words(self, name: str) -> list[str] | None:
        """The strings that the member may be, when they are enumerated."""
        found = [values for member in self._members(name) if (values := self._enumerated(member)) is not None]
        return [value for values in found for value in values if isinstance(value, str)] if found else None

    def numbers(self, name: str) -> list[float]:
        """The numbers that the member's schema mentions."""
        mentioned: list[Any] = []
        for member in self._members(name):
            if isinstance(member, Mapping):
                mentioned += cast("Mapping[str, Any]", member).values()
            mentioned += self._enumerated(member) or []
        return [value for value in mentioned if isinstance(value, int | float) and not isinstance(value, bool)]

    def _members(self, name: str) -> Iterator[Any]:
        """The schemas of a member, wherever the schema and what it is put together from name it."""
        for part in self._parts(self._root, _DEPTH):
            properties = part.get("properties")
            if isinstance(properties, Mapping) and name in properties:
                member: Any = cast("Mapping[str, Any]", properties)[name]
                yield member

    def _parts(self, schema: Any, depth: int) -> Iterator[Mapping[str, Any]]:
        if depth == 0 or not isinstance(schema, Mapping):
            return
        part = cast("Mapping[str, Any]", schema)
        yield part
        below: list[Any] = [self._referred(part.get("$ref"))]
        for keyword in ("allOf", "anyOf", "oneOf"):
            below += cast("list[Any]", part.get(keyword, []))
        for each in below:
            yield from self._parts(each, depth - 1)

    def _referred(self, ref: Any) -> Any:
        """What a reference inside of the schema points to."""
        if not isinstance(ref, str) or not ref.startswith("#"):
            return None
        at: Any = self._root
        for key in ref[1:].split("/"):
            if key:
                at = cast("Mapping[str, Any]", at).get(key) if isinstance(at, Mapping) else None
        return at

    def _enumerated(self, member: Any) -> list[Any] | None:
        for part in self._parts(member, _DEPTH):
            if "const" in part:
                return [part["const"]]
            if "enum" in part:
                return list(cast("list[Any]", part["enum"]))
        return None


def _allows_type(schema: Mapping[str, Any], wanted: str) -> bool:
    given: Any = schema.get("type", wanted)
    return wanted in cast("list[Any]", given) if isinstance(given, list) else given == wanted
