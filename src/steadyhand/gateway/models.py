"""Model calls of an external agent: they become calls of its trial, and the trial's model answers them.

Mounted as `openai` and `anthropic`, so that an agent's own client finds `…/openai/chat/completions`,
`…/openai/responses` and `…/anthropic/v1/messages`. A model with the client's own API gets the original body, with the
model's name and the key replaced, and its answer is returned unchanged, including headers and errors. For any other
model, requests and answers are translated.

A streamed answer is forwarded while it arrives, as long as the client is connected: byte for byte in the client's own
format; otherwise its text, and the rest at the end. Nothing can be taken back, so a call is retried only before its
first chunk is sent. If the client disconnects, the call ends.

A client of the Responses API may continue a response, or refer to an item of one. They are kept here, so that it works
with any model: the request that reaches the model has the whole exchange.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from steadyhand.errors import ModelError, TrialError
from steadyhand.gateway.connection import (
    GatewayConnection,
    GatewayRequest,
    GatewayResponse,
    json_response,
    refusal,
)
from steadyhand.gateway.server import Address, Mount, TrialEndpoint
from steadyhand.gateway.traffic import traffic_of
from steadyhand.ports.agent import Addresses
from steadyhand.ports.model import ChatModel, end_to_end, relay
from steadyhand.records.base import plain_object
from steadyhand.records.chat import Attempt, ChatRequest, ChatResponse, ClientBody, FinishReason
from steadyhand.wire.anthropic_messages import AnthropicMessages
from steadyhand.wire.bedrock_converse import BedrockConverse
from steadyhand.wire.dialect import AnswerStream, BadRequest, Interface, encode, events, object_of
from steadyhand.wire.gemini import Gemini
from steadyhand.wire.openai_chat import OpenAIChat
from steadyhand.wire.openai_responses import OpenAIResponses

PLACEHOLDER_KEY = "steadyhand-gateway"
_OWN_HEADERS = (
    "host",
    "accept-encoding",
    "expect",
    "authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "cookie",
)
"""Headers of an agent's client about this connection, and its key."""
_NO_HEADERS: dict[str, str] = {}
_GEMINI_STREAM, _BEDROCK_STREAM = ":streamGenerateContent", "/converse-stream"
_STREAMS = (_GEMINI_STREAM, _BEDROCK_STREAM)


class ModelMount(Mount):
    """One vendor's interfaces, by the path they are called at."""

    def __init__(
        self, name: str, variables: tuple[str, ...], keys: tuple[str, ...], interfaces: dict[str, Interface]
    ) -> None:
        """`variables` are those in which clients look for the address, and `keys` for the key."""
        self._name = name
        self._variables = variables
        self._keys = keys
        self._interfaces = interfaces

    def addresses(self, address: Address) -> Addresses:
        """Empty without a model: the agent then uses its usual provider."""
        if address.model is None:
            return Addresses()
        url = address.url(self._name)
        return Addresses(
            names={f"{self._name}_base_url": url, f"{self._name}_api_key": PLACEHOLDER_KEY},
            variables={**dict.fromkeys(self._variables, url), **dict.fromkeys(self._keys, PLACEHOLDER_KEY)},
        )

    async def serve(self, request: GatewayRequest, endpoint: TrialEndpoint) -> GatewayResponse:
        path = request.path.removeprefix("v1/")
        if endpoint.model is None:
            return refusal(404, "no model is set for this trial; set one with --model")
        if request.method == "GET" and (path == "models" or path.startswith("models/")):
            return json_response(_models(endpoint.model.name, path.partition("/")[2]))
        interface = self._interface(path)
        if interface is None or request.method != "POST":
            served = ", ".join(f"POST {known if known[0] in ':/' else f'/{known}'}" for known in self._interfaces)
            return refusal(
                404,
                f"{request.method} /{path} is not served by the gateway, which stands in for a chat model and serves "
                f"{served} and GET /models. Give the agent the provider's own address and key for anything else",
            )
        try:
            body = plain_object(msgspec.json.decode(request.body, type=dict[str, Any]))
            if path.endswith(_STREAMS):
                body["stream"] = True
            if interface.dialect == "openai_responses":
                body = kept_responses(endpoint).whole(body)
            asked = _relayed(interface, body, request.headers)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, BadRequest, ValueError) as error:
            return refusal(400, f"the request cannot be read: {error}")
        return await _answer(request, interface, body, asked, endpoint)

    def _interface(self, path: str) -> Interface | None:
        """By the path, or by how it ends, where a model's name stands before that."""
        ends = (found for known, found in self._interfaces.items() if known[0] in ":/" and path.endswith(known))
        return self._interfaces.get(path) or next(ends, None)


def openai_mount() -> ModelMount:
    interfaces: dict[str, Interface] = {"chat/completions": OpenAIChat(), "responses": OpenAIResponses()}
    return ModelMount("openai", ("OPENAI_BASE_URL", "OPENAI_API_BASE"), ("OPENAI_API_KEY",), interfaces)


def anthropic_mount() -> ModelMount:
    return ModelMount("anthropic", ("ANTHROPIC_BASE_URL",), ("ANTHROPIC_API_KEY",), {"messages": AnthropicMessages()})


def gemini_mount() -> ModelMount:
    interfaces: dict[str, Interface] = dict.fromkeys((":generateContent", _GEMINI_STREAM), Gemini())
    keys = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
    return ModelMount("gemini", ("GOOGLE_GEMINI_BASE_URL",), keys, interfaces)


def bedrock_mount() -> ModelMount:
    """Without a key: its clients sign with the AWS credentials that they have, which are for other services too."""
    interfaces: dict[str, Interface] = dict.fromkeys(("/converse", _BEDROCK_STREAM), BedrockConverse())
    return ModelMount("bedrock", ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME",), (), interfaces)


def _models(name: str, wanted: str) -> dict[str, Any]:
    """The list of models, or one of them, in a format that both vendors' clients understand. The trial's model answers
    for any name, so any name exists.
    """

    def model(called: str) -> dict[str, Any]:
        for_openai = {"id": called, "object": "model", "created": 0, "owned_by": "steadyhand"}
        return {**for_openai, "type": "model", "display_name": called, "created_at": "1970-01-01T00:00:00Z"}

    if wanted:
        return model(wanted)
    return {"object": "list", "data": [model(name)], "first_id": name, "last_id": name, "has_more": False}


async def _answer(
    request: GatewayRequest, interface: Interface, body: dict[str, Any], asked: ChatRequest, endpoint: TrialEndpoint
) -> GatewayResponse:
    assert endpoint.model is not None
    assert request.connection is not None
    asked_ms = endpoint.trial.elapsed_ms()
    streamed = StreamedAnswer(request.connection, interface, body) if body.get("stream") else None
    try:
        answer = await endpoint.trial.call(RelayedModel(endpoint.model, request.connection, streamed), asked)
    except ModelError as error:
        if streamed is None or not streamed.begun:
            return _failed(error)
        streamed.fail(error)
        traffic_of(endpoint).passed(asked_ms, asked, (), whole=False)
        return GatewayResponse(sent=True)
    except TrialError as error:
        return refusal(500, str(error))
    if streamed is None or not streamed.begun:
        response = _whole(interface, answer, body)
    else:
        streamed.finish(answer)
        response = GatewayResponse(sent=True)
    if interface.dialect == "openai_responses":
        kept_responses(endpoint).keep(body, interface, answer)
    hung_up = answer.finish_reason is FinishReason.HUNG_UP and streamed is not None and streamed.begun
    traffic_of(endpoint).passed(asked_ms, asked, answer.tool_calls, whole=not hung_up)
    return response


def _relayed(interface: Interface, body: dict[str, Any], headers: Mapping[str, str]) -> ChatRequest:
    """The model's name is not stored: the trial chooses the model, not the agent."""
    asked = interface.read(body)
    if not asked.messages:
        raise BadRequest("it contains no messages")
    kept = {name: value for name, value in body.items() if name != "model"}
    passed = end_to_end(headers, without=_OWN_HEADERS)
    return msgspec.structs.replace(asked, client=ClientBody(dialect=interface.dialect, fields=kept, headers=passed))


def _whole(interface: Interface, answer: ChatResponse, body: dict[str, Any]) -> GatewayResponse:
    """An answer that has not been sent yet."""
    streamed = bool(body.get("stream"))
    kind = interface.stream_type if streamed else "application/json"
    if answer.body is not None and answer.attempt.streamed == streamed:
        came = answer.body.encode()
        if streamed and (wanted := interface.filter(body)) is not None:
            came = wanted(came) + wanted(b"")
        return GatewayResponse(body=came, content_type=kind, headers=answer.headers)
    made = events(interface, answer, body) if streamed else encode(interface.whole(answer, body))
    return GatewayResponse(body=made, content_type=kind)


def _failed(error: ModelError) -> GatewayResponse:
    """The provider's own error, or one that tells the client not to retry, because we already did."""
    if error.answer is not None:
        return GatewayResponse(
            status=error.answer.status, body=error.answer.body.encode(), headers=error.answer.headers
        )
    status = error.status
    if status is None or status < 400:
        status = {"rate_limit": 429, "auth": 401, "refused": 400, "timeout": 504}.get(error.kind, 502)
    refused = refusal(status, str(error))
    if error.retry_after_s is None:
        return refused
    return msgspec.structs.replace(refused, headers={"retry-after": str(math.ceil(error.retry_after_s))})


class StreamedAnswer:
    """An answer being sent to a client that requested a stream. Implements `ports.model.Listener`."""

    def __init__(self, connection: GatewayConnection, interface: Interface, body: Mapping[str, Any]) -> None:
        self.begun: bool = False
        self._connection = connection
        self._interface = interface
        self._body = body
        self._filter = interface.filter(body)
        self._translated: AnswerStream | None = None
        self._ended: bool = False

    @property
    def gone(self) -> bool:
        return self._connection.gone

    @property
    def full(self) -> bool:
        return self._connection.full

    async def ready(self) -> None:
        await self._connection.ready()

    def pass_on(self, piece: bytes, headers: Mapping[str, str]) -> None:
        self._send(piece if self._filter is None else self._filter(piece), headers)

    def end(self) -> None:
        self._ended = True

    def say(self, text: str) -> None:
        if self._translated is None:
            self._translated = self._interface.stream(self._body)
            self._send(self._translated.open() + self._translated.piece(text))
        else:
            self._send(self._translated.piece(text))

    def finish(self, response: ChatResponse) -> None:
        """Send the rest of an answer that has started. If it was broken off in a recording, it breaks off here too."""
        if response.finish_reason is FinishReason.HUNG_UP:
            self._connection.break_off()
            return
        if self._translated is not None:
            self._send(self._translated.close(response))
        elif self._filter is not None:
            self._send(self._filter(b""))
        self._connection.end()

    def fail(self, error: ModelError) -> None:
        """End an answer that has started the way it ended: complete, or broken off."""
        if self._translated is not None:
            self._send(self._translated.fail(str(error)))
        elif self._filter is not None:
            self._send(self._filter(b""))
        if self._translated is not None or self._ended:
            self._connection.end()
        else:
            self._connection.break_off()

    def _send(self, data: bytes, headers: Mapping[str, str] = _NO_HEADERS) -> None:
        if not data:
            return
        if self.begun:
            self._connection.write(data)
        else:
            self.begun = True
            self._connection.begin(GatewayResponse(headers=headers, content_type=self._interface.stream_type), data)


class RelayedModel:
    """The trial's model for a single call, for the client on this connection. A `ports.model.ChatModel`."""

    def __init__(self, model: ChatModel, connection: GatewayConnection, answer: StreamedAnswer | None) -> None:
        """Without `answer`, the client waits for the complete answer."""
        self._model = model
        self._connection = connection
        self._answer = answer

    @property
    def name(self) -> str:
        return self._model.name

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        if self._connection.gone:
            return _nothing_heard(zero)
        began = time.perf_counter()
        asking = asyncio.get_running_loop().create_task(relay(self._model, request, self._answer, zero=zero))
        self._connection.when_gone = asking.cancel
        try:
            return await asking
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._connection.gone or (task is not None and task.cancelling()):
                raise
            return _nothing_heard(zero, began)
        except ModelError as error:
            if self._answer is not None and self._answer.begun:
                error.retryable = False
            raise
        finally:
            self._connection.when_gone = None

    async def close(self) -> None:
        """The owner of the trial's model closes it."""


def _nothing_heard(zero: float, sent: float | None = None) -> ChatResponse:
    """The client disconnected before any of the answer had arrived."""
    started_ms = round(((time.perf_counter() if sent is None else sent) - zero) * 1000, 3)
    attempt = Attempt(started_ms=started_ms, sent_ms=None if sent is None else started_ms)
    return ChatResponse(text="", attempt=attempt, finish_reason=FinishReason.HUNG_UP)


_KEPT = "responses"
_MOST = 500


class KeptResponses:
    """What was asked and answered. An answer is read only when it is continued."""

    def __init__(self) -> None:
        self._unread: list[tuple[dict[str, Any], Interface, ChatResponse]] = []
        self._exchanges: dict[str, list[Any]] = {}
        self._made: dict[str, Any] = {}

    def keep(self, body: dict[str, Any], interface: Interface, answer: ChatResponse) -> None:
        if body.get("store") is not False:
            self._unread = [*self._unread[-_MOST:], (body, interface, answer)]

    def whole(self, body: dict[str, Any]) -> dict[str, Any]:
        """The request with everything that it continues. Raises `BadRequest` if that is not known."""
        given = _items(body)
        previous, referred = body.get("previous_response_id"), any(_is_reference(item) for item in given)
        if not previous and not referred:
            return body
        self._read()
        before: list[Any] = []
        if previous:
            found = self._exchanges.get(str(previous))
            if found is None:
                raise BadRequest(f"`previous_response_id` is {previous!r}, which is no response of this trial")
            before = found
        kept = {name: value for name, value in body.items() if name != "previous_response_id"}
        return {**kept, "input": [*before, *(self._referred_item(item) for item in given)]}

    def _read(self) -> None:
        unread, self._unread = self._unread, []
        for asked, interface, answer in unread:
            made = _response(answer) or interface.whole(answer, asked)
            output = cast("list[Any]", made.get("output") or [])
            self._exchanges[str(made.get("id"))] = [*_items(asked), *output]
            self._made.update((str(object_of(item).get("id")), item) for item in output)

    def _referred_item(self, item: Any) -> Any:
        """The item that a reference stands for. Raises `BadRequest`."""
        if not _is_reference(item):
            return item
        if (made := self._made.get(str(item["id"]))) is None:
            raise BadRequest(f"an item refers to {item['id']!r}, which is in no response of this trial")
        return made


def _is_reference(item: Any) -> bool:
    """The type may be left out."""
    fields = object_of(item)
    return "id" in fields and fields.keys() <= {"id", "type"} and fields.get("type") in (None, "item_reference")


def _items(body: Mapping[str, Any]) -> list[Any]:
    given = body.get("input")
    return [{"role": "user", "content": given}] if isinstance(given, str) else list(cast("list[Any]", given or []))


def _response(answer: ChatResponse) -> dict[str, Any] | None:
    """The provider's own response, if it was forwarded: whole, or in the last event of a stream."""
    if answer.body is None:
        return None
    try:
        if not answer.attempt.streamed:
            return object_of(msgspec.json.decode(answer.body)) or None
        for line in reversed(answer.body.splitlines()):
            if line.startswith("data:") and '"response"' in line:
                return object_of(object_of(msgspec.json.decode(line[5:])).get("response")) or None
    except (msgspec.DecodeError, RecursionError):
        pass
    return None


def kept_responses(endpoint: TrialEndpoint) -> KeptResponses:
    if _KEPT not in endpoint.kept:
        endpoint.kept[_KEPT] = KeptResponses()
    return endpoint.kept[_KEPT]
