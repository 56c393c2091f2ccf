"""`json_schema` and `json_path`: what the reply, or the arguments of an action, are as JSON."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self, cast

from msgspec.structs import replace
from pydantic import AfterValidator, Field, model_validator

from steadyhand.builtin.evaluators.action_match import EVERY, ActionName, DeedList
from steadyhand.builtin.evaluators.look import Look, ReplyCheck, ReplyParams, looked
from steadyhand.builtin.evaluators.text import PatternText, excerpt, matches_as_read, quoted_pattern
from steadyhand.json_text import JsonPath, NotJson, parse_json, plain_numbers, same_json, show_json
from steadyhand.judging.bounded_schema import EndlessSchema, complaint, flaw
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams, Spoken, TextCheck
from steadyhand.records.base import counted, shorten
from steadyhand.records.deed import HAPPENED, Deed
from steadyhand.records.deed_name import NamedDeed
from steadyhand.records.evaluation import EvaluationResult, Evidence, errored, failed, inconclusive
from steadyhand.records.event import Visible
from steadyhand.records.result import ExecutionResult
from steadyhand.spec.quoting import ASKED, Written
from steadyhand.text_match import search

_ACTIONS: frozenset[Visible] = frozenset({"actions"})


class JsonParams(ReplyParams):
    action: ActionName | None = Field(
        default=None, description="Check the arguments of every call of this action or tool. Default: check the reply"
    )
    fenced: bool = Field(default=False, description="Whether the reply may be one Markdown code block with the JSON")

    @model_validator(mode="after")
    def _fence_is_of_the_reply(self) -> Self:
        if self.fenced and self.action is not None:
            raise ValueError("`fenced` is about the reply, and has no effect with `action`")
        return self


class JsonCheck(ReplyCheck):
    """A check on a value, from the reply or from every call of an action."""

    reads: ClassVar[frozenset[Visible]] = _ACTIONS

    @abstractmethod
    async def look_at(self, params: Any, value: Any) -> Look: ...

    def reads_with(self, params: JsonParams) -> frozenset[Visible]:
        return frozenset() if params.action is None else self.reads

    def reads_text(self, params: JsonParams) -> Spoken | None:
        return "reply" if params.action is None else None

    def names_deeds(self, params: JsonParams) -> list[NamedDeed]:
        return [] if params.action is None else [NamedDeed(action=params.action)]

    def on_text(self, params: JsonParams) -> TextCheck | None:
        return None if params.action is not None else super().on_text(params)

    async def look(self, params: JsonParams, text: str) -> Look:
        try:
            value = parse_json(_unfenced(text) if params.fenced else text)
        except NotJson as error:
            fence = "; `fenced: true` accepts a code block" if not params.fenced and _unfenced(text) != text else ""
            return Look(
                holds=False, either=True, said=f"is not JSON: {error}{fence}", expected="JSON", found="not JSON"
            )
        return await self.look_at(params, value)

    async def evaluate(
        self, params: JsonParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        if params.action is None:
            return await super().evaluate(params, result, context)
        return await self._of_calls(params, params.action, DeedList(result, context))

    async def _of_calls(self, params: JsonParams, action: str, deeds: DeedList) -> EvaluationResult:
        """Every call must hold, and there must be one; the opposite holds only if none does."""
        named = [deeds.all[number] for number in deeds.called(action, forbids=False)]
        evidence = Evidence(expected=f"a call of {action}", found="none", where="actions")
        if (unclear := deeds.ambiguous(action)) is not None:
            return errored(unclear, evidence=evidence)
        if not any(deed.status in HAPPENED for deed in named):
            doubt = deeds.namesake(action, {}, EVERY) or (deeds.unoffered([action]) if deeds.own_tools_unseen else None)
            why = f"{action} {'was only tried' if named else 'never happened'}, so there are no arguments to check"
            if doubt is not None:
                return inconclusive(f"{why}; {doubt}", evidence=evidence)
            return failed(why, evidence=evidence, rests_on="neither")
        looks = [(deed, await self.look_at(params, _arguments(deed))) for deed in named]
        undecided = deeds.unseen_arguments(named) or deeds.namesake(action, {}, EVERY)
        deed, look = next(((deed, look) for deed, look in looks if not look.holds), looks[0])
        several = f" ({counted(len(looks), 'call')})" if len(looks) > 1 else ""
        where, shown = f"the arguments of {deed.name}{several}", show_json(_arguments(deed))
        if undecided is not None:
            undecidable = Look(holds=None, said=f"cannot all be checked: {undecided}", expected=look.expected)
            return looked(undecidable, where=where, text=shown)
        if look.holds is False and any(each.holds for _, each in looks):
            look = replace(look, either=True)
        return looked(look, where=where, text=shown)


def _arguments(deed: Deed) -> dict[str, Any]:
    return deed.params or deed.given[-1]


def _unfenced(text: str) -> str:
    """What is in the code block, if the text is one and nothing else."""
    lines = text.strip().splitlines()
    if len(lines) < 2 or not lines[0].startswith("```") or lines[-1].strip() != "```":
        return text
    inner = lines[1:-1]
    return text if any(line.lstrip().startswith("```") for line in inner) else "\n".join(inner)


def _valid_schema(schema: dict[str, Any]) -> dict[str, Any]:
    if (wrong := flaw(schema)) is not None:
        raise ValueError(wrong)
    return schema


class JsonSchemaParams(JsonParams):
    json_schema: Annotated[dict[str, Any], AfterValidator(_valid_schema), Written("schema")] = Field(
        alias="schema", description="JSON Schema, draft 2020-12 unless its `$schema` says otherwise"
    )

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        asked = {name: each for name, each in self.json_schema.items() if not name.startswith(("$", "x-"))}
        if self.action is not None and asked in ({}, {"type": "object"}):
            raise ValueError("arguments are always an object, so the check can never fail; say what must be in it")
        return self


class JsonSchemaEvaluator(JsonCheck):
    type: ClassVar[str] = "json_schema"
    params: ClassVar[type[EvaluationParams]] = JsonSchemaParams

    async def look_at(self, params: JsonSchemaParams, value: Any) -> Look:
        expected = f"JSON that fits the schema {excerpt(show_json(params.json_schema))}"
        try:
            wrong = complaint(params.json_schema, plain_numbers(value), "`schema`")
        except EndlessSchema as error:
            return Look(holds=None, said=f"could not be checked: {error}", expected=expected)
        if wrong is None:
            return Look(holds=True, said="fits the schema", expected=expected, found="fits")
        return Look(holds=False, said=f"does not fit the schema: {wrong}", expected=expected, found=wrong)


def _valid_path(path: str) -> str:
    JsonPath(path)
    return path


class JsonPathParams(JsonParams):
    path: Annotated[str, AfterValidator(_valid_path), Written("json path", free=False)] = Field(
        description="Where the value is: `$.orders[0].id`, `$['a b']`; `[*]` and `.*` are every value there"
    )
    equals: Annotated[Any, ASKED] = Field(default=None, description="What every value there must be; any JSON value")
    exists: bool | None = Field(default=None, description="Whether there must be a value, `null` included")
    matches: PatternText | None = Field(
        default=None, description="Regular expression that every value there, a text, must match somewhere"
    )

    @model_validator(mode="after")
    def _one_of_three(self) -> Self:
        given = [name for name in ("equals", "exists", "matches") if name in self.model_fields_set]
        if len(given) != 1:
            raise ValueError(f"give exactly one of equals, exists and matches; found {' and '.join(given) or 'none'}")
        if (given == ["exists"] and self.exists is None) or (given == ["matches"] and self.matches is None):
            raise ValueError(f"`{given[0]}` is empty")
        if "equals" in given and not _is_json(self.equals):
            raise ValueError(f"`equals` is {self.equals!r}, which no value in JSON can be")
        if self.path == "$" and self.exists is not None:
            raise ValueError("`$` is the whole value, which always exists; name a place in it")
        return self


def _is_json(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list):
        return all(map(_is_json, cast("list[Any]", value)))
    if isinstance(value, Mapping):
        members = cast("Mapping[Any, Any]", value)
        return all(isinstance(name, str) and _is_json(each) for name, each in members.items())
    return value is None or isinstance(value, str | bool | int)


class JsonPathEvaluator(JsonCheck):
    type: ClassVar[str] = "json_path"
    params: ClassVar[type[EvaluationParams]] = JsonPathParams

    async def look_at(self, params: JsonPathParams, value: Any) -> Look:
        found = JsonPath(params.path).find(value)
        if params.exists is not None:
            there = bool(found)
            expected = f"{'a' if params.exists else 'no'} value at {params.path}"
            said = f"has {'a' if there else 'no'} value at {params.path}"
            shown = shorten(show_json(found[0].value), 200) if there else "none"
            if not there and (where := JsonPath(params.path).strays(value)):
                said = f"{said}, which does not fit what is at {where}"
                return Look(holds=False, either=True, said=said, expected=expected, found=shown)
            return Look(holds=there == params.exists, said=said, expected=expected, found=shown)
        if params.matches is None:
            expected = f"{show_json(params.equals)} at {params.path}"
        else:
            expected = f"a match for {quoted_pattern(params.matches)} at {params.path}"
        if not found:
            said = f"has no value at {params.path}; expected {expected}"
            return Look(holds=False, either=True, said=said, expected=expected, found="none")
        held = [await _holds(params, each.value) for each in found]
        wrong = next((each for each, held in zip(found, held, strict=True) if not held), None)
        shown = shorten(show_json((wrong or found[0]).value), 200)
        if wrong is None:
            return Look(holds=True, said=f"has {shown} at {params.path}", expected=expected, found=shown)
        said = f"has {shown} at {wrong.where}; expected {expected}"
        return Look(holds=False, either=None in held or any(held), said=said, expected=expected, found=shown)


async def _holds(params: JsonPathParams, value: Any) -> bool | None:
    """None where nothing can be compared: a pattern is for a text, and its spelling alone may keep it from matching."""
    if params.matches is None:
        return same_json(value, params.equals)
    if not isinstance(value, str):
        return None
    if await search(params.matches, value, case_sensitive=False) is not None:
        return True
    return None if await matches_as_read(params.matches, value, case_sensitive=False) else False
