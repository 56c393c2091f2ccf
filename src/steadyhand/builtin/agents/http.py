"""The `http` agent: an agent behind a chat endpoint, OpenAI-compatible or of its own: then requests are made from a
template, and the reply is found by its path in the answer."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, cast
from urllib.parse import quote

import msgspec
from pydantic import Field

from steadyhand.builtin.agents.addresses import filled_addresses, reached_through, shown_url
from steadyhand.builtin.agents.message_list import AgentStep, tool_calls
from steadyhand.builtin.agents.options import TracedOptions
from steadyhand.builtin.agents.trajectory import TrajectoryReporter, latest_user_text
from steadyhand.builtin.http_model import HttpModel
from steadyhand.errors import AgentError, ModelError, SetupError
from steadyhand.http.client import HttpClient
from steadyhand.http.endpoint import Endpoint
from steadyhand.plugins.plugin import AgentSettings, Options
from steadyhand.ports.agent import Reply, Shows, TrialContext, Turn
from steadyhand.ports.model import ChatModel
from steadyhand.records.chat import FINISH_FIELDS, ChatRequest, ChatResponse, FinishReason, WireDialect
from steadyhand.records.event import ActionStatus
from steadyhand.records.tool_result import content_has_failed, has_failed
from steadyhand.wire.dialect import Wire
from steadyhand.wire.stream import AnswerReader, UnreadableResponse

Method = Literal["POST", "PUT", "PATCH", "GET", "DELETE"]
VALUES: dict[str, Any] = dict.fromkeys(("message", "messages", "session", "trial", "turn", "seed"))
"""The placeholders in templates, besides the addresses of the trial."""
NOT_SEEN = Shows(
    advice="have it export its tool calls as spans (the agent's `traces` option, --otlp-port), give the path to them "
    "in its answer (`tool_calls`), give it {mocks_url} or {mcp_url} in a header or the body, or run it as a "
    "`python:` or `command:` agent"
)


class SessionCall(Options):
    """A request before the first turn or after the last one. `path` goes after the agent's URL."""

    method: Method = "POST"
    path: str = ""
    body: Any = None


class HttpAgentOptions(TracedOptions):
    """`api_key_env` names the variable that holds the agent's key. With `reply`, the endpoint is custom, as configured
    here: `reply`, `tool_calls` and `session` are paths in its answer, such as `data.0.text`."""

    api_key_env: str | None = Field(default=None, min_length=1)
    headers: dict[str, str] = {}
    method: Method = "POST"
    body: Any = None
    reply: str | None = None
    tool_calls: str | None = Field(default=None, min_length=1)
    session: str | None = Field(default=None, min_length=1)
    start: SessionCall | None = None
    end: SessionCall | None = None

    @property
    def shows(self) -> Shows:
        """What can be seen of the agent: from its trace, its answers, and services whose addresses are in a header."""
        begun = None if self.start is None else self.start.body
        led = reached_through([*self.headers.values(), str(self.body), str(begun)])
        served = "actions" in led and not self.tool_calls
        return msgspec.structs.replace(
            NOT_SEEN,
            actions="self_reported" if self.tool_calls else "seen" if served else "not_seen",
            services="seen" if "services" in led else "not_seen",
            database="seen" if "database" in led else "not_seen",
            traced=self.traces == "tools",
            served_only=served,
        )


class HttpAgent:
    """Sends the whole exchange and replies with the answer, timed at the socket.

    The agent has its own system prompt and runs its own tools: the scenario's `character` is not sent, and an answer
    that asks us to run a tool is an error. `client` belongs to this trial and is closed with it.
    """

    uses_plugins: bool = False

    def __init__(self, settings: AgentSettings, options: HttpAgentOptions, client: ChatModel) -> None:
        self.name: str = f"http:{shown_url(settings.target)}"
        self._client: _AskedOnce = _AskedOnce(client, self.name)
        self._options = options
        self._trial: TrialContext | None = None
        self._turns = 0
        self.session: str = str(uuid.uuid4())
        self.shows: Shows = options.shows

    async def open(self, trial: TrialContext) -> None:
        self._trial = trial

    async def respond(self, turn: Turn) -> Reply:
        assert self._trial is not None, "respond before open"
        response = await self._ask(self._trial, turn)
        if response.tool_calls:
            asked = ", ".join(call.name for call in response.tool_calls)
            raise AgentError(
                f"{self.name} asks for the tools {asked} to be run; an `http` agent runs its own. To test a bare "
                "model with tools, use the `runtime` agent with it as --model"
            )
        return Reply(text=response.text)

    async def _ask(self, trial: TrialContext, turn: Turn) -> ChatResponse:
        self._turns += 1
        request = ChatRequest(
            messages=turn.messages, seed=trial.seed, purpose="agent", headers=self.headers(trial, self._turns)
        )
        return await trial.call(self._client, request)

    def headers(self, trial: TrialContext, turn: int) -> dict[str, str]:
        """Headers that identify the trial and give the addresses of its services and traces."""
        own = {
            name: filled_addresses(value, trial.addresses.names, f"{self.name}: headers.{name}")
            for name, value in self._options.headers.items()
            if "{" in value
        }
        traceparent = trial.addresses.traceparent(turn)
        return {
            "X-Steadyhand-Trial": quote(trial.trial_id, safe="#-_. /"),
            "X-Steadyhand-Session": quote(self.session, safe="-_."),
            **({} if traceparent is None else {"traceparent": traceparent}),
            **own,
        }

    async def close(self) -> None:
        self._trial = None
        await self._client.close()


class _AskedOnce:
    """Retry only if the agent cannot have started: otherwise it may have acted before it failed."""

    def __init__(self, client: ChatModel, name: str) -> None:
        self._client = client
        self.name: str = name

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        try:
            return await self._client.attempt(request, zero=zero)
        except ModelError as error:
            unsent = error.attempt is None or error.attempt.sent_ms is None
            error.retryable = error.retryable and (unsent or error.kind == "rate_limit")
            raise

    async def close(self) -> None:
        await self._client.close()


class TemplateAgent(HttpAgent):
    """An agent with a custom endpoint, as configured. Its session is started and ended with the trial."""

    def __init__(
        self,
        settings: AgentSettings,
        options: HttpAgentOptions,
        client: TemplateModel,
        *,
        sessions: Mapping[str, TemplateModel],
    ) -> None:
        super().__init__(settings, options, client)
        self._endpoint = client
        self._sessions = sessions
        self._reporter: TrajectoryReporter | None = None

    async def open(self, trial: TrialContext) -> None:
        await super().open(trial)
        self._reporter = TrajectoryReporter(trial)
        if "start" in self._sessions:
            await self._session_call("start", trial)
            if self._options.session is not None:
                self._take_session(self._sessions["start"].wire.answer)

    async def respond(self, turn: Turn) -> Reply:
        assert self._trial is not None, "respond before open"
        assert self._reporter is not None
        wire = self._endpoint.wire
        wire.values = self._values(self._trial, turn)
        response = await self._ask(self._trial, turn)
        if self._options.session is not None and "start" not in self._sessions:
            self._take_session(wire.answer)
        if self._options.tool_calls is not None:
            self._reporter.taken(self._steps_at(wire.answer, self._options.tool_calls))
        return Reply(text=response.text)

    async def close(self) -> None:
        trial = self._trial
        try:
            if trial is not None and "end" in self._sessions:
                await self._session_call("end", trial)
        finally:
            for endpoint in self._sessions.values():
                await endpoint.close()
            await super().close()

    async def _session_call(self, which: str, trial: TrialContext) -> None:
        endpoint = self._sessions[which]
        endpoint.wire.values = self._values(trial, None)
        request = ChatRequest(messages=(), headers=self.headers(trial, 0))
        try:
            await endpoint.attempt(request, zero=time.perf_counter())
        except ModelError as error:
            raise AgentError(f"{self.name}: the {which} of its session failed: {error}") from error

    def _values(self, trial: TrialContext, turn: Turn | None) -> dict[str, Any]:
        messages = () if turn is None else turn.messages
        return {
            **trial.addresses.names,
            "message": "" if turn is None else latest_user_text(turn),
            "messages": [{"role": each.role, "content": each.content} for each in messages],
            "session": self.session,
            "trial": trial.trial_id,
            "turn": self._turns + (turn is not None),
            "seed": trial.seed,
        }

    def _take_session(self, answer: Any) -> None:
        try:
            found = at_path(answer, self._options.session or "")
        except LookupError as error:
            raise AgentError(f"{self.name}: option session: {error}") from error
        if not isinstance(found, str | int):
            raise AgentError(f"{self.name}: option session points to a {type(found).__name__}; expected text")
        self.session = str(found)

    def _steps_at(self, answer: Any, path: str) -> list[AgentStep]:
        """An answer without tool calls may leave them out, at the end of the path only, and not if it has nearly that
        name: the path is then probably wrong."""
        try:
            found = at_path(answer, path)
        except LookupError as error:
            above, _, last = path.rpartition(".")
            try:
                outer = at_path(answer, above)
            except LookupError:
                outer = None
            held = [str(name) for name in cast("dict[Any, Any]", outer)] if isinstance(outer, dict) else []
            if not isinstance(outer, dict) or last.lstrip("-").isdigit() or get_close_matches(last, held, cutoff=0.75):
                raise AgentError(f"{self.name}: option tool_calls: {error}") from error
            return []
        try:
            calls = tool_calls(found)
        except AgentError as error:
            raise AgentError(f"{self.name}: {error}") from error
        steps: list[AgentStep] = []
        for number, (call, entry) in enumerate(zip(calls, cast("list[Any]", found or ()), strict=True), start=1):
            call_id = call.id or f"call {number}"
            failed = has_failed(entry)
            failed = content_has_failed(entry.get("result", entry.get("output"))) if failed is None else failed
            status: ActionStatus | None = None if failed is None else "error" if failed else "success"
            steps.append(msgspec.structs.replace(call, id=call_id, failed=failed, status=status))
            result = next((entry[name] for name in ("result", "output", "error") if entry.get(name) is not None), None)
            if result is not None:
                steps.append(AgentStep(kind="result", id=call_id, name=call.name, content=result, failed=failed))
        return steps


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
