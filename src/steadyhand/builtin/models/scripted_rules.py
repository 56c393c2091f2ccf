"""The rules file of a scripted model: read, checked strictly, matched against a request."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import regex
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from steadyhand.builtin.models.scripted_yaml import read_yaml
from steadyhand.errors import SetupError
from steadyhand.records.chat import ChatRequest
from steadyhand.text_match import compiled, find, search_now

_REGEX_TIMEOUT_S = 1.0
_MAX_BYTES = 1024 * 1024
_ANSWERS = ("reply", "replies", "tool_calls", "json", "echo", "fail")

Purpose = Literal["agent", "user", "judge", "summary", "any"]


class _Strict(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)


class CallRule(_Strict):
    """A tool the model asks for."""

    name: str = Field(min_length=1)
    arguments: dict[str, Any] = {}


class FailRule(_Strict):
    """How the call fails. `attempts` is how many tries at the same request do; without it all of them."""

    kind: Literal["connect", "server", "rate_limit", "timeout", "stream", "hang"]
    status: int | None = Field(default=None, ge=100, le=599)
    attempts: int | None = Field(default=None, ge=1)
    retry_after_s: float | None = Field(default=None, ge=0)


class UsageRule(_Strict):
    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)


class Rule(_Strict):
    """One rule: all its conditions must hold; the first rule of the file that matches answers."""

    purpose: Purpose | list[Purpose] = "any"
    match: str | None = None
    contains: str | None = None
    system: str | None = None
    turn: int | None = Field(default=None, ge=1)
    tool_results: bool | None = None

    reply: str | None = None
    replies: list[str] | None = Field(default=None, min_length=1)
    pick: Literal["turn", "random"] = "turn"
    tool_calls: list[CallRule] | None = Field(default=None, min_length=1)
    json_: Any = Field(default=None, alias="json")
    echo: bool = False
    fail: FailRule | None = None

    delay_ms: float = Field(default=0.0, ge=0)
    chunk_chars: int | None = Field(default=None, ge=1)
    chunk_ms: float = Field(default=0.0, ge=0)
    usage: UsageRule | None = None
    finish_reason: str | None = None

    @field_validator("match", "system")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            try:
                compiled(pattern, case_sensitive=False)
            except regex.error as error:
                raise ValueError(f"not a regular expression: {error}") from error
        return pattern

    @model_validator(mode="after")
    def _answers(self) -> Rule:
        given = [name for name in ("reply", "replies", "json", "echo") if self._has(name)]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} exclude one another; keep one")
        if not any(self._has(name) for name in _ANSWERS):
            raise ValueError(f"the rule answers nothing; give one of {', '.join(_ANSWERS)}")
        if self.fail is not None and self.fail.attempts is not None and not any(map(self._has, _ANSWERS[:-1])):
            raise ValueError(f"after {self.fail.attempts} failing attempts there is no answer; give one")
        if self.pick != "turn" and self.replies is None:
            raise ValueError("pick chooses among replies, and there are none")
        return self

    def _has(self, name: str) -> bool:
        if name == "json":
            return "json_" in self.model_fields_set
        if name == "echo":
            return self.echo
        return getattr(self, name) is not None

    def matches(self, request: ChatRequest) -> bool:
        """Raises `TimeoutError` when a pattern takes too long."""
        last = request.messages[-1] if request.messages else None
        text = last.content if last is not None else ""
        if not self._for_purpose(request.purpose):
            return False
        if self.turn is not None and self.turn != turn_of(request):
            return False
        if self.tool_results is not None and self.tool_results != (last is not None and last.role == "tool"):
            return False
        if self.contains is not None and find(text, self.contains, case_sensitive=False) is None:
            return False
        if self.match is not None and not _found(self.match, text):
            return False
        if self.system is not None:
            system = "\n".join(message.content for message in request.messages if message.role == "system")
            return _found(self.system, system)
        return True

    def _for_purpose(self, purpose: str) -> bool:
        wanted = self.purpose if isinstance(self.purpose, list) else [self.purpose]
        return "any" in wanted or purpose in wanted


class RulesFile(_Strict):
    rules: list[Rule] = Field(min_length=1)


def turn_of(request: ChatRequest) -> int:
    """Which answer of the model this is: one more than it has given so far."""
    return 1 + sum(message.role == "assistant" for message in request.messages)


def read_rules(path: Path) -> tuple[Rule, ...]:
    """Raises `SetupError` that names the file, and the rule and field of every mistake in it."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise SetupError(f"cannot read the scripted model's rules {path}: {error.strerror}") from error
    if len(raw) > _MAX_BYTES:
        raise SetupError(f"{path}: {len(raw)} bytes is too long for a rules file; {_MAX_BYTES} are allowed")
    try:
        value = read_yaml(raw)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SetupError(f"{path}: not readable as YAML: {' '.join(str(error).split())}") from error
    if not isinstance(value, dict):
        raise SetupError(f"{path}: expected a list of rules under 'rules:'")
    try:
        return tuple(RulesFile.model_validate(value).rules)
    except ValidationError as error:
        found = "\n".join(_problem(cast("dict[str, Any]", problem)) for problem in error.errors(include_url=False))
        raise SetupError(f"{path}: the rules are wrong:\n{found}") from error


def _problem(problem: dict[str, Any]) -> str:
    """One mistake as `  rule 2: delay_ms: ...`."""
    place = [part for part in cast("Sequence[int | str]", problem["loc"]) if isinstance(part, int) or part.islower()]
    where = "file"
    if len(place) > 1 and place[0] == "rules" and isinstance(place[1], int):
        where, place = f"rule {place[1] + 1}", place[2:]
    message = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        message = "unknown key" + _nearest(str(place[-1]), place[:-1], top=where == "file")
    path = ".".join(str(part) for part in place)
    return f"  {where}: {path}: {message}" if path else f"  {where}: {message}"


def _nearest(key: str, parents: Sequence[int | str], *, top: bool) -> str:
    model: type[BaseModel] = RulesFile if top else Rule
    nested: dict[str, type[BaseModel]] = {"fail": FailRule, "tool_calls": CallRule, "usage": UsageRule}
    if parents:
        model = nested.get(str(parents[0]), model)
    names = [field.alias or name for name, field in model.model_fields.items()]
    near = difflib.get_close_matches(key, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else f" (known: {', '.join(names)})"


def _found(pattern: str, text: str) -> bool:
    return search_now(pattern, text, case_sensitive=False, timeout_s=_REGEX_TIMEOUT_S) is not None
