"""The `a2a` agent: an agent behind the Agent2Agent protocol, reached with the official SDK."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import posixpath
import ssl
import uuid
from collections.abc import AsyncIterator, Mapping
from time import perf_counter
from typing import Any
from urllib.parse import quote, urldefrag, urlsplit

import httpx
import msgspec
from a2a.client import (
    A2ACardResolver,
    AgentCardResolutionError,
    Client,
    ClientCallContext,
    ClientConfig,
    ClientFactory,
)
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    TaskState,
)
from a2a.utils.errors import A2AError
from google.protobuf.json_format import ParseError

from steadyhand.builtin.agents.a2a_task import TurnSoFar, state_name
from steadyhand.builtin.agents.addresses import filled_addresses, limit_of, shown_url
from steadyhand.builtin.agents.options import A2aOptions
from steadyhand.builtin.agents.trajectory import TrajectoryReporter
from steadyhand.errors import AgentError, ModelError, ModelErrorKind, SetupError, WorkspaceError
from steadyhand.plugins.extras import keep_quiet
from steadyhand.ports.agent import Reply, Shows, TrialContext, Turn
from steadyhand.records.base import shorten
from steadyhand.records.chat import Attempt, ChatRequest, ChatResponse, FinishReason

LARGEST_ANSWER = 32 * 1024 * 1024
_OPEN_S = 30.0
_CANCEL_S = 2.0
_LOOK_AGAIN_S = 0.2
_OLD_CARD = "/.well-known/agent.json"
_BINDINGS = ["JSONRPC", "HTTP+JSON"]
_SERVED = ("{mocks_url}", "{mcp_url}")
_SHOWN = 500
NOT_SEEN = Shows(
    advice="have it export its tool calls as spans (the agent's `traces` option, --otlp-port), or run it as a "
    "`python:` or `command:` agent"
)
_STATUS_KINDS: Mapping[int, ModelErrorKind] = {401: "auth", 403: "auth", 408: "timeout", 429: "rate_limit"}


def shows_of_a2a(options: A2aOptions) -> Shows:
    """What can be seen of the agent: its trace, and services whose addresses are in a header."""
    reaches = any(name in value for value in options.headers.values() for name in _SERVED)
    return msgspec.structs.replace(
        NOT_SEEN, services="seen" if reaches else "not_seen", traced=options.traces == "tools"
    )


class A2aAgent:
    """Sends the new messages of the exchange and replies with the result of the agent's task. The agent keeps the rest
    under its context id.

    A task that fails, is cancelled or asks for credentials is an `AgentError`. One that asks for input replies with the
    question, and the next turn answers it. One that is rejected replies with the reason, marked as a refusal.
    """

    uses_plugins: bool = False

    def __init__(
        self, target: str, options: A2aOptions, *, key: str = "", proxy: tuple[str, str] | None = None
    ) -> None:
        """`proxy` is its URL and the value of `Proxy-Authorization`. Raises `SetupError` for an invalid URL."""
        url, _ = urldefrag(target)
        parts = urlsplit(url)
        self.name: str = f"a2a:{shown_url(target)}"
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise SetupError(f"agent {self.name}: expected a2a:URL, such as a2a:http://127.0.0.1:9999")
        self._url: str = url
        self._options: A2aOptions = options
        self._key: str = key
        self._proxy: tuple[str, str] | None = proxy
        self._http: httpx.AsyncClient | None = None
        self._client: Client | None = None
        self._trial: TrialContext | None = None
        self._reporter: TrajectoryReporter | None = None
        self._session: str = str(uuid.uuid4())
        self._known: int = 0
        self._turns: int = 0
        self._last: TurnSoFar | None = None
        self.shows: Shows = shows_of_a2a(options)

    async def open(self, trial: TrialContext) -> None:
        """Read the agent's card, and choose a protocol binding. Raises `AgentError`."""
        keep_quiet("a2a")
        self._trial = trial
        self._reporter = TrajectoryReporter(trial)
        secret = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._http = httpx.AsyncClient(
            headers={
                "Accept-Encoding": "identity",
                **secret,
                **{k: v for k, v in self._options.headers.items() if "{" not in v},
            },
            timeout=httpx.Timeout(_OPEN_S, read=None),
            verify=_certificates(),
            trust_env=False,
            proxy=_proxy(self._proxy),
            event_hooks={"response": [_checked]},
        )
        try:
            async with asyncio.timeout(_OPEN_S):
                card = await self._card(self._http)
        except TimeoutError:
            raise AgentError(f"{self.name}: no agent card within {_OPEN_S:g} s") from None
        self._check_addresses(card)
        config = ClientConfig(httpx_client=self._http, supported_protocol_bindings=_BINDINGS)
        try:
            self._client = ClientFactory(config).create(card)
        except (ValueError, ImportError) as error:
            offered = ", ".join(each.protocol_binding for each in card.supported_interfaces) or "none"
            raise AgentError(f"{self.name}: its card offers {offered}; expected {' or '.join(_BINDINGS)}") from error

    async def respond(self, turn: Turn) -> Reply:
        assert self._trial is not None, "respond before open"
        self._turns += 1
        endpoint = _Endpoint(self, self._request(turn), limit_of(turn, self._options.timeout_s))
        request = ChatRequest(messages=turn.messages, seed=self._trial.seed, purpose="agent")
        try:
            response = await self._trial.call(endpoint, request)
        except (asyncio.CancelledError, ModelError):
            # The agent may continue with this turn. In a new context, its late answer cannot be mistaken for the next
            # one.
            self._last, self._known = None, 0
            await asyncio.shield(self._give_up(endpoint.so_far))
            raise
        self._last = so_far = endpoint.so_far
        self._check_state(so_far)
        self._known = len(turn.messages) + 1 if so_far.context_id else 0
        await self._keep(so_far)
        return Reply(text=response.text)

    async def close(self) -> None:
        http, self._http = self._http, None
        self._client = self._trial = self._reporter = None
        if http is not None:
            await http.aclose()

    async def _card(self, http: httpx.AsyncClient) -> AgentCard:
        base, _, path = self._url.rpartition("/") if self._url.endswith(".json") else (self._url, "", "")
        resolver = A2ACardResolver(http, base)
        try:
            try:
                return await resolver.get_agent_card(relative_card_path=path or None)
            except AgentCardResolutionError as error:
                if error.status_code != 404 or path:
                    raise
                return await resolver.get_agent_card(relative_card_path=_OLD_CARD)
        except (A2AError, httpx.HTTPError, ValueError, ParseError) as error:
            raise AgentError(f"{self.name}: its agent card cannot be read: {shorten(str(error), _SHOWN)}") from error

    def _check_addresses(self, card: AgentCard) -> None:
        """A key is sent only to the host that it was meant for, whatever address is on the card."""
        meant = _origin(self._url)
        elsewhere = sorted({each.url for each in card.supported_interfaces if _origin(each.url) != meant})
        if elsewhere and (self._key or self._options.headers):
            raise AgentError(
                f"{self.name}: its card points to a different server, {', '.join(elsewhere)}, which is sent no key or "
                "header; use that address for the agent, or fix the card"
            )

    def _request(self, turn: Turn) -> SendMessageRequest:
        last = self._last
        message = Message(role=Role.ROLE_USER, message_id=str(uuid.uuid4()), parts=[Part(text=self._news(turn))])
        if last is not None:
            message.context_id = last.context_id
            if last.state == TaskState.TASK_STATE_INPUT_REQUIRED:
                message.task_id = last.task_id
        return SendMessageRequest(message=message)

    def _news(self, turn: Turn) -> str:
        """Messages that have not been sent yet, as one text."""
        assert self._reporter is not None
        unheard = turn.messages[self._known :]
        if len(unheard) == 1 and unheard[0].role == "user":
            return unheard[0].content
        why = "gives no context id" if self._turns > 1 else "takes one message at a time"
        self._reporter.note(f"{self.name} {why}; {len(unheard)} messages were sent as one text", level="warning")
        return "\n\n".join(f"{message.role}: {message.content}" for message in unheard)

    async def events(self, request: SendMessageRequest, so_far: TurnSoFar) -> None:
        """Send the message, and collect events until the agent's turn is over."""
        assert self._client is not None
        context = self._context()
        if self._last is not None and request.message.task_id:
            so_far.leave_out(self._last.artifact_ids)
        stream: Any = self._client.send_message(request, context=context)
        async with contextlib.aclosing(stream):
            async for event in stream:
                so_far.add(event)
                if so_far.over:
                    break
        while not so_far.over:
            if not so_far.task_id:
                raise AgentError(f"{self.name}: its answer ended without a message or a task")
            await asyncio.sleep(_LOOK_AGAIN_S)
            so_far.take_task(await self._client.get_task(GetTaskRequest(id=so_far.task_id), context=context))

    def _context(self) -> ClientCallContext:
        """Headers that identify the trial and give the addresses of its services and traces."""
        trial = self._trial
        assert trial is not None
        own = {
            name: filled_addresses(value, trial.addresses.names, f"{self.name}: headers.{name}")
            for name, value in self._options.headers.items()
            if "{" in value
        }
        traceparent = trial.addresses.traceparent(self._turns)
        headers = {
            "X-Steadyhand-Trial": quote(trial.trial_id, safe="#-_. /"),
            "X-Steadyhand-Session": self._session,
            **({} if traceparent is None else {"traceparent": traceparent}),
            **own,
        }
        return ClientCallContext(service_parameters=headers)

    def _check_state(self, so_far: TurnSoFar) -> None:
        said = f": {shorten(so_far.text, _SHOWN)}" if so_far.text else ", no reason given"
        match so_far.state:
            case TaskState.TASK_STATE_FAILED:
                raise AgentError(f"{self.name}: its task failed{said}")
            case TaskState.TASK_STATE_CANCELED:
                raise AgentError(f"{self.name}: its task was cancelled{said}")
            case TaskState.TASK_STATE_AUTH_REQUIRED:
                raise AgentError(f"{self.name}: it asks for credentials (auth-required){said}")
            case _:
                pass

    async def _keep(self, so_far: TurnSoFar) -> None:
        """Note the agent's progress messages, and save the files that it returns in the workspace."""
        assert self._trial is not None
        assert self._reporter is not None
        for said in so_far.progress:
            self._reporter.note(f"{self.name} reported while working: {said}")
        if so_far.state == TaskState.TASK_STATE_REJECTED:
            self._reporter.note(f"{self.name} rejected the task")
        for name, content in so_far.files.items():
            path = posixpath.normpath(name.replace("\\", "/")).lstrip("/")
            try:
                await self._trial.environment.write(path, content)
            except WorkspaceError as error:
                raise AgentError(f"{self.name}: a file it returned cannot be saved: {error}") from error
            self._reporter.note(f"{self.name} returned the file {name} ({len(content)} bytes)")
        if so_far.files and not self._trial.scenario.setup.virtual_fs:
            self.shows = msgspec.structs.replace(self.shows, files="self_reported")

    async def _give_up(self, so_far: TurnSoFar) -> None:
        """Ask the agent to stop. It may not comply."""
        if self._client is None or not so_far.task_id or so_far.over:
            return
        with contextlib.suppress(A2AError, httpx.HTTPError, TimeoutError, ValueError):
            async with asyncio.timeout(_CANCEL_S):
                await self._client.cancel_task(CancelTaskRequest(id=so_far.task_id), context=self._context())

    @property
    def proxied(self) -> bool:
        return self._proxy is not None


class _Endpoint:
    """A `ChatModel` for one turn. It is called only once, because the agent may have acted on the request."""

    def __init__(self, agent: A2aAgent, request: SendMessageRequest, limit_s: float | None) -> None:
        self._agent = agent
        self._request = request
        self._limit_s = limit_s
        self.so_far: TurnSoFar = TurnSoFar()

    @property
    def name(self) -> str:
        return self._agent.name

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        self.so_far = so_far = TurnSoFar()
        sent = perf_counter()
        limit = asyncio.timeout(self._limit_s)
        try:
            async with limit:
                await self._agent.events(self._request, so_far)
        except TimeoutError:
            state = "" if so_far.state is None else f"; its task is {state_name(so_far.state)}"
            message = f"{self.name}: no reply within {self._limit_s:g} s{state}"
            raise self._failed(ModelError(message, kind="timeout"), zero, sent) from None
        except (A2AError, httpx.HTTPError, ParseError, ValueError, KeyError) as error:
            raise self._failed(_model_error(self.name, error), zero, sent) from error
        refused = so_far.state == TaskState.TASK_STATE_REJECTED
        return ChatResponse(
            text=so_far.text,
            attempt=self._attempt(zero, sent),
            chunks=tuple((round((at - sent) * 1000.0, 3), length) for at, length in so_far.pieces),
            finish_reason=FinishReason.REFUSAL if refused else FinishReason.STOP,
            finish_raw=None if so_far.state is None else state_name(so_far.state),
        )

    def _failed(self, error: ModelError, zero: float, sent: float) -> ModelError:
        error.attempt = self._attempt(zero, sent, error=str(error))
        return error

    def _attempt(self, zero: float, sent: float, *, error: str | None = None) -> Attempt:
        def after(moment: float) -> float:
            return round((moment - zero) * 1000.0, 3)

        pieces = self.so_far.pieces
        return Attempt(
            started_ms=after(sent),
            sent_ms=after(sent),
            first_token_ms=after(pieces[0][0]) if pieces else None,
            last_byte_ms=after(perf_counter()),
            streamed=len(pieces) > 1,
            proxied=self._agent.proxied,
            error=error,
        )

    async def close(self) -> None:
        """The agent owns the connection."""


def _model_error(name: str, error: Exception) -> ModelError:
    """Classified by the underlying exception, because the SDK has a single error type."""
    cause = error.__cause__ if isinstance(error.__cause__, httpx.HTTPError | ValueError) else error
    said = next(iter(str(error).splitlines()), "") or type(error).__name__
    message = f"{name}: {shorten(said, _SHOWN)}"
    match cause:
        case httpx.HTTPStatusError():
            status = cause.response.status_code
            kind: ModelErrorKind = _STATUS_KINDS.get(status, "server" if status >= 500 else "refused")
            return ModelError(message, kind=kind, status=status, retryable=status == 429)
        case httpx.ConnectError() | httpx.ConnectTimeout() | httpx.ProxyError():
            return ModelError(message, kind="connect", retryable=True)
        case httpx.TransportError():
            return ModelError(message, kind="stream")
        case A2AError():
            return ModelError(message, kind="refused")
        case _:
            return ModelError(f"{name}: its answer cannot be read: {shorten(said, _SHOWN)}", kind="malformed")


async def _checked(response: httpx.Response) -> None:
    assert isinstance(response.stream, httpx.AsyncByteStream)
    events = response.headers.get("content-type", "").startswith("text/event-stream")
    response.stream = _Checked(response.stream, _rpc_id(response.request), b"\n\n" if events else None)


class _RpcId(msgspec.Struct):
    jsonrpc: str | None = None
    id: Any = None
    error: Any = None


def _rpc_id(request: httpx.Request) -> Any:
    """The id that the answer must repeat; None if this is not a JSON-RPC call."""
    try:
        asked = msgspec.json.decode(request.content, type=_RpcId)
    except (msgspec.DecodeError, httpx.RequestNotRead):
        return None
    return asked.id if asked.jsonrpc else None


class _Checked(httpx.AsyncByteStream):
    """The body of an answer, up to a limit. The SDK does not compare the ids of calls and answers."""

    def __init__(self, stream: httpx.AsyncByteStream, rpc_id: Any, gap: bytes | None) -> None:
        self._stream = stream
        self._rpc_id = rpc_id
        self._gap = gap

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taken = 0
        unread = b""
        async for piece in self._stream:
            taken += len(piece)
            if taken > LARGEST_ANSWER:
                raise httpx.ReadError(f"the answer is larger than {LARGEST_ANSWER // 2**20} MiB")
            if self._rpc_id is not None:
                unread += piece.replace(b"\r", b"")
                if self._gap is not None:
                    *events, unread = unread.split(self._gap)
                    for event in events:
                        self._check(event)
            yield piece
        self._check(unread)

    def _check(self, answer: bytes) -> None:
        if self._gap is not None:
            lines = [line.removeprefix(b"data:") for line in answer.split(b"\n") if line.startswith(b"data:")]
            answer = b"\n".join(lines)
        try:
            read = msgspec.json.decode(answer, type=_RpcId)
        except msgspec.DecodeError:
            return  # for the SDK to refuse
        if read.error is None and read.id != self._rpc_id:
            raise httpx.RemoteProtocolError(f"its answer has the id {read.id!r}, so it may belong to another call")

    async def aclose(self) -> None:
        await self._stream.aclose()


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Read once: reading them takes longer than a turn of many agents."""
    return ssl.create_default_context()


def _proxy(given: tuple[str, str] | None) -> httpx.Proxy | None:
    if given is None:
        return None
    url, authorization = given
    return httpx.Proxy(url, headers={"Proxy-Authorization": authorization} if authorization else None)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
