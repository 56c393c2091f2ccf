"""The schema that a judge's answer follows, and the answer read against it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, cast

from steadyhand.builtin.judges.reading import Unreadable
from steadyhand.judging.expected import contradiction
from steadyhand.ports.agent import Question
from steadyhand.records.base import Record

NEEDS_UNSEEN = "needs_unseen"


class Answer(Record):
    """One usable answer. `achieved` has every capability that was asked about; `needs_unseen` says that it depends on
    what the judge could not be shown."""

    judgment: str
    confidence: float | None
    reasoning: str
    achieved: dict[str, bool]
    fields: dict[str, Any]
    needs_unseen: bool = False


def answer_schema(question: Question) -> dict[str, Any]:
    """The scenario's own schema, with room for the capabilities, or ours."""
    if question.json_schema is None:
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {
                "reasoning": {"type": "string"},
                "judgment": {"type": "string", "enum": ["yes", "no"]},
                "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            },
            "required": ["reasoning", "judgment", "confidence"],
            "additionalProperties": False,
        }
    else:
        schema = copy.deepcopy(question.json_schema)
    properties = cast("dict[str, Any]", schema.setdefault("properties", {}))
    if question.unseen and question.json_schema is None:
        properties[NEEDS_UNSEEN] = {"type": "boolean"}
        schema["required"] = [*schema["required"], NEEDS_UNSEEN]
    if question.capabilities and "capabilities" not in properties:
        properties["capabilities"] = _capability_schema(question.capabilities)
        required = cast("list[str]", schema.get("required", []))
        schema["required"] = [*required, "capabilities"]
    return schema


def read_answer(fields: dict[str, Any], question: Question) -> Answer:
    """Raises `Unreadable` when the object is not an answer to the question."""
    if question.json_schema is not None:
        _validate(fields, question)
    judgment = _judgment(fields, ours=question.json_schema is None)
    confidence = _confidence(fields)
    against = contradiction(judgment, confidence)
    if against is not None:
        raise Unreadable(f"{against}: the confidence says how sure you are that the answer is yes")
    reasoning: Any = fields.get("reasoning", "")
    if question.json_schema is None:
        if confidence is None:
            raise Unreadable('it lacks "confidence", a number from 0 to 1')
        if "reasoning" not in fields:
            raise Unreadable('it lacks "reasoning"')
        if not isinstance(reasoning, str):
            raise Unreadable(f'"reasoning" must be text, found {_kind(reasoning)}')
    return Answer(
        judgment=judgment,
        confidence=confidence,
        reasoning=reasoning if isinstance(reasoning, str) else "",
        achieved=_achieved(fields.get("capabilities"), question.capabilities),
        fields=fields,
        needs_unseen=bool(question.unseen) and fields.get(NEEDS_UNSEEN) is True,
    )


def _capability_schema(capabilities: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "capability": {"type": "string", "enum": list(capabilities)},
                "reasoning": {"type": "string"},
                "achieved": {"type": "boolean"},
            },
            "required": ["capability", "reasoning", "achieved"],
            "additionalProperties": False,
        },
    }


def _validate(fields: dict[str, Any], question: Question) -> None:
    """Against the scenario's schema as written; capabilities of ours are read leniently, and apart."""
    from jsonschema.exceptions import ValidationError
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    assert question.json_schema is not None, "only for a schema of the scenario's own"
    schema = question.json_schema
    declared = cast("Mapping[str, Any]", schema.get("properties", {}))
    added = question.capabilities and "capabilities" not in declared
    value = {name: item for name, item in fields.items() if not (added and name == "capabilities")}
    registry: Registry[Any] = Registry()
    try:
        validator_for(schema)(schema, registry=registry).validate(value)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.absolute_path)
        raise Unreadable(f"it does not follow the schema{f' at {where}' if where else ''}: {error.message}") from None
    except Unresolvable as error:
        raise Unreadable(f"the schema refers to {error.ref!r}, which is not part of it") from None


def _judgment(fields: Mapping[str, Any], *, ours: bool) -> str:
    judgment: Any = fields.get("judgment")
    if not isinstance(judgment, str):
        raise Unreadable(f'"judgment" must be text, found {_kind(judgment)}')
    if not ours:
        return judgment.strip()
    word = judgment.strip().casefold()
    if word not in ("yes", "no"):
        raise Unreadable(f'"judgment" must be "yes" or "no", found {judgment[:60]!r}')
    return word


def _confidence(fields: Mapping[str, Any]) -> float | None:
    confidence: Any = fields.get("confidence")
    if confidence is None:
        return None
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 <= confidence <= 1:
        raise Unreadable(f'"confidence" must be a number from 0 to 1, found {str(confidence)[:60]!r}')
    return float(confidence)


def _achieved(given: Any, capabilities: Sequence[str]) -> dict[str, bool]:
    """What each capability came to. One that is skipped, or called by another name, is not achieved."""
    words: dict[str, list[bool]] = {}
    for name, achieved in _entries(given) if capabilities else ():
        words.setdefault(name.strip().casefold(), []).append(achieved)
    return {capability: all(words.get(capability.strip().casefold(), [False])) for capability in capabilities}


def _entries(given: Any) -> list[tuple[str, bool]]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise Unreadable(f'"capabilities" must be a list of entries, found {_kind(given)}')
    found: list[tuple[str, bool]] = []
    for item in cast("list[Any]", given):
        entry = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        name, achieved = entry.get("capability"), entry.get("achieved")
        if not isinstance(name, str) or not isinstance(achieved, bool):
            raise Unreadable(
                'an entry of "capabilities" must have "capability" as text and "achieved" as true or false'
            )
        found.append((name, achieved))
    return found


def _kind(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"
