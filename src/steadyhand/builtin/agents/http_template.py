"""A custom JSON endpoint: the request is made from a template, and the reply is found by its path in the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar, cast

from steadyhand.builtin.http_model import HttpModel
from steadyhand.errors import SetupError
from steadyhand.http.client import HttpClient
from steadyhand.http.endpoint import Endpoint
from steadyhand.records.chat import FINISH_FIELDS, ChatRequest, FinishReason, WireDialect
from steadyhand.wire.dialect import Wire
from steadyhand.wire.stream import AnswerReader, UnreadableResponse

_PLACE = re.compile(r"\{([a-z][a-z0-9_]*)\}")


def filled(template: Any, values: Mapping[str, Any]) -> Any:
    """The template with its `{name}` placeholders filled in. A string that is just a placeholder becomes the value.

    Raises `KeyError` for a name without a value.
    """
    match template:
        case str():
            whole = _PLACE.fullmatch(template)
            return values[whole[1]] if whole else _PLACE.sub(lambda found: str(values[found[1]]), template)
        case dict():
            held = cast("dict[str, Any]", template)
            return {filled(name, values): filled(value, values) for name, value in held.items()}
        case list():
            return [filled(each, values) for each in cast("list[Any]", template)]
        case _:
            return template


def names_in(template: Any) -> set[str]:
    """The names in a template."""
    match template:
        case str():
            return set(_PLACE.findall(template))
        case dict():
            held = cast("dict[str, Any]", template)
            return {name for pair in held.items() for each in pair for name in names_in(each)}
        case list():
            return {name for each in cast("list[Any]", template) for name in names_in(each)}
        case _:
            return set()


def check_names(template: Any, known: Mapping[str, Any], where: str) -> None:
    """Raises `SetupError` for a name that is not known."""
    for name in sorted(names_in(template) - known.keys()):
        raise SetupError(
            f"{where}: {{{name}}} is not a known placeholder; available: {', '.join(f'{{{each}}}' for each in known)}"
        )


def at_path(value: Any, path: str) -> Any:
    """The value at a path such as `choices.0.message`; an empty path is the whole value.

    Raises a `LookupError` that says how far the path leads.
    """
    found = value
    taken: list[str] = []
    for part in path.split(".") if path else ():
        where = ".".join(taken) or "the answer"
        if isinstance(found, dict) and part in found:
            found = cast("dict[str, Any]", found)[part]
        elif isinstance(found, list) and part.lstrip("-").isdigit():
            listed = cast("list[Any]", found)
            try:
                found = listed[int(part)]
            except IndexError:
                raise LookupError(f"{where} has {len(listed)} entries, so there is no {part}") from None
        else:
            held = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
            has = f"has {', '.join(map(str, held)) or 'nothing'}" if isinstance(found, dict) else "is not an object"
            raise LookupError(f"there is no {part!r} in {where}, which {has}")
        taken.append(part)
    return found


def _finish_word(answer: Any, path: str) -> str | None:
    """A vendor's word for how the answer ended, in the object that has the reply or in one around it."""
    held: list[Any] = [answer]
    for part in path.split("."):
        try:
            held.append(at_path(held[-1], part))
        except LookupError:
            break
    words: list[Any] = [
        cast("dict[str, Any]", each).get(name)
        for each in reversed(held)
        if isinstance(each, dict)
        for name in FINISH_FIELDS
    ]
    known = (word for word in words if isinstance(word, str) and FinishReason(word) is not FinishReason.UNKNOWN)
    return next(known, None)


class _Reader(AnswerReader):
    def __init__(self, wire: TemplateWire) -> None:
        super().__init__()
        self._wire = wire

    def read(self, data: bytes, end: int) -> None:
        """An empty body is read as null."""
        try:
            answer = json.loads(data) if data.strip() else None
        except ValueError as error:
            if self._wire.reply:
                raise UnreadableResponse(f"it is not JSON: {error}") from error
            answer = data.decode("utf-8", "replace")
        self._wire.answer = answer
        self.seen = True
        self.finish_reason = _finish_word(answer, self._wire.reply or "") or "stop"
        if self._wire.reply is None:
            return
        try:
            text = at_path(answer, self._wire.reply)
        except LookupError as error:
            raise UnreadableResponse(f"option reply: {error}") from error
        if not isinstance(text, str):
            raise UnreadableResponse(
                f"option reply: {self._wire.reply!r} points to a {type(text).__name__}; expected text"
            )
        self.add_text(text, end)


class TemplateWire:
    """Used by one trial. `values` is what the template is filled with, `answer` the whole of the last answer.

    Without `reply`, no text is read from the answer.
    """

    what: ClassVar[str] = "an answer as configured"
    dialect: ClassVar[WireDialect] = "openai_chat"
    stream: bool = False

    def __init__(self, body: Any, reply: str | None) -> None:
        self.body: Any = body
        self.reply: str | None = reply
        self.values: dict[str, Any] = {}
        self.answer: Any = None

    def encode(self, request: ChatRequest) -> bytes:
        return b"" if self.body is None else json.dumps(filled(self.body, self.values)).encode()

    def reader(self, request: ChatRequest) -> AnswerReader:
        return _Reader(self)

    def token_limit(self, request: ChatRequest) -> int | None:
        return None

    def without(self, status: int, message: str, request: ChatRequest) -> Wire | None:
        return None


class TemplateModel(HttpModel):
    """A `ChatModel` whose requests are made from a template. `wire` holds the values for it and the last answer."""

    def __init__(self, name: str, endpoint: Endpoint, wire: TemplateWire, *, method: str) -> None:
        super().__init__(name, endpoint, wire)
        self.wire: TemplateWire = wire
        self._client: HttpClient = HttpClient(
            endpoint.url, {"Accept": "application/json", "User-Agent": "steadyhand", **endpoint.headers}, method=method
        )
