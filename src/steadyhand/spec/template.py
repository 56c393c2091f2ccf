"""Texts with placeholders, `{{ name }}`, in the data of a scenario: where they are, and what values make of them.

Substitution only. It works on the data that was read from YAML, so a value can never become YAML.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, cast

from pydantic import BaseModel

from steadyhand.records.evaluation import GROUPS
from steadyhand.spec.agent import Catalogue, stands_on_invariant
from steadyhand.spec.quoting import CHECK, TYPED, UNSYNTACTIC, CannotQuote, Written, as_text, quoting
from steadyhand.spec.shared_shapes import EvaluationEntry, EvaluationHead
from steadyhand.spec.validation import FieldPath, Findings, inner_annotation, shape_of

_PLACEHOLDER = re.compile(r"\{\{(?:(?P<literal>\{\{)|\s*(?P<name>[^{}|]*[^{}|\s])\s*(?:\|\s*(?P<filter>\w+)\s*)?\}\})?")


class Values(Protocol):
    """The values of a case, by name or by path, such as `patient.age`. Both raise `KeyError` for one it lacks."""

    def value(self, name: str) -> Any: ...

    def text(self, name: str) -> Any:
        """As it was written, if it is not a list or a mapping."""
        ...


class Hole(NamedTuple):
    """A placeholder, and how its value is written. A `typed` value is written by its type, others as they stand in the
    table."""

    name: str
    write: Callable[[Any], str]
    typed: bool = False

    def literal(self, values: Values) -> str:
        return self.write(values.value(self.name) if self.typed else values.text(self.name))


class TextTemplate(NamedTuple):
    """A text with holes. `free` is whether any values that are not blank are valid, `in_check` whether it is part of a
    check. A `lone` hole is the whole of it and needs no quotes, so the value keeps its type."""

    path: FieldPath
    parts: tuple[str | Hole, ...]
    language: str
    free: bool
    in_check: bool
    lone: bool

    @property
    def holes(self) -> list[Hole]:
        return [part for part in self.parts if isinstance(part, Hole)]

    def fill(self, values: Values, *, typed: bool = True) -> Any:
        """Without `typed`, a lone number becomes its text. Raises `CannotQuote`, and `KeyError` for a missing value."""
        if not self.lone:
            return "".join([part if isinstance(part, str) else part.literal(values) for part in self.parts])
        hole = self.holes[0]
        value: object = values.value(hole.name)
        if isinstance(value, list | dict):
            if self.language in ("structure", "schema") or (self.language == "" and _has_mappings(cast("Any", value))):
                raise CannotQuote("a mapping from a table cannot become a part of the scenario; only data can")
            return as_text(value) if self.language in ("text", "name") else cast("Any", value)
        keeps = typed and self.language not in ("text", "name")
        return value if keeps else as_text(values.text(hole.name))


def _has_mappings(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(map(_has_mappings, cast("list[Any]", value))))


def find_templates(
    data: dict[str, Any], shape: type[BaseModel], catalogue: Catalogue, findings: Findings
) -> list[TextTemplate]:
    """Every text with placeholders; what is wrong with one is a finding."""
    found: list[TextTemplate] = []
    for path, text in _texts(data, (), findings):
        language, free, in_check = _declared(shape, data, path, catalogue)
        try:
            template = _template(path, text, language, free=free, in_check=in_check)
        except CannotQuote as error:
            findings.error(path, str(error), "bad-placeholder")
            continue
        found.append(template)
    return found


def _texts(value: Any, path: FieldPath, findings: Findings) -> Iterator[tuple[FieldPath, str]]:
    if isinstance(value, str):
        if "{{" in value:
            yield path, value
    elif isinstance(value, list):
        for index, each in enumerate(cast("list[Any]", value)):
            yield from _texts(each, (*path, index), findings)
    elif isinstance(value, dict):
        for key, each in cast("dict[str, Any]", value).items():
            if key.startswith("x-"):
                continue
            if "{{" in key:
                message = "a key cannot have a placeholder; only values can"
                findings.error((*path, key), message, "bad-placeholder", key=True)
            yield from _texts(each, (*path, key), findings)


def _template(path: FieldPath, text: str, language: str, *, free: bool, in_check: bool) -> TextTemplate:
    """Raises `CannotQuote`."""
    parts: list[str | Hole] = []
    before, at, raw = "", 0, False
    for match in _PLACEHOLDER.finditer(text):
        parts.append(text[at : match.start()])
        before += text[at : match.start()]
        at = match.end()
        if match["literal"]:
            parts.append("{{")
            before += "{{"
            continue
        name = match["name"]
        if name is None:
            shown = text[match.start() : match.start() + 20]
            raise CannotQuote(f"expected a name and `}}}}` after `{{{{`, found `{shown}`; write `{{{{{{{{` for braces")
        if match["filter"] not in (None, "raw"):
            raise CannotQuote(f"unknown filter `{match['filter']}` for `{name}`; the only one is `raw`")
        if match["filter"] is not None:
            raw = True
            parts.append(Hole(name, as_text))
        else:
            parts.append(Hole(name, quoting(language, before, text[at:]), language in TYPED))
        before += "0"
    parts.append(text[at:])
    kept = tuple(part for part in parts if part != "")
    lone = len(kept) == 1 and isinstance(kept[0], Hole) and (raw or language in UNSYNTACTIC)
    if language == "fixed" and any(isinstance(part, Hole) for part in kept):
        raise CannotQuote("a placeholder cannot stand here: this is read before any case is")
    if language == "name" and not lone:
        raise CannotQuote("a placeholder must be the whole of this value: it names what is run")
    return TextTemplate(path, kept, language, free and not raw, in_check, lone)


def _declared(shape: type[BaseModel], data: Any, path: FieldPath, catalogue: Catalogue) -> tuple[str, bool, bool]:
    """The language of a field, whether it is free, and whether it is in a check, as its shapes declare."""
    language, free, in_check = "", False, False
    current: Any = shape
    for part in path:
        language = "" if CHECK in _marks(current) else language
        current = _below(current, data, part, catalogue)
        for mark in _marks(current):
            language, free = mark.language(data), mark.takes_anything
            in_check = in_check or mark is CHECK
        data = data[part]
    if language == "schema":
        language = "regex" if path[-1] == "pattern" or "patternProperties" in path[-2:] else language
    elif shape_of(current) is not None and not language:
        language = "structure"
    return language, free, in_check


def _below(annotation: Any, value: Any, part: str | int, catalogue: Catalogue) -> Any:
    """The annotation of `value[part]`; None where nothing is declared."""
    if CHECK not in _marks(annotation) or not isinstance(value, dict):
        return inner_annotation(annotation, part)
    if part in GROUPS:
        return dict[str, list[EvaluationEntry]] if part == "at_least" else list[EvaluationEntry]
    model, entry = shape_of(annotation), cast("dict[str, Any]", value)
    type_ = entry.get("type", entry.get("check_type")) if model is None else entry.get("check_type")
    params = catalogue.get(type_) if isinstance(type_, str) else None
    if part == "params" and model is not None:
        return params
    head = model or EvaluationHead
    own = params is not None and stands_on_invariant(params) and part in params.model_fields
    return inner_annotation(head if part in head.model_fields and not own else params, part)


def _marks(annotation: Any) -> list[Written]:
    inner = typing.get_args(annotation)
    if typing.get_origin(annotation) is typing.Annotated:
        own = [each for each in annotation.__metadata__ if isinstance(each, Written)]
        return own + _marks(inner[0])
    unions = inner if typing.get_origin(annotation) in {typing.Union, types.UnionType} else ()
    return [mark for each in unions for mark in _marks(each)]
