"""Parses a judge's answer: the schema it follows, the JSON object in its text, and the contents of that object."""

from __future__ import annotations

import copy
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Never, cast

from steadyhand.judging.bounded_schema import EndlessSchema, bounded_validator
from steadyhand.judging.data_blocks import defuse
from steadyhand.judging.expected import contradiction
from steadyhand.ports.agent import Question
from steadyhand.records.base import Record, shorten

NEEDS_UNSEEN = "needs_unseen"
_TAG = "think|thinking|thoughts?|reasoning|analysis|scratchpad"
_THINKING = re.compile(rf"\A\s*<({_TAG})>.*?</\1>", re.DOTALL | re.IGNORECASE)
_THINKING_TAG = re.compile(rf"<(/?)(?:{_TAG})>", re.IGNORECASE)
# A model that copies may change white space and drop hidden characters, which `shown` has as code points.
_IGNORED = re.compile(r"\s+|\\u\{[0-9a-f]+\}")
_CODE_POINT = re.compile(r"\\u\{[0-9a-f]+\}")
_JSON_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|[nrtbf])", re.IGNORECASE)
_WORD = re.compile(r"(?:\d+(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?(?![^\W_])|[^\W_]+")
_TAKEN_BACK = re.compile(
    r"(?:^|[.!?:;\n])\W*(?:wait|actually|correction|sorry|hmm+|(?:yes|no)\W*(?:$|[.!,;\n]))"
    r"|\b(?:on reflection|second thoughts?|reconsider\w*|changed? my mind)\b"
    r"|\bI (?:was|am|made)\b[^.\n]{0,20}\b(?:wrong|mistaken?)\b"
    r"|\b(?:judge?ment|verdict|answer|decision|conclusion|rating|final)\b[^\n]{0,60}\b(?:yes|no)\b",
    re.IGNORECASE,
)
"""Words that may take back the answer before them: a retraction, or another verdict. An explanation is neither."""

_OURS = ("judgment", "confidence", "reasoning", "capabilities", "capability", "achieved")
_REASONING_WORDS = 4
_EFFORT = 2_000_000
_MAX_CHARACTERS = 200_000


class UnreadableAnswer(Exception):
    """The answer cannot be used; the message says why, to the judge as well as to the user."""


class JudgeAnswer(Record):
    """One usable answer. `achieved` has every capability asked about; `needs_unseen` means that the answer depends on
    what the judge could not be shown."""

    judgment: str
    confidence: float | None
    reasoning: str
    achieved: dict[str, bool]
    fields: dict[str, Any]
    needs_unseen: bool = False


def answer_schema(question: Question) -> dict[str, Any]:
    """The scenario's own schema with capabilities added, or ours."""
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


def read_object(answer: str, *, shown: str = "", nonce: str | None = None) -> dict[str, Any]:
    """The JSON object of the answer, whatever words or fences surround it.

    Raises `UnreadableAnswer` when there is none, when there are several that differ, when a brace does not begin valid
    JSON, when a key is duplicated, when the words after it may take it back, when the answer is too long, repeats our
    marks or ends while still thinking, and when the object is quoted, in whatever spelling, from `shown`: the data
    being judged, as defused for the judge.
    """
    if nonce is not None and nonce in answer.casefold():
        raise UnreadableAnswer("it repeats the markers around the data instead of answering")
    if len(answer) > _MAX_CHARACTERS:
        raise UnreadableAnswer(f"it is {len(answer)} characters long; at most {_MAX_CHARACTERS} are read")
    text = _THINKING.sub("", answer, count=1)
    found = _answered(text)
    if not found:
        raise UnreadableAnswer("it contains no JSON object")
    if _TAKEN_BACK.search(text[found[-1].at + len(found[-1].source) :]):
        raise UnreadableAnswer("it goes on after its JSON object, and may take it back")
    value, source = found[0].value, found[0].source
    if any(_canonical(other.value) != _canonical(value) for other in found[1:]):
        raise UnreadableAnswer("it contains several different JSON objects")
    if _quoted(value, source, shown) or _respelled(value, shown):
        raise UnreadableAnswer("its JSON object is quoted from the data, not an answer")
    return value


class _ObjectInText(NamedTuple):
    value: dict[str, Any]
    source: str
    at: int


def _answered(text: str) -> list[_ObjectInText]:
    """The objects after the last closing thinking tag outside of them; earlier ones are drafts."""
    if _THINKING_TAG.match(text.lstrip()):
        raise UnreadableAnswer("it ends while still thinking")
    found: list[_ObjectInText] = []
    at = text.find("{")
    while at >= 0:
        value, end = _decode(text, at)
        found.append(_ObjectInText(value, text[at:end], at))
        at = text.find("{", end)
    tags = [tag for tag in _THINKING_TAG.finditer(text) if not any(_holds(each, tag.start()) for each in found)]
    if not tags:
        return found
    if not tags[-1][1]:
        raise UnreadableAnswer("it ends while still thinking")
    return [each for each in found if each.at > tags[-1].start()]


def _holds(found: _ObjectInText, at: int) -> bool:
    return found.at <= at < found.at + len(found.source)


def _decode(text: str, at: int) -> tuple[dict[str, Any], int]:
    decoder = json.JSONDecoder(object_pairs_hook=_distinct, parse_constant=_no_constant)
    try:
        value, end = decoder.raw_decode(text, at)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UnreadableAnswer("its JSON contains a lone surrogate") from None
    except RecursionError:
        raise UnreadableAnswer("its JSON is nested too deeply") from None
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise UnreadableAnswer(f"its JSON is invalid: {reason}") from None
    return cast("dict[str, Any]", value), end


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raises `ValueError` for a duplicate key; the names that we ask for also count if their case differs."""
    seen: dict[str, Any] = {}
    ours: set[str] = set()
    for key, value in pairs:
        name = key.strip().casefold()
        if key in seen or name in ours:
            raise ValueError(f"duplicate key {key!r}")
        if name in _OURS:
            ours.add(name)
        seen[key] = value
    return seen


def _no_constant(name: str) -> Never:
    raise ValueError(f"{name} is not a JSON number")


def _quoted(value: dict[str, Any], source: str, shown: str) -> bool:
    if "{" not in shown:
        return False
    squeezed = _IGNORED.sub("", shown)
    for text in (source, _canonical(value)):
        if _IGNORED.sub("", defuse(text)) in squeezed:
            return True
    wanted = _canonical(value)
    return any(other.keys() == value.keys() and _canonical(other) == wanted for other in _embedded(shown))


def _respelled(value: dict[str, Any], shown: str) -> bool:
    """Whether the data says everything the object says, member by member, in any order, notation, case or number
    format; or contains its reasoning word for word."""
    said_of = ((key, _words(_CODE_POINT.sub("", defuse(str(item))))) for key, item in _leaves(value, ""))
    members = [(key, words) for key, words in said_of if words]
    folded = unicodedata.normalize("NFKC", _CODE_POINT.sub("", shown)).casefold()
    if not any(key.casefold() in folded for key, _ in members):
        return False
    spelled = [folded]
    if "\\" in folded:
        spelled.append(_JSON_ESCAPE.sub(lambda escape: chr(int(escape[1], 16)) if escape[1] else " ", folded))
    for text in spelled:
        said = f" {' '.join(_words(text))} "
        held = [(key, words) for key, words in members if f" {' '.join([*_words(key), *words])} " in said]
        if len(held) == len(members) > 1:
            return True
        if any(key.casefold() == "reasoning" and len(words) >= _REASONING_WORDS for key, words in held):
            return True
    return False


def _leaves(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Every scalar with its key."""
    if isinstance(value, dict):
        for name, item in cast("dict[str, Any]", value).items():
            yield from _leaves(item, name)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _leaves(item, key)
    elif value is not None:
        yield key, value


def _words(text: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return [_number(word) if word[0].isdigit() or word[0] == "." else word for word in _WORD.findall(folded)]


def _number(word: str) -> str:
    try:
        return repr(float(word))
    except ValueError:
        return word


def _embedded(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in the text and those nested in them, as far as a bounded effort finds them."""
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


def read_answer(fields: dict[str, Any], question: Question) -> JudgeAnswer:
    """Raises `UnreadableAnswer` when the object is not an answer to the question."""
    if question.json_schema is not None:
        _validate(fields, question)
    judgment = _judgment(fields, ours=question.json_schema is None)
    confidence = _confidence(fields)
    against = contradiction(judgment, confidence)
    if against is not None:
        raise UnreadableAnswer(f"{against}: the confidence says how sure you are that the answer is yes")
    reasoning: Any = fields.get("reasoning", "")
    if question.json_schema is None:
        if confidence is None:
            raise UnreadableAnswer('"confidence" is missing; it must be a number from 0 to 1')
        if "reasoning" not in fields:
            raise UnreadableAnswer('"reasoning" is missing')
        if not isinstance(reasoning, str):
            raise UnreadableAnswer(f'"reasoning" must be text, found {_kind(reasoning)}')
    # Whether each capability was achieved. One that is skipped or renamed was not.
    words: dict[str, list[bool]] = {}
    for name, achieved in _entries(fields.get("capabilities")) if question.capabilities else ():
        words.setdefault(name.strip().casefold(), []).append(achieved)
    return JudgeAnswer(
        judgment=judgment,
        confidence=confidence,
        reasoning=reasoning if isinstance(reasoning, str) else "",
        achieved={
            capability: all(words.get(capability.strip().casefold(), [False])) for capability in question.capabilities
        },
        fields=fields,
        needs_unseen=bool(question.unseen) and fields.get(NEEDS_UNSEEN) is True,
    )


def _validate(fields: dict[str, Any], question: Question) -> None:
    """Validate against the scenario's own schema; the capabilities that we added are parsed separately and
    leniently."""
    from jsonschema.exceptions import ValidationError
    from referencing.exceptions import Unresolvable

    assert question.json_schema is not None, "only for a scenario's own schema"
    schema = question.json_schema
    declared = cast("Mapping[str, Any]", schema.get("properties", {}))
    added = question.capabilities and "capabilities" not in declared
    value = {name: item for name, item in fields.items() if not (added and name == "capabilities")}
    try:
        bounded_validator(schema).validate(value)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.absolute_path)
        raise UnreadableAnswer(
            f"it does not match the schema{f' at {where}' if where else ''}: {error.message}"
        ) from None
    except Unresolvable as error:
        raise UnreadableAnswer(f"the schema references {error.ref!r}, which it does not contain") from None
    except EndlessSchema as error:
        raise UnreadableAnswer(str(error)) from None
    except RecursionError:
        raise UnreadableAnswer("the schema refers to itself endlessly") from None


def _judgment(fields: Mapping[str, Any], *, ours: bool) -> str:
    judgment: Any = fields.get("judgment")
    if not isinstance(judgment, str):
        raise UnreadableAnswer(f'"judgment" must be text, found {_kind(judgment)}')
    if not ours:
        return judgment.strip()
    word = judgment.strip().casefold()
    if word not in ("yes", "no"):
        raise UnreadableAnswer(f'"judgment" must be "yes" or "no", found {shorten(judgment, 60)!r}')
    return word


def _confidence(fields: Mapping[str, Any]) -> float | None:
    confidence: Any = fields.get("confidence")
    if confidence is None:
        return None
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 <= confidence <= 1:
        raise UnreadableAnswer(f'"confidence" must be a number from 0 to 1, found {shorten(str(confidence), 60)!r}')
    return float(confidence)


def _entries(given: Any) -> list[tuple[str, bool]]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise UnreadableAnswer(f'"capabilities" must be a list of entries, found {_kind(given)}')
    found: list[tuple[str, bool]] = []
    for item in cast("list[Any]", given):
        entry = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        name, achieved = entry.get("capability"), entry.get("achieved")
        if not isinstance(name, str) or not isinstance(achieved, bool):
            raise UnreadableAnswer(
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
