"""Model calls of an agent that is not ours: they become calls of its trial, and the trial's model answers them.

Mounted as `openai` and `anthropic`, so that an agent's own client finds `…/openai/chat/completions`,
`…/openai/responses` and `…/anthropic/v1/messages`. A model that speaks the client's own interface gets the body as it
came, with the model's name replaced, and its answer goes back as it came. For any other model, question and answer are
translated. An answer is handed on when it is complete, so that a retry, a recording or a budget can step in before.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec

from steadyhand.errors import ModelError, TrialError
from steadyhand.gateway.anthropic_messages import AnthropicMessages
from steadyhand.gateway.dialect import BadRequest, Interface, encode
from steadyhand.gateway.openai_chat import OpenAIChat
from steadyhand.gateway.openai_responses import OpenAIResponses
from steadyhand.gateway.server import Address, Door, GatewayRequest, GatewayResponse, json_response, refusal
from steadyhand.ports.agent import Addresses
from steadyhand.records.base import plain_object
from steadyhand.records.chat import ChatRequest, ChatResponse, ClientBody

PLACEHOLDER_KEY = "steadyhand-gateway"
_EVENT_STREAM = "text/event-stream; charset=utf-8"


class ModelMount:
    """A `Mount` of one vendor's interfaces, by the path they are called at."""

    def __init__(self, name: str, vendor: str, interfaces: dict[str, Interface]) -> None:
        self._name = name
        self._vendor = vendor
        self._interfaces = interfaces

    def addresses(self, address: Address) -> Addresses:
        """Nothing without a model: the agent then asks whom it always asks."""
        if address.model is None:
            return Addresses()
        url = address.url(self._name)
        return Addresses(
            names={f"{self._name}_base_url": url, f"{self._name}_api_key": PLACEHOLDER_KEY},
            variables={f"{self._vendor}_BASE_URL": url, f"{self._vendor}_API_KEY": PLACEHOLDER_KEY},
        )

    async def serve(self, request: GatewayRequest, door: Door) -> GatewayResponse:
        path = request.path.removeprefix("v1/")
        if door.model is None:
            return refusal(404, "no model is named for this trial: name one with --model")
        if path == "models" and request.method == "GET":
            held = {"id": door.model.name, "object": "model", "created": 0, "owned_by": "steadyhand"}
            return json_response({"object": "list", "data": [held]})
        interface = self._interfaces.get(path)
        if interface is None or request.method != "POST":
            served = ", ".join(f"POST {known}" for known in self._interfaces)
            return refusal(404, f"{request.method} /{path} is not served here; there is {served}")
        try:
            body = plain_object(msgspec.json.decode(request.body, type=dict[str, Any]))
            asked = _relayed(interface, body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, BadRequest, ValueError) as error:
            return refusal(400, f"the request cannot be read: {error}")
        try:
            answer = await door.trial.call(door.model, asked)
        except ModelError as error:
            return refusal(_status(error), str(error))
        except TrialError as error:
            return refusal(500, str(error))
        return _answered(interface, answer, body)

    async def settle(self, door: Door) -> None:
        """A turn's calls are over when it is: its agent has waited for them."""

    async def leave(self, door: Door) -> None:
        """Nothing is kept."""


def openai_mount(name: str = "openai") -> ModelMount:
    return ModelMount(name, "OPENAI", {"chat/completions": OpenAIChat(), "responses": OpenAIResponses()})


def anthropic_mount(name: str = "anthropic") -> ModelMount:
    return ModelMount(name, "ANTHROPIC", {"messages": AnthropicMessages()})


def _relayed(interface: Interface, body: dict[str, Any]) -> ChatRequest:
    """The model's name is left out of what is kept: which model answers is the trial's choice, not the agent's."""
    asked = interface.read(body)
    if not asked.messages:
        raise BadRequest("it asks nothing: there is no message in it")
    kept = {name: value for name, value in body.items() if name != "model"}
    return msgspec.structs.replace(asked, client=ClientBody(dialect=interface.dialect, fields=kept))


def _answered(interface: Interface, answer: ChatResponse, body: dict[str, Any]) -> GatewayResponse:
    streamed = bool(body.get("stream"))
    if answer.body is not None:
        as_it_came = interface.as_asked(answer.body.encode(), body)
        if answer.attempt.streamed == streamed:
            return GatewayResponse(body=as_it_came, content_type=_EVENT_STREAM if streamed else "application/json")
    if streamed:
        return GatewayResponse(stream=_pieces(interface.events(answer, body)), content_type=_EVENT_STREAM)
    return GatewayResponse(body=encode(interface.whole(answer, body)))


async def _pieces(events: Iterable[bytes]) -> AsyncIterator[bytes]:
    yield b"".join(events)


def _status(error: ModelError) -> int:
    """The provider's own status, or one that tells the client whether to try again: we have tried already."""
    if error.status is not None and error.status >= 400:
        return error.status
    return {"rate_limit": 429, "auth": 401, "refused": 400, "timeout": 504}.get(error.kind, 502)
