"""`scripted/FILE`: a model that answers from a file of rules, for examples, demonstrations and tests.

Its times are real: it waits as long as the rules say, and uses the same clock as a live model.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Literal

import msgspec
import regex
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from steadyhand.errors import ModelError, ModelErrorKind, SetupError
from steadyhand.plugins.plugin import ModelSettings
from steadyhand.ports.model import Cut, Listener, cut_short
from steadyhand.records.base import shorten
from steadyhand.records.chat import Attempt, ChatRequest, ChatResponse, FinishReason, ToolCall, Usage
from steadyhand.spec.validation import Findings, validate
from steadyhand.spec.yaml import read_document
from steadyhand.text_match import PATIENCE_S, compiled, find, search_now

_ANSWERS = ("reply", "replies", "tool_calls", "json", "echo", "fail")

RulePurpose = Literal["agent", "user", "judge", "summary", "any"]


class _Strict(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)


class CallRule(_Strict):
    """A tool the model asks for."""

    name: str = Field(min_length=1)
    arguments: dict[str, Any] = {}


class FailRule(_Strict):
    """How the call fails. `attempts` is how many attempts at the same request fail; by default all."""

    kind: Literal["connect", "server", "rate_limit", "timeout", "stream", "hang"]
    status: int | None = Field(default=None, ge=100, le=599)
    attempts: int | None = Field(default=None, ge=1)
    retry_after_s: float | None = Field(default=None, ge=0)


class UsageRule(_Strict):
    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)


class ScriptedRule(_Strict):
    """A rule applies if all its conditions hold. The first rule that applies answers."""

    purpose: RulePurpose | list[RulePurpose] = "any"
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
    def _answers(self) -> ScriptedRule:
        given = [name for name in ("reply", "replies", "json", "echo") if self._has(name)]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are mutually exclusive; keep one")
        if not any(self._has(name) for name in _ANSWERS):
            raise ValueError(f"the rule has no answer; give one of {', '.join(_ANSWERS)}")
        if self.fail is not None and self.fail.attempts is not None and not any(map(self._has, _ANSWERS[:-1])):
            raise ValueError(f"after {self.fail.attempts} failing attempts there is no answer; give one")
        if self.pick != "turn" and self.replies is None:
            raise ValueError("pick needs replies to choose from")
        return self

    def _has(self, name: str) -> bool:
        if name == "json":
            return "json_" in self.model_fields_set
        if name == "echo":
            return self.echo
        return getattr(self, name) is not None

    def matches(self, request: ChatRequest) -> bool:
        """Raises `TimeoutError` if a pattern takes too long."""
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
        if self.match is not None and not _contains(self.match, text):
            return False
        if self.system is not None:
            system = "\n".join(message.content for message in request.messages if message.role == "system")
            return _contains(self.system, system)
        return True

    def _for_purpose(self, purpose: str) -> bool:
        wanted = self.purpose if isinstance(self.purpose, list) else [self.purpose]
        return "any" in wanted or purpose in wanted


class RulesFile(_Strict):
    rules: list[ScriptedRule] = Field(min_length=1)


def turn_of(request: ChatRequest) -> int:
    """The number of the answer, from 1."""
    return 1 + sum(message.role == "assistant" for message in request.messages)


def read_rules(path: Path) -> tuple[ScriptedRule, ...]:
    """Raises a `SetupError` with the place of every mistake in the file."""
    document, problems = read_document(str(path), str(path))
    rules: RulesFile | None = None
    if document is not None:
        findings = Findings(document, problems)
        rules = validate(RulesFile, document.data, (), findings)
        problems = findings.problems
    if problems or rules is None:
        raise SetupError("\n".join(["the scripted model's rules are not valid:", *map(str, problems)]))
    return tuple(rules.rules)


def _contains(pattern: str, text: str) -> bool:
    return search_now(pattern, text, case_sensitive=False, timeout_s=PATIENCE_S) is not None


_STATUS: dict[str, int] = {"server": 500, "rate_limit": 429, "stream": 200}


class ScriptedModel:
    """A `ports.model.ChatModel`, built by the model factory for `scripted`. The file is read once, here."""

    uses_network: ClassVar[bool] = False
    free: ClassVar[bool] = True
    names_file: ClassVar[bool] = True

    def __init__(self, settings: ModelSettings) -> None:
        """Raises `SetupError` if the file is missing or invalid."""
        self._file = settings.name
        self._rules = read_rules(settings.folder / settings.name)
        self._timeout_s = settings.timeout_s
        self._tries: dict[tuple[int, bytes], int] = {}

    @property
    def name(self) -> str:
        return f"scripted/{self._file}"

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        """Answer by the first rule that applies; see `ports.model.ChatModel.attempt`."""
        return await self._attempt(request, _Call(zero, None))

    async def relay(self, request: ChatRequest, listener: Listener, *, zero: float) -> ChatResponse:
        """Answer piece by piece, with the script's pauses; see `ports.model.RelayingModel.relay`."""
        call = _Call(zero, listener)
        try:
            return await self._attempt(request, call)
        except asyncio.CancelledError:
            if not listener.gone:
                raise
            attempt = msgspec.structs.replace(call.attempt(None), last_byte_ms=None)
            return msgspec.structs.replace(call.so_far(), attempt=attempt, finish_reason=FinishReason.HUNG_UP)

    async def _attempt(self, request: ChatRequest, call: _Call) -> ChatResponse:
        limit = self._timeout_s if request.timeout_s is None else request.timeout_s
        try:
            async with asyncio.timeout(limit), Cut(request.cut_after_ms) as cut:
                cut.start(call.started)
                response = await self._answer(request, call)
                if request.cut_after_ms is None or (response.attempt.latency_ms or 0.0) <= request.cut_after_ms:
                    return response
            return cut_short(call.so_far(), request.cut_after_ms or 0.0)
        except TimeoutError as error:
            raise call.failed(f"{self.name}: no complete answer within {limit:g} s", "timeout") from error

    async def close(self) -> None:
        """There is nothing to close."""

    async def _answer(self, request: ChatRequest, call: _Call) -> ChatResponse:
        number, rule = self._rule_for(request, call)
        fail = self._failure_of(rule, number, request)
        if fail is not None and fail.kind != "stream":
            await self._fail(fail, call, rule.delay_ms)
        text = _text(rule, request)
        calls = tuple(
            ToolCall(id=f"call_{turn_of(request)}_{index}", name=wanted.name, arguments=wanted.arguments)
            for index, wanted in enumerate(rule.tool_calls or ())
        )
        await _pause(rule.delay_ms)
        call.status = 200
        pieces = _cut(text if fail is None else text[: len(text) // 2], rule.chunk_chars)
        for index, piece in enumerate(pieces):
            if index:
                await _pause(rule.chunk_ms)
            await call.says(piece)
        if fail is not None:
            await self._fail(fail, call, 0.0)
        if calls or not pieces:
            call.arrived("")
        usage = rule.usage
        reason = rule.finish_reason or ("tool_calls" if calls else "stop")
        return ChatResponse(
            text=text,
            attempt=call.attempt(None),
            tool_calls=calls,
            usage=None if usage is None else Usage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens),
            chunks=tuple(call.chunks),
            finish_reason=FinishReason(reason),
            finish_raw=reason,
            token_limit=request.max_tokens,
        )

    def _rule_for(self, request: ChatRequest, call: _Call) -> tuple[int, ScriptedRule]:
        shown = shorten(request.messages[-1].content, 120) if request.messages else ""
        for number, rule in enumerate(self._rules, start=1):
            try:
                if rule.matches(request):
                    return number, rule
            except TimeoutError as error:
                text = f"{self.name}: a pattern of rule {number} timed out on {shown!r}; make it simpler"
                raise call.failed(text, "refused", retryable=False) from error
        text = (
            f"{self.name}: none of the {len(self._rules)} rules matches a request for the {request.purpose} "
            f"(turn {turn_of(request)}) that ends with {shown!r}; add a rule for it"
        )
        raise call.failed(text, "refused", retryable=False)

    def _failure_of(self, rule: ScriptedRule, number: int, request: ChatRequest) -> FailRule | None:
        """How this attempt has to fail, if at all. Attempts are counted per rule and request."""
        fail = rule.fail
        if fail is None or fail.attempts is None:
            return fail
        key = (number, hashlib.sha256(msgspec.json.encode(request)).digest())
        tried = self._tries[key] = self._tries.get(key, 0) + 1
        return fail if tried <= fail.attempts else None

    async def _fail(self, fail: FailRule, call: _Call, delay_ms: float) -> None:
        await _pause(delay_ms)
        if fail.kind == "hang":
            await asyncio.get_running_loop().create_future()
        kind: ModelErrorKind = "server" if fail.kind == "hang" else fail.kind
        call.status = fail.status or _STATUS.get(kind)
        said = {
            "connect": "scripted connection failure",
            "server": f"scripted server error ({call.status})",
            "rate_limit": f"scripted rate limit ({call.status})",
            "timeout": "scripted timeout",
            "stream": "scripted truncation of the answer",
        }[kind]
        raise call.failed(f"{self.name}: {said}", kind, retry_after_s=fail.retry_after_s)


class _Call:
    """The times of one attempt."""

    def __init__(self, zero: float, listener: Listener | None) -> None:
        self.started: float = perf_counter()
        self.chunks: list[tuple[float, int]] = []
        self.status: int | None = None
        self._pieces: list[str] = []
        self._zero: float = zero
        self._first: float | None = None
        self._last: float | None = None
        self._listener: Listener | None = listener

    async def says(self, piece: str) -> None:
        self.arrived(piece)
        if self._listener is not None:
            self._listener.say(piece)
            if self._listener.full:
                await self._listener.ready()

    def arrived(self, piece: str) -> None:
        self._last = perf_counter()
        if self._first is None:
            self._first = self._last
        if piece:
            self._pieces.append(piece)
            self.chunks.append((round((self._last - self.started) * 1000, 3), len(piece)))

    def so_far(self) -> ChatResponse:
        """What has arrived so far, as a response."""
        return ChatResponse(text="".join(self._pieces), attempt=self.attempt(None), chunks=tuple(self.chunks))

    def attempt(self, error: str | None, *, connected: bool = True) -> Attempt:
        started = self._after(self.started)
        assert started is not None
        return Attempt(
            started_ms=started,
            connected_ms=started if connected else None,
            sent_ms=started if connected else None,
            first_byte_ms=self._after(self._first),
            first_token_ms=self._after(self._first),
            last_byte_ms=None if error is not None else self._after(self._last),
            status=self.status,
            streamed=True,
            error=error,
        )

    def failed(
        self, text: str, kind: ModelErrorKind, *, retryable: bool = True, retry_after_s: float | None = None
    ) -> ModelError:
        error = ModelError(text, kind=kind, retryable=retryable, status=self.status, retry_after_s=retry_after_s)
        error.attempt = self.attempt(text, connected=kind != "connect")
        return error

    def _after(self, moment: float | None) -> float | None:
        return None if moment is None else round((moment - self._zero) * 1000, 3)


async def _pause(ms: float) -> None:
    if ms > 0:
        await asyncio.sleep(ms / 1000)


def _text(rule: ScriptedRule, request: ChatRequest) -> str:
    if rule.reply is not None:
        return rule.reply
    if rule.replies is not None:
        if rule.pick == "random":
            return random.Random(request.seed or 0).choice(rule.replies)  # noqa: S311 -- a script, not a secret
        return rule.replies[min(turn_of(request), len(rule.replies)) - 1]
    if "json_" in rule.model_fields_set:
        return msgspec.json.encode(rule.json_).decode()
    if rule.echo:
        return request.messages[-1].content if request.messages else ""
    return ""


def _cut(text: str, chunk_chars: int | None) -> list[str]:
    if chunk_chars is None:
        return [text] if text else []
    return [text[at : at + chunk_chars] for at in range(0, len(text), chunk_chars)]
